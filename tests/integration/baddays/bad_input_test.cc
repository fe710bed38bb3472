// What a client may get wrong, and Commit and Abort in every order: each is refused by name, or has
// one outcome, on both clusters.

#include <grpcpp/grpcpp.h>

#include <array>
#include <future>

#include "fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Lockstepd;
using ::testing::Not;
using testing::TestTxn;

/// Bad input is not to cost a process each.
class BadInputTest : public BadDaysTest {
 protected:
  static void SetUpTestSuite() {
    auto options = BothClusters();
    // More than brokers take (1 MB): theirs is the word.
    options.extra_yaml = "limits: {record_bytes: 2MiB}\n";
    daemon_ = new Lockstepd(options);
    daemon_->Start();
    daemon_->AwaitReady();
  }
  static void TearDownTestSuite() { delete daemon_; }

  static v1::CommitResponse MustCommit(TestTxn& txn) {
    v1::CommitResponse response;
    const grpc::Status status = txn.Commit(&response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static v1::AbortResponse MustAbort(TestTxn& txn) {
    v1::AbortResponse response;
    const grpc::Status status = txn.Abort(&response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static TestTxn OnBoth(const std::string& topic, const std::string& value,
                        std::chrono::seconds timeout = 60s) {
    TestTxn txn(daemon_->coordinator(), timeout);
    EXPECT_TRUE(txn.Produce("a", topic, value).ok());
    EXPECT_TRUE(txn.Produce("b", topic, value).ok());
    return txn;
  }
  static v1::TxnState StateOf(const TestTxn& txn) {
    return testing::GetTxn(daemon_->coordinator(), txn.id()).state();
  }

  static Lockstepd* daemon_;
};
Lockstepd* BadInputTest::daemon_ = nullptr;

TEST_F(BadInputTest, WhatIsRefusedAtOnceLeavesTheTransactionAsItWas) {
  const std::string topic = NewTopic();
  TestTxn txn = OnBoth(topic, "kept");
  const grpc::Status unknown = txn.Produce("c", topic, "x");
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(unknown.error_message(), HasSubstr("no 'c' is configured; there are: a, b"));

  EXPECT_THAT(Ctl(*daemon_, {"commit", ""}).out, HasSubstr("txn_id: is required"));
  const testing::Ran malformed = Ctl(*daemon_, {"commit", "no-id-of-ours"});
  EXPECT_EQ(malformed.exit_code, 1);
  EXPECT_THAT(malformed.out,
              HasSubstr("'no-id-of-ours' is not a transaction id; ids come from BeginGlobalTxn"));

  EXPECT_EQ(MustCommit(txn).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_THAT(OnA(topic), ElementsAre("kept"));
  EXPECT_THAT(OnB(topic), ElementsAre("kept"));
}

TEST_F(BadInputTest, WhatABrokerRefusesAbortsOnBothAndNamesTheCulprit) {
  const std::string topic = NewTopic();
  struct Case {
    std::string topic;
    std::string value;
    std::int32_t partition;
    v1::AbortReason reason;
    std::string says;
  };
  const std::string missing = topic + "-missing";
  const std::vector<Case> cases = {
      {missing, "x", 0, v1::ABORT_REASON_UNKNOWN_TOPIC,
       "topic '" + missing + "': it does not exist; Lockstep never creates one"},
      {topic, "x", 2, v1::ABORT_REASON_UNKNOWN_PARTITION,
       "topic '" + topic + "' has no partition 2; it has 2"},
      {topic, std::string(1'500'000, 'x'), 1, v1::ABORT_REASON_RECORD_TOO_LARGE,
       "record 1, " + topic + "-1"},  // It is written before Commit: of how many is not known.
  };
  for (const Case& c : cases) {
    TestTxn txn(daemon_->coordinator());
    ASSERT_TRUE(txn.Produce("a", topic, "dropped").ok());
    ASSERT_TRUE(txn.Produce("b", c.topic, c.value, c.partition).ok());
    const v1::CommitResponse response = MustCommit(txn);
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_EQ(response.abort().reason(), c.reason);
    EXPECT_EQ(response.abort().cluster(), "b");
    EXPECT_THAT(response.abort().message(), HasSubstr(c.says));
    EXPECT_THAT(response.abort().message(), Not(HasSubstr("xxx"))) << "the record's value";
  }
  TestTxn next = OnBoth(topic, "next");
  EXPECT_EQ(MustCommit(next).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_THAT(OnA(topic), ElementsAre("next"));
  EXPECT_THAT(OnB(topic), ElementsAre("next"));
}

TEST_F(BadInputTest, CommitTwiceAndAbortTooLateAnswerWhatHappened) {
  const std::string topic = NewTopic();
  TestTxn txn = OnBoth(topic, "once");
  EXPECT_EQ(MustCommit(txn).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(MustCommit(txn).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(MustAbort(txn).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(Ctl(*daemon_, {"abort", txn.id()}).exit_code, 5);
  EXPECT_THAT(OnA(topic), ElementsAre("once"));
  EXPECT_THAT(OnB(topic), ElementsAre("once"));
}

TEST_F(BadInputTest, CommitAfterTheTimeoutIsAborted) {
  const std::string topic = NewTopic();
  TestTxn txn = OnBoth(topic, "late", 1s);
  daemon_->Await("its timeout", 20s, [&] { return StateOf(txn) == v1::TXN_STATE_ABORTED; });
  const v1::CommitResponse response = MustCommit(txn);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_TXN_TIMEOUT);
  EXPECT_EQ(response.abort().message(), "its timeout passed before COMMIT was decided");
  EXPECT_THAT(OnA(topic), IsEmpty());
  EXPECT_THAT(OnB(topic), IsEmpty());
}

TEST_F(BadInputTest, CommitAndAbortAtOnceHaveOneOutcome) {
  const std::string topic = NewTopic();
  std::vector<std::string> committed;
  for (int round = 0; round < 30; ++round) {
    const std::string value = std::to_string(round);
    TestTxn txn = OnBoth(topic, value);
    auto commit = std::async(std::launch::async, [&] { return MustCommit(txn); });
    // Some come beside Commit, some once it is under way, some while it is completed.
    const auto not_before = std::array{v1::TXN_STATE_ACTIVE, v1::TXN_STATE_PREPARING,
                                       v1::TXN_STATE_COMMITTING}[round % 3];
    daemon_->Await("Commit to be under way", 20s, [&] { return StateOf(txn) >= not_before; });
    const v1::Outcome aborted = MustAbort(txn).outcome();
    const v1::Outcome outcome = commit.get().outcome();
    EXPECT_EQ(aborted == v1::OUTCOME_ABORTED, outcome == v1::OUTCOME_ABORTED)
        << v1::Outcome_Name(aborted) << " and " << v1::Outcome_Name(outcome);
    if (outcome != v1::OUTCOME_ABORTED) committed.push_back(value);
  }
  EXPECT_FALSE(committed.empty());
  EXPECT_LT(committed.size(), 30u);
  EXPECT_THAT(OnA(topic), ::testing::UnorderedElementsAreArray(committed));
  EXPECT_THAT(OnB(topic), ::testing::UnorderedElementsAreArray(committed));
}

}  // namespace
}  // namespace lockstep
