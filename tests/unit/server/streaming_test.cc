// Transactions that are larger than a batch are written while their client still sends: the
// coordinator alone, over fakes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator_fixture.h"

namespace lockstep::server {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using txn::AbortReason;
using txn::GlobalTxnState;

constexpr std::size_t kBatchBytes = 1'000;

class StreamingTest : public CoordinatorFixture {
 protected:
  StreamingTest() { options_.limits.batch_bytes = kBatchBytes; }

  static std::string Large(char of = 'x') { return std::string(kBatchBytes + 1, of); }
  std::future<Status> AddLater(const GlobalTxnId& id, const std::string& cluster,
                               std::uint64_t sequence, const std::string& value,
                               const std::string& topic = "orders") {
    txn::BranchWork work;
    work.records.push_back({.topic = topic, .value = value});
    return Ask<Status>([&](auto done) {
      coordinator_->AddWork(id, ClusterName(cluster), work, sequence, std::nullopt, done);
    });
  }
  Result<coordinator::TxnView> Get(const GlobalTxnId& id) {
    return Ask<Result<coordinator::TxnView>>([&](auto done) { coordinator_->Get(id, done); }).get();
  }
  /// What was asked for before is under way.
  void Settle(const GlobalTxnId& id) { EXPECT_TRUE(Get(id).ok()); }
  void AwaitState(const GlobalTxnId& id, GlobalTxnState state) {
    while (Get(id)->state != state) std::this_thread::yield();
  }
  static bool Answered(std::future<Status>& status) {
    return status.wait_for(seconds(0)) == std::future_status::ready;
  }
};

TEST_F(StreamingTest, WhatIsLargeIsWrittenBeforeCommit) {
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, "small");
  EXPECT_THAT(east_.pieces(), IsEmpty());
  Add(id, "east", 1, Large());
  Add(id, "west", 2, Large('w'));
  Add(id, "east", 3, "later");  // Too little for a request of its own.
  Settle(id);
  EXPECT_THAT(east_.pieces(), ElementsAre("small" + Large()));
  EXPECT_THAT(west_.pieces(), ElementsAre(Large('w')));
  const auto view = Get(id);
  EXPECT_EQ(view->state, GlobalTxnState::kActive);
  EXPECT_THAT(view->branches, SizeIs(2));
  Add(id, "east", 4, "last");
  Answer answer = Commit(id);
  EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.pieces(), ElementsAre("small" + Large(), "laterlast"));
  EXPECT_THAT(east_.batches(), ElementsAre("small" + Large() + "laterlast"));
  ASSERT_THAT(log_.decisions(), SizeIs(1));
  EXPECT_THAT(log_.decisions()[0].participants, SizeIs(2));
}

TEST_F(StreamingTest, NothingIsDecidedBeforeCommit) {
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  Settle(id);
  EXPECT_THAT(log_.decisions(), IsEmpty());
  EXPECT_THAT(east_.batches(), IsEmpty());  // No vote was asked for.
}

TEST_F(StreamingTest, WhatWasWrittenNeedsNoRoomAnyMore) {
  options_.limits.txn_bytes = 5 * kBatchBytes;
  options_.limits.client_buffer_bytes = 5 * kBatchBytes;
  options_.limits.buffer_bytes = 5 * kBatchBytes;
  Start();
  const GlobalTxnId id = Begin();
  for (std::uint64_t i = 0; i < 50; ++i) Add(id, "east", i, Large());
  Answer answer = Commit(id);
  EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.pieces(), SizeIs(50));
}

TEST_F(StreamingTest, TheClientWaitsWhileTooMuchIsOnItsWay) {
  Start();
  east_.HoldPieces(true);
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  std::future<Status> second = AddLater(id, "east", 1, Large());
  std::future<Status> third = AddLater(id, "east", 2, "s");
  Settle(id);
  EXPECT_FALSE(Answered(second));
  EXPECT_FALSE(Answered(third));
  east_.LetHeldPieces();
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(third.get().ok());
}

TEST_F(StreamingTest, WhoWaitsLearnsThatItAborted) {
  Start();
  east_.HoldPieces(true);
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  std::future<Status> second = AddLater(id, "east", 1, Large());
  Answer aborted =
      Ask<Result<coordinator::TxnView>>([&](auto done) { coordinator_->Abort(id, done); });
  EXPECT_EQ(StateOf(aborted), GlobalTxnState::kAborted);
  const Status status = second.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(status.error().message, HasSubstr("ABORTED"));
}

TEST_F(StreamingTest, WhatTheBrokerRefusesAbortsAtOnce) {
  Start();
  east_.Set(Refusing(AbortReason::kUnknownTopic, "nowhere"));
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  AddLater(id, "east", 1, Large(), "nowhere").wait();
  AwaitState(id, GlobalTxnState::kAborted);
  const Status late = AddLater(id, "east", 2, "s").get();
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition);
  const auto view = Commit(id).get();
  EXPECT_EQ(view->state, GlobalTxnState::kAborted);
  EXPECT_EQ(view->refusal.reason, AbortReason::kUnknownTopic);
  EXPECT_THAT(log_.decisions(), IsEmpty());
}

TEST_F(StreamingTest, ItsOwnTimeoutEndsIt) {
  Start();
  const GlobalTxnId id = Begin(std::chrono::milliseconds(50));
  ASSERT_TRUE(AddLater(id, "east", 0, Large()).get().ok());
  AwaitState(id, GlobalTxnState::kAborted);
  EXPECT_EQ(Get(id)->refusal.reason, AbortReason::kTxnTimeout);
}

