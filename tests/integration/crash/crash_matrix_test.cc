// Every failpoint, one after the other, crashes lockstepd (SIGKILL, so that nothing is flushed)
// while a transaction over two real clusters commits or aborts, or while a start after a crash
// recovers. Whatever the point, both clusters agree in the end with what lockstepd says, and
// nothing of ours stays open on them. A failpoint that its case does not reach fails the test, and
// so does one that has no case here.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <future>
#include <iostream>
#include <map>
#include <set>

#include "base/failpoint.h"
#include "clusters.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "wire/client.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr char kTopic[] = "matrix";

enum class Direction { kCommit, kAbort };

/// How a failpoint is reached.
enum class Reached {
  kByCommit,    ///< In a transaction that commits.
  kByAbort,     ///< In one that aborts once both clusters hold it prepared.
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

struct Outcome {
  bool crashed = false;  ///< The failpoint was reached.
  v1::TxnState state = v1::TXN_STATE_UNSPECIFIED;
  bool visible_on_a = false;
  bool visible_on_b = false;
  std::optional<v1::Outcome> answered;
};

class CrashMatrixTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = new std::vector(testing::StartKafkaClusters(
        {{.topics = {std::string(kTopic) + ":2"}}, {.topics = {std::string(kTopic) + ":2"}}}));
  }
  static void TearDownTestSuite() { delete clusters_; }

  static const std::string& Bootstrap(int cluster) { return (*clusters_)[cluster]->bootstrap(); }

  static bool Visible(int cluster, const std::string& value) {
    const auto values = testing::ReadValues(Bootstrap(cluster), kTopic);
    const auto count = std::count(values.begin(), values.end(), value);
    EXPECT_LE(count, 1) << "'" << value << "' was doubled";
    return count > 0;
  }

  /// Nothing of this log's is open on the cluster.
  static std::vector<std::string> LeftOpen(int cluster, const std::string& log_id) {
    wire::IoThread io;
    wire::Client client(io, {.bootstrap = {Bootstrap(cluster)}});
    std::promise<Result<wire::TransactionListing>> promise;
    client.ListTransactions({{}, "lockstep-" + log_id}, 10s,
                            [&](auto result) { promise.set_value(std::move(result)); });
    const auto listing = promise.get_future().get();
    EXPECT_TRUE(listing.ok() && listing->failures.empty());
    std::vector<std::string> open;
    for (const auto& listed : listing->transactions) {
      if (listed.state == txn::KafkaTxnState::kOngoing)
        open.push_back(listed.transactional_id.get());
    }
    return open;
  }

  /// One transaction with a record on each cluster; lockstepd may die at any moment of it.
  static std::optional<v1::Outcome> RunTxn(testing::Lockstepd& daemon, const std::string& value,
                                           std::string& id) {
    testing::TestTxn txn(daemon.coordinator());
    id = txn.id();
    EXPECT_TRUE(txn.Produce("a", kTopic, value).ok());
    EXPECT_TRUE(txn.Produce("b", kTopic, value).ok());
    v1::CommitResponse response;
    if (!txn.Commit(&response).ok()) return std::nullopt;
    return response.outcome();
  }

  /// What makes the transaction abort once it is written everywhere: b's vote is late, and NO.
  static std::vector<std::string> With(Direction direction, std::vector<std::string> failpoints) {
    if (direction == Direction::kAbort) {
      failpoints.emplace_back("lane.before_vote@b=delay:200");
      failpoints.emplace_back("lane.before_vote@b=error");
    }
    return failpoints;
  }

  static bool AwaitCrash(testing::Lockstepd& daemon) {
    const auto status = daemon.AwaitEnd(20s);
    return status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
  }

  static Outcome RunCase(std::string_view failpoint, Reached reached, Direction direction) {
    testing::Lockstepd daemon({.clusters = {{"a", Bootstrap(0)}, {"b", Bootstrap(1)}}});
    daemon.Start();  // Once in peace: log and bindings are made.
    daemon.AwaitReady();
    daemon.Stop();

    const std::string armed = std::string(failpoint) + "=crash";
    const std::string value =
        std::string(failpoint) + (direction == Direction::kCommit ? " commit " : " abort ") +
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    Outcome outcome;
    std::string id;
    if (InRecovery(reached)) {
      // A crash that leaves work: a committed and b open, or both open and nothing decided.
      daemon.Start({direction == Direction::kCommit ? "lane.before_commit@b=crash"
                                                    : "coordinator.votes_in=crash"});
      daemon.AwaitReady();
      outcome.answered = RunTxn(daemon, value, id);
      EXPECT_TRUE(AwaitCrash(daemon));
      daemon.Spawn({armed});
    } else {
      daemon.Start(With(direction, {armed}));
      daemon.AwaitReady();
      outcome.answered = RunTxn(daemon, value, id);
    }
    outcome.crashed = AwaitCrash(daemon);
    if (!outcome.crashed) daemon.Kill();

    daemon.Start();
    daemon.AwaitReady();
    daemon.AwaitNothingInDoubt();
    outcome.state = testing::GetTxn(daemon.coordinator(), id).state();
    outcome.visible_on_a = Visible(0, value);
    outcome.visible_on_b = Visible(1, value);
    for (const int cluster : {0, 1}) {
      EXPECT_EQ(LeftOpen(cluster, id.substr(0, 16)), std::vector<std::string>{})
          << "still open on cluster " << cluster;
    }
    std::string next;
    EXPECT_EQ(RunTxn(daemon, value + ", the next", next), v1::OUTCOME_COMMITTED);
    return outcome;
  }

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
};

