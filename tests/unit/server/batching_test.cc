// Transactions that commit together: the coordinator alone, over fakes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "fakes.h"
#include "server/thread_executor.h"

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
using Answer = std::future<Result<TxnView>>;

class BatchingTest : public testing::Test {
 protected:
  ~BatchingTest() override { executor_.Stop(); }

  void Start() {
    coordinator_ = std::make_unique<Coordinator>(
        options_, executor_, clock_, log_, std::vector<coordinator::Cluster*>{&east_, &west_},
        [](const Error& error) { FAIL() << error.message; });
    ASSERT_TRUE(coordinator_->Start().ok());
  }

  template <typename T, typename Call>
  std::future<T> Ask(const Call& call) {
    auto promise = std::make_shared<std::promise<T>>();
    call([promise](T answer) { promise->set_value(std::move(answer)); });
    return promise->get_future();
  }
  GlobalTxnId Begin(Duration timeout = seconds(60)) {
    return Ask<Result<TxnView>>([&](auto done) { coordinator_->Begin(timeout, "", done); })
        .get()
        ->id;
  }
  void Add(const GlobalTxnId& id, const std::string& cluster, std::uint64_t sequence,
           const std::string& value, const std::string& topic = "orders") {
    txn::BranchWork work;
    work.records.push_back({.topic = topic, .value = value});
    auto status = Ask<Status>([&](auto done) {
      coordinator_->AddWork(id, ClusterName(cluster), work, sequence, std::nullopt, done);
    });
    ASSERT_TRUE(status.get().ok());
  }
  /// Begun, with one record on each cluster.
  GlobalTxnId BeginWithWork(const std::string& value, const std::string& topic = "orders",
                            Duration timeout = seconds(60)) {
    const GlobalTxnId id = Begin(timeout);
    Add(id, "east", 0, value, topic);
    Add(id, "west", 1, value);
    return id;
  }
  Answer Commit(const GlobalTxnId& id, coordinator::CommitOptions options = {}) {
    return Ask<Result<TxnView>>([&](auto done) { coordinator_->Commit(id, options, done); });
  }
  Answer Commit(const std::string& value, const std::string& topic = "orders") {
    return Commit(BeginWithWork(value, topic));
  }
  /// A transaction whose batch writes on both clusters until LetHeld or LetVotes.
  Answer CommitHeld(const std::string& value) {
    east_.HoldVotes(true);
    west_.HoldVotes(true);
    Answer answer = Commit(value);
    AwaitHeld(1);
    return answer;
  }
  void AwaitHeld(std::size_t votes) const {
    while (east_.held_votes() < votes || west_.held_votes() < votes) std::this_thread::yield();
  }
  /// Those that are held; later ones are held too.
  void LetHeld() {
    // What was asked for before is under way.
    Ask<std::vector<coordinator::InDoubtView>>([&](auto done) {
      coordinator_->ListInDoubt(done);
    }).wait();
    east_.LetHeldVotes();
    west_.LetHeldVotes();
  }
  void LetVotes() {
    east_.HoldVotes(false);
    west_.HoldVotes(false);
    LetHeld();
  }
  static GlobalTxnState StateOf(Answer& answer) { return answer.get()->state; }

  ThreadExecutor executor_;
  SystemClock clock_;
  FakeLog log_{executor_};
  FakeCluster east_{"east", executor_};
  FakeCluster west_{"west", executor_};
  coordinator::CoordinatorOptions options_;
  std::unique_ptr<Coordinator> coordinator_;
};

FakeCluster::Behaviour Refusing(AbortReason reason, const std::string& bad_topic) {
  FakeCluster::Behaviour behaviour;
  behaviour.refusal = {reason, ClusterName("east"), "it is bad", false};
  behaviour.bad_topic = bad_topic;
  return behaviour;
}

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
