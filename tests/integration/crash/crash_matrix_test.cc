// Every failpoint, one after the other, crashes lockstepd (SIGKILL, so that nothing is flushed)
// while a transaction over two real clusters commits or aborts, or while a start after a crash
// recovers. Whatever the point, both clusters agree in the end with what lockstepd says, and
// nothing of ours stays open on them. A failpoint that its case does not reach fails the test, and
// so does one that has no case.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <future>

#include "clusters.h"
#include "crash_cases.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "wire/client.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::CrashCase;

constexpr char kTopic[] = "matrix";

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

  static Outcome RunCase(const CrashCase& crash) {
    testing::Lockstepd daemon({.clusters = {{"a", Bootstrap(0)}, {"b", Bootstrap(1)}}});
    daemon.Start();  // Once in peace: log and bindings are made.
    daemon.AwaitReady();
    daemon.Stop();

    const std::string value =
        ToString(crash) + " " +
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    Outcome outcome;
    std::string id;
    outcome.crashed = CrashAt(crash, daemon, [&] { outcome.answered = RunTxn(daemon, value, id); });

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

void PrintRow(const CrashCase& crash, const Outcome& outcome, double seconds) {
  std::printf("%-42s %-9s a: %-8s b: %-8s %-22s %4.1f s\n", ToString(crash).c_str(),
              outcome.crashed ? "crashed" : "NOT HIT", outcome.visible_on_a ? "visible" : "-",
              outcome.visible_on_b ? "visible" : "-", v1::TxnState_Name(outcome.state).c_str(),
              seconds);
  std::fflush(stdout);
}

TEST_F(CrashMatrixTest, BothClustersAgreeWhereverItCrashes) {
  for (const CrashCase& crash : testing::AllCrashCases()) {
    SCOPED_TRACE(ToString(crash));
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = RunCase(crash);
    PrintRow(crash, outcome,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    CheckOutcome(outcome);
  }
}

}  // namespace
}  // namespace lockstep
