// Instances of one application that follow each other, at every point of a commit: what a dead one
// left is ended as it was decided, what a zombie still does harms nobody, and the successor goes on
// at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::EnlistTest;
using testing::OwnProducer;
using testing::Values;
using wire::protocol::ApiKey;

class InstancesTest : public EnlistTest {
 protected:
  /// The application's Commit, which may outlive it.
  std::future<v1::CommitResponse> CommitBeside(const v1::CommitRequest& request) {
    return std::async(std::launch::async, [this, request] {
      v1::CommitResponse response;
      const grpc::Status status = TryCommit(request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      return response;
    });
  }
  std::future<grpc::Status> RegisterBeside(OwnProducer& producer) {
    return std::async(std::launch::async, [&] { return producer.Register(daemon_.coordinator()); });
  }
  /// kill -9 of the application.
  void KillProducers() { producers_.clear(); }
};

TEST_F(InstancesTest, AClientThatDiesBeforeCommitLeavesNothingToItsSuccessor) {
  Serve();
  std::string txn;
  {
    OwnProducer& a = Started("a");
    OwnProducer& b = Started("b");
    txn = Begin();
    EnlistAndWrite(a, txn, "died");
    ASSERT_TRUE(b.Enlist(daemon_.coordinator(), txn).ok());
    b.Begin();
    b.Write(testing::kTopic, Value("died"));  // Never flushed.
    producers_.clear();
  }
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const v1::Transaction aborted = testing::GetTxn(daemon_.coordinator(), txn);
  EXPECT_EQ(aborted.state(), v1::TXN_STATE_ABORTED);
  EXPECT_EQ(aborted.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  ExpectOneCommits(a, b, "successor");
  ExpectOnBoth({"successor"});
}

TEST_F(InstancesTest, ASuccessorRegistersWhileTheVotesAreAwaited) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "died");
  HoldNext(ApiKey::kDescribeTransactions);
  auto outcome = CommitBeside(CommitOf(txn, {&a, &b}));
  AwaitHeld();
  EXPECT_EQ(StateOf(txn), v1::TXN_STATE_PREPARING);
  KillProducers();
  OwnProducer& successor = Make("a");
  auto registered = RegisterBeside(successor);
  daemon_.Await("the abort", 30s, [&] { return StateOf(txn) != v1::TXN_STATE_PREPARING; });
  gate().Cut();
  ASSERT_TRUE(registered.get().ok());
  successor.Init();
  EXPECT_EQ(outcome.get().outcome(), v1::OUTCOME_ABORTED);
  gate().Deliver();
  ExpectOneCommits(successor, Started("b"), "successor");
  ExpectOnBoth({"successor"});
}

TEST_F(InstancesTest, ASuccessorWaitsWhileTheEndIsOnItsWay) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "decided");
  HoldNext(ApiKey::kEndTxn);
  auto outcome = CommitBeside(CommitOf(txn, {&a, &b}));
  AwaitHeld();
  EXPECT_EQ(StateOf(txn), v1::TXN_STATE_COMMITTING);
  KillProducers();
  OwnProducer& successor = Make("a");
  auto registered = RegisterBeside(successor);
  EXPECT_EQ(registered.wait_for(300ms), std::future_status::timeout);
  gate().Cut();
  ASSERT_TRUE(registered.get().ok());
  successor.Init();
  EXPECT_EQ(outcome.get().outcome(), v1::OUTCOME_COMMITTED);
  OwnProducer& other = Started("b");
  txn = Begin();
  EnlistAndWrite({&successor, &other}, txn, "aborted");
  gate().Deliver();  // In the midst of the successor's transaction.
  EXPECT_EQ(Abort(txn).outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(successor.AbortOwn(), "");
  EXPECT_EQ(other.AbortOwn(), "");
  ExpectOneCommits(successor, other, "successor");
  ExpectOnBoth({"decided", "successor"});
}

/// Told COMMITTED, and gone before its own commitTransaction; or not gone, but too late with it.
TEST_F(InstancesTest, ASuccessorFollowsBeforeTheOwnEnd) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "told");
  EXPECT_EQ(Commit(txn, {&a, &b}).outcome(), v1::OUTCOME_COMMITTED);
  OwnProducer& successor = Started("a");
  OwnProducer& other = Started("b");
  txn = Begin();
  EnlistAndWrite({&successor, &other}, txn, "successor");
  EXPECT_EQ(a.CommitOwn(), "_FENCED");
  EXPECT_EQ(b.CommitOwn(), "_FENCED");
  EXPECT_EQ(Commit(txn, {&successor, &other}).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(successor.CommitOwn(), "");
  EXPECT_EQ(other.CommitOwn(), "");
  ExpectOnBoth({"told", "successor"});
}

/// Instance 1 prepared; instance 2 took the id over and wrote a half; then 1's Commit arrives.
TEST_F(InstancesTest, AZombiesCommitDoesNotCommitItsRegisteredSuccessor) {
  Serve();
  OwnProducer& b = Started("b");
  OwnProducer& first = Started("a");
  const std::string old = Begin();
  EnlistAndWrite({&first, &b}, old, "zombie");
  OwnProducer& second = Started("a");
  const std::string txn = Begin();
  EnlistAndWrite(second, txn, "half");
  EXPECT_EQ(Commit(old, {&first, &b}).outcome(), v1::OUTCOME_ABORTED);
  ExpectOnBoth({}, testing::Open::kStopAtThem);
  EXPECT_EQ(b.AbortOwn(), "");
  EnlistAndWrite(b, txn, "half");
  EXPECT_EQ(Commit(txn, {&second, &b}).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(second.CommitOwn(), "");
  ExpectOnBoth({"half"});
}

TEST_F(InstancesTest, AZombiesCommitDoesNotCommitASuccessorThatNobodyRegistered) {
  Serve();
  OwnProducer& b = Started("b");
  OwnProducer& first = Started("a");
  const std::string old = Begin();
  EnlistAndWrite({&first, &b}, old, "zombie");
  OwnProducer& second = Make("a");
  second.Init();
  second.Begin();
  second.Write(testing::kTopic, Value("half"));
  second.Flush();
  const v1::CommitResponse response = Commit(old, {&first, &b});
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  EXPECT_EQ(response.abort().cluster(), "a");
  ExpectOnBoth({}, testing::Open::kStopAtThem);
  EXPECT_EQ(Describe(second, "a").state, txn::KafkaTxnState::kOngoing);  // Left alone.
  EXPECT_EQ(second.CommitOwn(), "");
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectVisible({"half"}, {});
  ExpectFenced(first);
}

}  // namespace
}  // namespace lockstep
