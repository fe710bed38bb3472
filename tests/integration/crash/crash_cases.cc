#include "crash_cases.h"

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <map>
#include <stdexcept>

#include "base/failpoint.h"

namespace lockstep::testing {
namespace {

/// How a failpoint is reached.
enum class Reached {
  kByCommit,    ///< In a transaction that commits.
  kByAbort,     ///< In one that aborts.
  kByBoth,      ///< In either.
  kByRecovery,  ///< At the start after a crash: decided, or undecided.
  kByRecoveryOfCommit,
};

const std::map<std::string_view, Reached>& Cases() {
  static const std::map<std::string_view, Reached> cases = {
      {"coordinator.before_prepare", Reached::kByBoth},
      {"coordinator.votes_in", Reached::kByCommit},
      {"coordinator.decision_durable", Reached::kByCommit},
      {"coordinator.participant_ended", Reached::kByCommit},
      {"coordinator.before_answer", Reached::kByBoth},
      {"coordinator.completion_durable", Reached::kByCommit},
      {"coordinator.abort_chosen", Reached::kByAbort},
      {"recovery.log_opened", Reached::kByRecovery},
      {"resolver.before_end_txn", Reached::kByRecoveryOfCommit},
      {"resolver.after_end_txn", Reached::kByRecoveryOfCommit},
      {"resolver.concluded", Reached::kByRecoveryOfCommit},
      {"log.before_sync", Reached::kByCommit},
      {"log.after_sync", Reached::kByCommit},
      {"lane.before_init", Reached::kByRecovery},
      {"lane.after_init", Reached::kByRecovery},
      {"lane.before_produce", Reached::kByBoth},
      {"lane.after_flush", Reached::kByBoth},
      {"lane.after_offsets", Reached::kByBoth},
      {"lane.before_vote", Reached::kByBoth},
      {"lane.before_commit", Reached::kByCommit},
      {"lane.after_commit", Reached::kByCommit},
      {"lane.before_abort", Reached::kByAbort},
      {"lane.after_abort", Reached::kByAbort},
      {"fence.before", Reached::kByRecovery},
      {"fence.after", Reached::kByRecovery},
  };
  return cases;
}

bool Covers(Reached reached, Direction direction) {
  switch (reached) {
    case Reached::kByCommit:
    case Reached::kByRecoveryOfCommit:
      return direction == Direction::kCommit;
    case Reached::kByAbort:
      return direction == Direction::kAbort;
    case Reached::kByBoth:
    case Reached::kByRecovery:
      return true;
  }
  std::abort();
}

bool InRecovery(Reached reached) {
  return reached == Reached::kByRecovery || reached == Reached::kByRecoveryOfCommit;
}

}  // namespace

std::vector<CrashCase> AllCrashCases() {
  for (const FailpointInfo& info : AllFailpoints()) {
    if (!Cases().contains(info.name)) {
      throw std::runtime_error("no crash case reaches " + std::string(info.name));
    }
  }
  std::vector<CrashCase> all;
  for (const auto& [failpoint, reached] : Cases()) {
    for (const Direction direction : {Direction::kCommit, Direction::kAbort}) {
      if (Covers(reached, direction)) all.push_back({failpoint, direction, InRecovery(reached)});
    }
  }
  return all;
}

std::string ToString(const CrashCase& crash) {
  return std::string(crash.failpoint) +
         (crash.direction == Direction::kCommit ? ", commit" : ", abort");
}

std::vector<std::string> FailpointsFor(Direction direction) {
  if (direction == Direction::kCommit) return {};
  return {"lane.before_vote@b=delay:200", "lane.before_vote@b=error"};
}

v1::ExecuteRequest RecordOnBoth(const std::string& key, const std::string& topic,
                                const std::string& value) {
  v1::ExecuteRequest request;
  request.set_key(key);
  request.mutable_key_time()->set_seconds(std::time(nullptr));
  request.mutable_timeout()->set_seconds(20);
  for (const char* cluster : {"a", "b"}) {
    v1::ProduceWork& produce = *request.add_work()->mutable_produce();
    produce.set_cluster(cluster);
    v1::Record& record = *produce.add_records();
    record.set_topic(topic);
    record.set_value(value);
  }
  return request;
}

bool AwaitCrash(Lockstepd& daemon) {
  const auto status = daemon.AwaitEnd(std::chrono::seconds(20));
  return status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
}

bool CrashAt(const CrashCase& crash, Lockstepd& daemon, const std::function<void()>& transaction) {
  const std::string armed = std::string(crash.failpoint) + "=crash";
  bool crashed = true;
  if (crash.in_recovery) {
    // A crash that leaves work: a committed and b open, or both open and nothing decided.
    daemon.Start({crash.direction == Direction::kCommit ? "lane.before_commit@b=crash"
                                                        : "coordinator.votes_in=crash"});
    daemon.AwaitReady();
    transaction();
    crashed = AwaitCrash(daemon);
    if (!crashed) daemon.Kill();
    daemon.Spawn({armed});
  } else {
    std::vector<std::string> failpoints = FailpointsFor(crash.direction);
    failpoints.insert(failpoints.begin(), armed);
    daemon.Start(failpoints);
    daemon.AwaitReady();
    transaction();
  }
  crashed &= AwaitCrash(daemon);
  daemon.Kill();
  return crashed;
}

}  // namespace lockstep::testing