std::vector<std::unique_ptr<testing::KafkaCluster>>* CrashMatrixTest::clusters_ = nullptr;

void CheckOutcome(const Outcome& outcome) {
  EXPECT_TRUE(outcome.crashed) << "the failpoint was not reached";
  EXPECT_EQ(outcome.visible_on_a, outcome.visible_on_b) << "TORN";
  EXPECT_EQ(outcome.state, outcome.visible_on_a ? v1::TXN_STATE_COMMITTED : v1::TXN_STATE_ABORTED);
  if (outcome.answered == v1::OUTCOME_COMMITTED) {
    EXPECT_TRUE(outcome.visible_on_a) << "a promise was broken";
  }
  if (outcome.answered == v1::OUTCOME_ABORTED) {
    EXPECT_FALSE(outcome.visible_on_a) << "a promise was broken";
  }
}

void PrintRow(std::string_view failpoint, Direction direction, const Outcome& outcome,
              double seconds) {
  std::printf("%-34s %-7s %-9s a: %-8s b: %-8s %-22s %4.1f s\n", std::string(failpoint).c_str(),
              direction == Direction::kCommit ? "commit" : "abort",
              outcome.crashed ? "crashed" : "NOT HIT", outcome.visible_on_a ? "visible" : "-",
              outcome.visible_on_b ? "visible" : "-", v1::TxnState_Name(outcome.state).c_str(),
              seconds);
  std::fflush(stdout);
}

TEST_F(CrashMatrixTest, EveryFailpointHasACase) {
  std::set<std::string_view> known;
  for (const FailpointInfo& info : AllFailpoints()) {
    known.insert(info.name);
    EXPECT_TRUE(Cases().contains(info.name)) << info.name << " has no case in this matrix";
  }
  for (const auto& [name, reached] : Cases()) EXPECT_TRUE(known.contains(name)) << name;
}

TEST_F(CrashMatrixTest, BothClustersAgreeWhereverItCrashes) {
  for (const auto& [failpoint, reached] : Cases()) {
    for (const Direction direction : {Direction::kCommit, Direction::kAbort}) {
      if (!Covers(reached, direction)) continue;
      SCOPED_TRACE(std::string(failpoint) +
                   (direction == Direction::kCommit ? ", commit" : ", abort"));
      const auto start = std::chrono::steady_clock::now();
      const Outcome outcome = RunCase(failpoint, reached, direction);
      PrintRow(failpoint, direction, outcome,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      CheckOutcome(outcome);
    }
  }
}

}  // namespace
}  // namespace lockstep
