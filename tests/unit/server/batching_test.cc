// Transactions that commit together: the coordinator alone, over fakes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator_fixture.h"

namespace lockstep::server {
namespace {

using coordinator::Coordinator;
using coordinator::TxnView;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using txn::AbortReason;
using txn::GlobalTxnState;

class BatchingTest : public CoordinatorFixture {};

TEST_F(BatchingTest, WhoCommitsWhileABatchIsWrittenSharesTheNext) {
  Start();
  Answer first = CommitHeld("0");
  Answer second = Commit("1");
  Answer third = Commit("2");
  LetVotes();
  EXPECT_EQ(StateOf(first), GlobalTxnState::kCommitted);
  EXPECT_EQ(StateOf(second), GlobalTxnState::kCommitted);
  EXPECT_EQ(StateOf(third), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2"));
  EXPECT_THAT(west_.batches(), ElementsAre("0", "1,2"));
  ASSERT_EQ(log_.decisions().size(), 2u);
  EXPECT_EQ(log_.decisions()[1].members.size(), 2u);
}

TEST_F(BatchingTest, ABatchIsBounded) {
  options_.limits.batch_txns = 2;
  Start();
  Answer first = CommitHeld("0");
  std::vector<Answer> others;
  for (const char* value : {"1", "2", "3"}) others.push_back(Commit(value));
  LetVotes();
  for (Answer& other : others) EXPECT_EQ(StateOf(other), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2", "3"));
}

TEST_F(BatchingTest, ALargeOneWaitsForNobody) {
  options_.limits.batch_bytes = 1'000;
  Start();
  Answer first = CommitHeld("0");
  Answer large = Commit(std::string(2'000, 'x'));
  AwaitHeld(2);
  LetVotes();
  EXPECT_EQ(StateOf(first), GlobalTxnState::kCommitted);
  EXPECT_EQ(StateOf(large), GlobalTxnState::kCommitted);
}

TEST_F(BatchingTest, OtherClustersAreNotWaitedFor) {
  Start();
  west_.Set({.votes = false});
  Answer stuck = Commit("0");
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, "1");
  Answer other = Commit(id);
  EXPECT_EQ(StateOf(other), GlobalTxnState::kCommitted);
}

TEST_F(BatchingTest, ANamedCulpritLeavesTheOthersToCommit) {
  Start();
  Answer first = CommitHeld("0");
  east_.Set(Refusing(AbortReason::kUnknownTopic, "nowhere"));
  Answer good = Commit("1");
  Answer bad = Commit("2", "nowhere");
  Answer also_good = Commit("3");
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_EQ(StateOf(also_good), GlobalTxnState::kCommitted);
  const auto view = bad.get();
  EXPECT_EQ(view->state, GlobalTxnState::kAborted);
  EXPECT_EQ(view->refusal.reason, AbortReason::kUnknownTopic);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2,3", "1,3"));
}

TEST_F(BatchingTest, ACulpritThatNobodyNamesIsFoundByHalves) {
  Start();
  Answer first = CommitHeld("0");
  FakeCluster::Behaviour behaviour = Refusing(AbortReason::kInvalidRecord, "nowhere");
  behaviour.names_culprits = false;
  east_.Set(behaviour);
  std::vector<Answer> good;
  for (const char* value : {"1", "2"}) good.push_back(Commit(value));
  Answer bad = Commit("3", "nowhere");
  good.push_back(Commit("4"));
  LetVotes();
  for (Answer& answer : good) EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
  EXPECT_EQ(bad.get()->refusal.reason, AbortReason::kInvalidRecord);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2,3,4", "1,2", "3,4", "3", "4"));
}

TEST_F(BatchingTest, ASlowOneGoesOnAlone) {
  Start();
  Answer first = CommitHeld("0");
  FakeCluster::Behaviour behaviour = Refusing(AbortReason::kClusterUnavailable, "stuck");
  behaviour.slow = true;
  east_.Set(behaviour);
  Answer good = Commit("1");
  Answer slow = Commit("2", "stuck");
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_EQ(StateOf(slow), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2", "2", "1"));
}

TEST_F(BatchingTest, WhatNoMemberIsToBlameForAbortsAll) {
  Start();
  Answer first = CommitHeld("0");
  east_.Set(Refusing(AbortReason::kClusterUnavailable, ""));
  Answer second = Commit("1");
  Answer third = Commit("2");
  LetVotes();
  for (Answer* answer : {&second, &third}) {
    const auto view = answer->get();
    EXPECT_EQ(view->state, GlobalTxnState::kAborted);
    EXPECT_EQ(view->refusal.reason, AbortReason::kClusterUnavailable);
  }
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2"));
}

TEST_F(BatchingTest, AbortOfOneLeavesTheOthersToCommit) {
  Start();
  Answer first = CommitHeld("0");
  Answer good = Commit("1");
  const GlobalTxnId id = BeginWithWork("2");
  Answer bad = Commit(id);
  LetHeld();
  AwaitHeld(1);  // The second batch.
  Answer aborted =
      Ask<Result<TxnView>>([&](auto done) { coordinator_->Abort(id, std::move(done)); });
  EXPECT_EQ(StateOf(aborted), GlobalTxnState::kAborted);
  EXPECT_EQ(bad.get()->refusal.reason, AbortReason::kClientAbort);
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1,2", "1"));
}

TEST_F(BatchingTest, AbortOfOneThatWaitsInLine) {
  Start();
  Answer first = CommitHeld("0");
  Answer good = Commit("1");
  const GlobalTxnId id = BeginWithWork("2");
  Answer bad = Commit(id);
  Answer aborted =
      Ask<Result<TxnView>>([&](auto done) { coordinator_->Abort(id, std::move(done)); });
  EXPECT_EQ(StateOf(aborted), GlobalTxnState::kAborted);
  EXPECT_EQ(StateOf(bad), GlobalTxnState::kAborted);
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1"));
}

TEST_F(BatchingTest, AMembersTimeIsItsOwn) {
  Start();
  Answer first = CommitHeld("0");
  Answer good = Commit("1");
  Answer bad = Commit(BeginWithWork("2", "orders", std::chrono::milliseconds(50)));
  const auto view = bad.get();  // While it waits in line.
  EXPECT_EQ(view->state, GlobalTxnState::kAborted);
  EXPECT_EQ(view->refusal.reason, AbortReason::kTxnTimeout);
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre("0", "1"));
}

TEST_F(BatchingTest, AMembersTimeIsUpWhileTheBatchIsWritten) {
  Start();
  Answer first = CommitHeld("0");
  Answer good = Commit("1");
  Answer bad = Commit(BeginWithWork("2", "orders", seconds(1)));
  LetHeld();
  AwaitHeld(1);  // The second batch, unless the second has passed already.
  EXPECT_EQ(bad.get()->refusal.reason, AbortReason::kTxnTimeout);
  LetVotes();
  EXPECT_EQ(StateOf(good), GlobalTxnState::kCommitted);
  EXPECT_EQ(east_.batches().back(), "1");
}

TEST_F(BatchingTest, EachIsToldWhereItsOwnRecordsAre) {
  Start();
  Answer first = CommitHeld("0");
  std::vector<Answer> answers;
  for (const bool wanted : {true, false, true}) {
    coordinator::CommitOptions options;
    options.want_positions = wanted;
    answers.push_back(Commit(BeginWithWork("x"), options));
  }
  LetVotes();
  const auto offset_of = [](Answer& answer) {
    const txn::Positions positions = answer.get()->branches.at(0).positions;
    if (positions == nullptr) return std::int64_t{-1};
    EXPECT_EQ(positions->size(), 1u);
    return positions->front().offset;
  };
  EXPECT_EQ(offset_of(answers[0]), 100);
  EXPECT_EQ(offset_of(answers[1]), -1);
  EXPECT_EQ(offset_of(answers[2]), 102);
}

TEST_F(BatchingTest, ShutdownAbortsAllThatIsNotDecided) {
  Start();
  Answer first = CommitHeld("0");
  Answer second = Commit("1");
  std::promise<void> drained;
  coordinator_->Drain([&] { drained.set_value(); });
  drained.get_future().wait();
  for (Answer* answer : {&first, &second}) {
    const auto view = answer->get();
    EXPECT_EQ(view->state, GlobalTxnState::kAborted);
    EXPECT_EQ(view->refusal.reason, AbortReason::kShutdown);
  }
  EXPECT_THAT(log_.decisions(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::server