TEST_F(StreamingTest, ACommitWhileTheClientWaitsTakesAllOfIt) {
  Start();
  east_.HoldPieces(true);
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  std::future<Status> second = AddLater(id, "east", 1, Large('y'));
  Answer answer = Commit(id);
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.batches(), ElementsAre(Large() + Large('y')));
}

TEST_F(StreamingTest, ARepeatedCallIsWrittenOnce) {
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  Add(id, "east", 0, Large());
  Answer answer = Commit(id);
  EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
  EXPECT_THAT(east_.pieces(), SizeIs(1));
}

// The others keep half of the lanes.
TEST_F(StreamingTest, OnlyHalfOfTheLanesAreHeldBeforeCommit) {
  Start();
  std::vector<GlobalTxnId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(Begin());
    Add(ids.back(), "east", 0, Large());
  }
  Settle(ids.back());
  EXPECT_THAT(east_.pieces(), SizeIs(2));
  Add(ids[2], "west", 1, Large('w'));  // There is room there.
  Settle(ids[2]);
  EXPECT_THAT(east_.pieces(), SizeIs(2));
  EXPECT_THAT(west_.pieces(), SizeIs(1));
  EXPECT_THAT(Get(ids[2])->branches, SizeIs(2));
  Answer mixed = Commit(ids[2]);
  EXPECT_EQ(StateOf(mixed), GlobalTxnState::kCommitted);
  EXPECT_THAT(log_.decisions()[0].participants, SizeIs(2));
  Answer first = Commit(ids[0]);
  EXPECT_EQ(StateOf(first), GlobalTxnState::kCommitted);
  const GlobalTxnId next = Begin();
  Add(next, "east", 0, Large());
  Settle(next);
  EXPECT_THAT(east_.pieces(), SizeIs(3)) << "a lane that was given back is not used";
}

TEST_F(StreamingTest, WhatHasNoLaneDoesNotHoldTheClientUp) {
  Start();
  for (int i = 0; i < 2; ++i) Add(Begin(), "east", 0, Large());
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  for (std::uint64_t i = 1; i < 6; ++i) Add(id, i % 2 == 0 ? "east" : "west", i, Large());
  Answer answer = Commit(id);
  EXPECT_EQ(StateOf(answer), GlobalTxnState::kCommitted);
}

TEST_F(StreamingTest, ALaneIsFreeAgainAfterAnAbort) {
  Start();
  for (int i = 0; i < 5; ++i) {
    const GlobalTxnId id = Begin();
    Add(id, "east", 0, Large());
    Ask<Result<coordinator::TxnView>>([&](auto done) { coordinator_->Abort(id, done); }).wait();
  }
  EXPECT_THAT(east_.pieces(), SizeIs(5));
}

TEST_F(StreamingTest, WhereTheClusterIsAwayItIsBuffered) {
  FakeCluster::Behaviour away;
  away.state = coordinator::ClusterState::kUnreachable;
  east_.Set(away);
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  Settle(id);
  EXPECT_THAT(east_.pieces(), IsEmpty());
  east_.Set({});
  Add(id, "east", 1, "s");
  Settle(id);
  EXPECT_THAT(east_.pieces(), ElementsAre(Large() + "s"));
}

TEST_F(StreamingTest, PositionsCountFromTheFirstPiece) {
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  Add(id, "east", 1, "s");
  const auto view = Commit(id, {.want_positions = true}).get();
  ASSERT_EQ(view->state, GlobalTxnState::kCommitted);
  ASSERT_THAT(view->branches, SizeIs(1));
  ASSERT_NE(view->branches[0].positions, nullptr);
  EXPECT_THAT(*view->branches[0].positions, SizeIs(2));
}

TEST_F(StreamingTest, AProducerIsEnlistedBeforeOrNotAtAll) {
  Start();
  east_.Initialise("app");
  const auto registered =
      Ask<Result<coordinator::Registered>>([&](auto done) {
        coordinator_->RegisterProducer(ClusterName("east"), TransactionalId("app"),
                                       txn::EndTxnProtocol::kTv1, done);
      }).get();
  ASSERT_TRUE(registered.ok());
  const auto enlist = [&](const GlobalTxnId& id) {
    return Ask<Status>([&](auto done) {
             coordinator_->Enlist(id, registered->id,
                                  coordinator::ToldProducer{ProducerId(500), ProducerEpoch(0)},
                                  done);
           })
        .get();
  };
  const GlobalTxnId streamed = Begin();
  Add(streamed, "west", 0, Large());
  const Status refused = enlist(streamed);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("enlist producers before"));

  const GlobalTxnId mixed = Begin();
  ASSERT_TRUE(enlist(mixed).ok());
  Add(mixed, "west", 0, Large('m'));
  Settle(mixed);
  EXPECT_THAT(west_.pieces(), SizeIs(1)) << "of the other one";
}

TEST_F(StreamingTest, ADrainEndsIt) {
  Start();
  const GlobalTxnId id = Begin();
  Add(id, "east", 0, Large());
  auto drained = std::make_shared<std::promise<void>>();
  coordinator_->Drain([drained] { drained->set_value(); });
  drained->get_future().wait();
  EXPECT_EQ(Get(id)->state, GlobalTxnState::kAborted);
  EXPECT_EQ(Get(id)->refusal.reason, AbortReason::kShutdown);
}

}  // namespace
}  // namespace lockstep::server
