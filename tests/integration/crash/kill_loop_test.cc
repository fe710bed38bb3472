// Random kill -9 of lockstepd under load, over two real clusters. Afterwards every transaction that
// any client began is on both clusters or on none, as lockstepd says and as the client was told.
//
// LOCKSTEP_KILLS sets how often it is killed, LOCKSTEP_SEED how; both are printed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "clusters.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "steady_clients.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr char kTopic[] = "load";
constexpr int kClients = 4;

int FromEnvironment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

/// What clients know of one transaction.
struct Attempt {
  std::string value;  ///< Written to both clusters.
  std::optional<v1::Outcome> answered;
};

/// Transactions one after another, whoever serves at the moment. Every tenth is aborted.
class Load {
 public:
  explicit Load(testing::Lockstepd& daemon)
      : daemon_(daemon), clients_(daemon, kClients, [this](const std::string& value, int n) {
          RunOne(value, n % 10 == 9);
        }) {}

  void Finish() { clients_.Finish(); }
  void Restart() { clients_.Restart(); }
  const std::map<std::string, Attempt>& attempts() const { return attempts_; }
  int answered() const { return answered_; }

 private:
  void RunOne(const std::string& value, bool abort) {
    testing::TestTxn txn(daemon_.coordinator());
    {
      const std::lock_guard lock(mutex_);
      attempts_[txn.id()].value = value;
    }
    if (!txn.Produce("a", kTopic, value).ok() || !txn.Produce("b", kTopic, value).ok()) return;
    v1::CommitResponse committed;
    v1::AbortResponse aborted;
    const grpc::Status status = abort ? txn.Abort(&aborted) : txn.Commit(&committed, 10s);
    if (!status.ok()) return;
    ++answered_;
    const std::lock_guard lock(mutex_);
    attempts_[txn.id()].answered = abort ? aborted.outcome() : committed.outcome();
  }

  testing::Lockstepd& daemon_;
  std::mutex mutex_;
  std::map<std::string, Attempt> attempts_;
  std::atomic<int> answered_{0};
  testing::SteadyClients clients_;  // Last: they use the others.
};

/// Every value at most once, or the test fails.
std::set<std::string> ReadOnce(const std::string& bootstrap) {
  std::set<std::string> seen;
  for (std::string& value : testing::ReadValues(bootstrap, kTopic)) {
    EXPECT_TRUE(seen.insert(value).second) << "doubled: " << value;
  }
  return seen;
}

TEST(KillLoopTest, BothClustersAgreeOnEveryTransaction) {
  const int kills = FromEnvironment("LOCKSTEP_KILLS", 40);
  const int seed = FromEnvironment("LOCKSTEP_SEED", static_cast<int>(std::random_device{}() >> 1U));
  std::printf("LOCKSTEP_KILLS=%d LOCKSTEP_SEED=%d\n", kills, seed);
  std::fflush(stdout);
  std::mt19937 random(static_cast<unsigned>(seed));

  const auto clusters = testing::StartKafkaClusters(
      {{.topics = {std::string(kTopic) + ":3"}}, {.topics = {std::string(kTopic) + ":3"}}});
  testing::Lockstepd daemon(
      {.clusters = {{"a", clusters[0]->bootstrap()}, {"b", clusters[1]->bootstrap()}}});
  daemon.Start();
  daemon.AwaitReady();
  Load load(daemon);
  int in_recovery = 0;
  for (int i = 0; i < kills; ++i) {
    // One kill in four comes at once, into the recovery from the one before.
    const bool at_once = i > 0 && random() % 4 == 0;
    if (!at_once) {
      const int before = load.answered();
      daemon.Await("load", 60s, [&] { return load.answered() > before + 3; });
    }
    in_recovery += at_once ? 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));  // When is the point.
    daemon.Kill();
    load.Restart();
  }
  load.Finish();
  daemon.AwaitReady();
  daemon.AwaitNothingInDoubt();

  const std::set<std::string> on_a = ReadOnce(clusters[0]->bootstrap());
  const std::set<std::string> on_b = ReadOnce(clusters[1]->bootstrap());
  EXPECT_EQ(on_a, on_b) << "TORN";
  std::map<v1::TxnState, int> states;
  std::set<std::string> committed;
  for (const auto& [id, attempt] : load.attempts()) {
    const v1::TxnState state = testing::GetTxn(daemon.coordinator(), id).state();
    ++states[state];
    if (state == v1::TXN_STATE_COMMITTED) committed.insert(attempt.value);
    if (attempt.answered == v1::OUTCOME_COMMITTED) {
      EXPECT_EQ(state, v1::TXN_STATE_COMMITTED) << id << ": a promise was broken";
    }
    if (attempt.answered == v1::OUTCOME_ABORTED) {
      EXPECT_EQ(state, v1::TXN_STATE_ABORTED) << id << ": a promise was broken";
    }
  }
  EXPECT_EQ(on_a, committed) << "what is visible is not what lockstepd says";
  std::printf("%d kills, %d of them into a recovery; %zu transactions begun, %d answered\n", kills,
              in_recovery, load.attempts().size(), load.answered());
  for (const auto& [state, count] : states) {
    std::printf("  %-22s %d\n", v1::TxnState_Name(state).c_str(), count);
  }
  EXPECT_GT(states[v1::TXN_STATE_COMMITTED], kills) << "too little load to prove anything";
}

}  // namespace
}  // namespace lockstep
