// Execute, and a client that does as its contract says: whatever becomes of a call, the same key
// again. lockstepd is killed at every failpoint while the key runs over two real clusters, or while
// a start after a crash recovers it. A key has one effect, or none: its records are on both
// clusters once, or nowhere; what it answered once is what it answers ever after; and nobody gets
// other work done under its name.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "call_context.h"
#include "clusters.h"
#include "crash_cases.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::CrashCase;
using testing::Direction;
using testing::Lockstepd;

constexpr char kTopic[] = "keyed";

struct Executed {
  grpc::Status status;
  v1::ExecuteResponse response;
};

Executed Execute(Lockstepd& daemon, const v1::ExecuteRequest& request) {
  CallContext context(30s);
  Executed executed;
  executed.status = daemon.coordinator().Execute(&context, request, &executed.response);
  return executed;
}

/// "aborted UNKNOWN_TOPIC on b" and the like, for comparing answers.
std::string OutcomeOf(const Executed& executed) {
  if (!executed.status.ok()) return executed.status.error_message();
  std::string text = v1::Outcome_Name(executed.response.outcome());
  if (executed.response.has_abort()) {
    const v1::Abort& abort = executed.response.abort();
    text += " " + v1::AbortReason_Name(abort.reason()) + " on " + abort.cluster();
  }
  return text;
}

class ExecuteCrashTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = new std::vector(testing::StartKafkaClusters(
        {{.topics = {std::string(kTopic) + ":2"}}, {.topics = {std::string(kTopic) + ":2"}}}));
  }
  static void TearDownTestSuite() { delete clusters_; }

  static const std::string& Bootstrap(int cluster) { return (*clusters_)[cluster]->bootstrap(); }

  ExecuteCrashTest() : daemon_({.clusters = {{"a", Bootstrap(0)}, {"b", Bootstrap(1)}}}) {
    daemon_.Start();  // Once in peace: log and bindings are made.
    daemon_.AwaitReady();
    daemon_.Kill();
  }

  /// A record on each cluster; `value` is theirs, and the key.
  static v1::ExecuteRequest Request(const std::string& key, const std::string& value) {
    return testing::RecordOnBoth(key, kTopic, value);
  }

  /// How often each of the values is on the cluster.
  static std::map<std::string, int> Visible(int cluster, const std::vector<std::string>& values) {
    std::map<std::string, int> counts;
    for (const std::string& value : testing::ReadValues(Bootstrap(cluster), kTopic)) {
      if (std::ranges::find(values, value) != values.end()) ++counts[value];
    }
    return counts;
  }

  void RunCase(const CrashCase& crash);
  /// In a world where it aborts: it says so, each time it is asked, and nothing is to be seen.
  void ExpectAborted(const v1::ExecuteRequest& request);
  /// It commits, also before the clusters are ready; from then on the answer stays, and so does
  /// what is to be seen.
  void ExpectOneEffect(const v1::ExecuteRequest& request, const Executed& first);

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
  Lockstepd daemon_;
};

std::vector<std::unique_ptr<testing::KafkaCluster>>* ExecuteCrashTest::clusters_ = nullptr;

void ExecuteCrashTest::ExpectAborted(const v1::ExecuteRequest& request) {
  daemon_.Start(FailpointsFor(Direction::kAbort));
  daemon_.AwaitReady();
  const Executed answer = Execute(daemon_, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_FALSE(answer.response.repeated_key());
  EXPECT_EQ(OutcomeOf(Execute(daemon_, request)), OutcomeOf(answer));
  const std::string run = answer.response.txn_id();
  EXPECT_EQ(testing::GetTxn(daemon_.coordinator(), run).state(), v1::TXN_STATE_ABORTED);
  daemon_.Kill();
  daemon_.Start();
  EXPECT_EQ(testing::GetTxn(daemon_.coordinator(), run).state(), v1::TXN_STATE_ABORTED);
  for (const int cluster : {0, 1}) EXPECT_TRUE(Visible(cluster, {request.key()}).empty());
}

void ExecuteCrashTest::ExpectOneEffect(const v1::ExecuteRequest& request, const Executed& first) {
  const Executed answer = Execute(daemon_, request);
  ASSERT_EQ(OutcomeOf(answer), "OUTCOME_COMMITTED");
  if (first.status.ok() && first.response.outcome() == v1::OUTCOME_COMMITTED) {
    EXPECT_EQ(answer.response.txn_id(), first.response.txn_id()) << "ran twice";
  }
  const Executed again = Execute(daemon_, request);
  EXPECT_EQ(OutcomeOf(again), "OUTCOME_COMMITTED");
  EXPECT_EQ(again.response.txn_id(), answer.response.txn_id());
  EXPECT_TRUE(again.response.repeated_key());
  EXPECT_EQ(testing::GetTxn(daemon_.coordinator(), again.response.txn_id()).key(), request.key());

  const std::string other = request.key() + "/other";
  v1::ExecuteRequest other_work = Request(request.key(), other);
  *other_work.mutable_key_time() = request.key_time();
  const Executed refused = Execute(daemon_, other_work);
  EXPECT_EQ(refused.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_NE(refused.status.error_details().find("KEY_REUSED"), std::string::npos)
      << OutcomeOf(refused);

  daemon_.AwaitNothingInDoubt();
  const std::map<std::string, int> once = {{request.key(), 1}};
  for (const int cluster : {0, 1}) {
    EXPECT_EQ(Visible(cluster, {request.key(), other}), once) << "on cluster " << cluster;
  }
}

void ExecuteCrashTest::RunCase(const CrashCase& crash) {
  std::string key = ToString(crash);
  std::erase(key, ' ');
  const v1::ExecuteRequest request = Request(key, key);
  Executed first;
  EXPECT_TRUE(CrashAt(crash, daemon_, [&] { first = Execute(daemon_, request); }))
      << "the failpoint was not reached";
  if (crash.direction == Direction::kAbort) {
    ExpectAborted(request);  // Restarts at its end.
  } else {
    daemon_.Start();
  }
  ExpectOneEffect(request, first);
  daemon_.Kill();
}

TEST_F(ExecuteCrashTest, AKeyHasOneEffectWhereverItCrashes) {
  for (const CrashCase& crash : testing::AllCrashCases()) {
    SCOPED_TRACE(ToString(crash));
    const auto start = std::chrono::steady_clock::now();
    RunCase(crash);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-42s %4.1f s\n", ToString(crash).c_str(), took.count());
    std::fflush(stdout);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep
