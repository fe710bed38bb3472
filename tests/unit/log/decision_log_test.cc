#include <gtest/gtest.h>

#include <thread>

#include "decision_log_fixture.h"

namespace lockstep::log {
namespace {

using txn::ParticipantOutcome;

// ---- Opening, and what it finds -----------------------------------------------------------------

TEST_F(DecisionLogTest, ANewLogIsEmptyAndHasAnIdentity) {
  Open();
  const auto& found = log_->recovered();
  EXPECT_EQ(found.log_id.get().size(), 16u);
  EXPECT_EQ(found.log_id.get().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(found.incarnation, Incarnation(1));
  EXPECT_EQ(found.next_batch, BatchId(1));
  EXPECT_TRUE(found.incomplete.empty());
  EXPECT_TRUE(found.heuristic.empty());
  EXPECT_EQ(found.horizon, WallTime{0});
}

TEST_F(DecisionLogTest, IdentityStaysAndEachStartHasItsIncarnation) {
  Open();
  const LogId log_id = log_->recovered().log_id;
  Reopen();
  EXPECT_EQ(log_->recovered().log_id, log_id);
  EXPECT_EQ(log_->recovered().incarnation, Incarnation(2));
}

TEST_F(DecisionLogTest, TwoLogsHaveTwoIdentities) {
  Open();
  const LogId log_id = log_->recovered().log_id;
  options_.path = dir_.path() / "other";
  const auto other = MustOpen(options_);
  EXPECT_NE(other->recovered().log_id, log_id);
}

TEST_F(DecisionLogTest, TheIncarnationIsDurableOnceItCanBeRead) {
  Open();
  const LogId log_id = log_->recovered().log_id;
  Crash();
  Open();
  EXPECT_EQ(log_->recovered().log_id, log_id);
  EXPECT_EQ(log_->recovered().incarnation, Incarnation(2));
}

TEST_F(DecisionLogTest, AStoredDecisionSurvivesTheLossOfPower) {
  Open();
  const txn::Decision decision = DecisionOf(5, 3, 77);
  ASSERT_TRUE(StoreNow(*log_, decision).ok());
  Crash();
  Open();
  ASSERT_EQ(log_->recovered().incomplete.size(), 1u);
  EXPECT_EQ(log_->recovered().incomplete[0], decision);
  EXPECT_EQ(log_->recovered().next_batch, BatchId(6));
  const auto found = log_->Find(TxnOf(5));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->value(), decision);
}

TEST_F(DecisionLogTest, RecoveryKeepsApartWhatIsDoneAndWhatIsNot) {
  Open();
  for (const std::uint64_t batch : {4, 1, 3, 2}) {
    ASSERT_TRUE(StoreNow(*log_, DecisionOf(batch)).ok());
  }
  for (const std::uint64_t done : {2, 3}) {
    ASSERT_TRUE(CompleteNow(*log_, done, 0).ok());
    ASSERT_TRUE(CompleteNow(*log_, done, 1).ok());
  }
  ASSERT_TRUE(CompleteNow(*log_, 4, 1, ParticipantOutcome::kAborted).ok());
  Crash();
  Open();
  EXPECT_EQ(BatchesOf(log_->recovered().incomplete), (Batches{1, 4}));
  const txn::Decision& half = log_->recovered().incomplete[1];
  EXPECT_EQ(half.participants[0].outcome, ParticipantOutcome::kPending);
  EXPECT_EQ(half.participants[1].outcome, ParticipantOutcome::kAborted);
  EXPECT_TRUE(log_->recovered().heuristic.empty());
  EXPECT_EQ(log_->recovered().next_batch, BatchId(5));
  EXPECT_TRUE(log_->Find(TxnOf(2))->value().complete());
}

TEST_F(DecisionLogTest, AHeuristicOutcomeIsShownUntilAcknowledged) {
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  ASSERT_TRUE(CompleteNow(*log_, 1, 0).ok());
  ASSERT_TRUE(CompleteNow(*log_, 1, 1, ParticipantOutcome::kUnknown).ok());
  Reopen();
  EXPECT_TRUE(log_->recovered().incomplete.empty());
  ASSERT_EQ(BatchesOf(log_->recovered().heuristic), (Batches{1}));
  EXPECT_FALSE(log_->recovered().heuristic[0].acknowledged);

  ASSERT_TRUE(AcknowledgeNow(*log_, 1).ok());
  Crash();
  Open();
  EXPECT_TRUE(log_->recovered().heuristic.empty());
  EXPECT_TRUE(log_->Find(TxnOf(1))->value().acknowledged);
}

TEST_F(DecisionLogTest, AnOperatorsOrderSurvivesTheLossOfPowerAndTheLatestCounts) {
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  const txn::OperatorOrder first{txn::OrderKind::kAbort, true, "ann", "why", WallTime{5}};
  const txn::OperatorOrder second{txn::OrderKind::kDeclareUnknown, false, "bob", "gone",
                                  WallTime{6}};
  Answers answers;
  log_->StoreOrder({BatchId(1), 1, first}, answers.Expect(1));
  log_->StoreOrder({BatchId(1), 1, second}, answers.Expect(2));
  answers.Wait(2);
  Crash();
  Open();
  ASSERT_EQ(log_->recovered().incomplete.size(), 1u);
  const auto& participants = log_->recovered().incomplete[0].participants;
  EXPECT_EQ(participants[0].order, std::nullopt);
  EXPECT_EQ(participants[1].order, second);
  EXPECT_EQ((*log_->Find(TxnOf(1)))->participants[1].order, second);

  // Only where the outcome is pending is there anything to order.
  ASSERT_TRUE(CompleteNow(*log_, 1, 1, ParticipantOutcome::kUnknown).ok());
  Answers refused;
  log_->StoreOrder({BatchId(1), 1, first}, refused.Expect(1));
  log_->StoreOrder({BatchId(1), 2, first}, refused.Expect(2));
  log_->StoreOrder({BatchId(9), 0, first}, refused.Expect(3));
  refused.Wait(3);
  for (const std::uint64_t id : {1u, 2u, 3u}) {
    EXPECT_EQ(refused.Of(id)->error().code, Code::kInternal);
    EXPECT_EQ(refused.Of(id)->error().effect, Effect::kNone);
  }
  EXPECT_TRUE(StoreNow(*log_, DecisionOf(2)).ok()) << "the log is unharmed";
}

TEST_F(DecisionLogTest, StatsCountWhatIsKeptAlsoAfterAStart) {
  Open();
  EXPECT_EQ(log_->Stats()->decisions, 0u);
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(2)).ok());
  const auto before = *log_->Stats();
  EXPECT_EQ(before.decisions, 2u);
  EXPECT_GT(before.kept_bytes, 200u);
  EXPECT_GT(before.disk_bytes, before.kept_bytes);
  EXPECT_EQ(before.syncs, 2u);
  EXPECT_EQ(before.sync_seconds.count(), 2u);
  EXPECT_GT(before.sync_seconds.sum(), 0);
  EXPECT_EQ(before.queued, 0u);
  Reopen();
  EXPECT_EQ(log_->Stats()->syncs, 0u);
  EXPECT_EQ(log_->Stats()->decisions, 2u);
  EXPECT_EQ(log_->Stats()->kept_bytes, before.kept_bytes);
}

TEST_F(DecisionLogTest, ADecisionWithoutParticipantsIsCompleteAtOnce) {
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1, 0)).ok());
  Crash();
  Open();
  EXPECT_TRUE(log_->recovered().incomplete.empty());
  EXPECT_EQ(log_->Find(TxnOf(1))->value(), DecisionOf(1, 0));
}

TEST_F(DecisionLogTest, EveryMemberLeadsToTheDecisionAndNobodyElse) {
  Open();
  txn::Decision decision = DecisionOf(1);
  decision.members = {TxnOf(10), TxnOf(11), TxnOf(12)};
  ASSERT_TRUE(StoreNow(*log_, decision).ok());
  for (const auto& member : decision.members) EXPECT_EQ(log_->Find(member)->value(), decision);
  for (const char* other : {"txn-1", "txn-", "txn-100", "", "zzz"}) {
    const auto found = log_->Find(GlobalTxnId(other));
    ASSERT_TRUE(found.ok()) << other;
    EXPECT_FALSE(found->has_value()) << other;
  }
}

TEST_F(DecisionLogTest, ABindingIsReplacedAndKept) {
  Open();
  const auto bind = [this](const char* cluster, const char* id) {
    Answers answers;
    log_->StoreBinding(ClusterName(cluster), KafkaClusterId(id), answers.Expect(0));
    answers.Wait(1);
    return answers.Of(0)->ok();
  };
  EXPECT_EQ(log_->Binding(ClusterName("a")), std::nullopt);
  ASSERT_TRUE(bind("a", "one"));
  ASSERT_TRUE(bind("b", "two"));
  EXPECT_EQ(log_->Binding(ClusterName("a")), KafkaClusterId("one"));
  ASSERT_TRUE(bind("a", "three"));
  EXPECT_EQ(log_->Binding(ClusterName("a")), KafkaClusterId("three"));
  Crash();
  Open();
  EXPECT_EQ(log_->Binding(ClusterName("a")), KafkaClusterId("three"));
  EXPECT_EQ(log_->Binding(ClusterName("b")), KafkaClusterId("two"));
  EXPECT_FALSE(bind("", "x"));
  EXPECT_FALSE(bind("x", ""));
}

// ---- One sync for many --------------------------------------------------------------------------

TEST_F(DecisionLogTest, NothingIsAnsweredBeforeTheSync) {
  Open();
  Answers answers;
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  EXPECT_EQ(answers.Of(1), std::nullopt);
  EXPECT_FALSE(log_->Find(TxnOf(1))->has_value());
  fs_->Release();
  answers.Wait(1);
  EXPECT_TRUE(answers.Of(1)->ok());
}

TEST_F(DecisionLogTest, WhatArrivesDuringASyncSharesTheNextAndIsAnsweredInOrder) {
  Open();
  Answers answers;
  const int before = WalSyncs();
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  Batches order = {1};
  for (std::uint64_t batch = 2; batch <= 65; ++batch) {
    log_->StoreDecision(DecisionOf(batch), answers.Expect(batch));
    order.push_back(batch);
  }
  fs_->Release();
  answers.Wait(65);
  EXPECT_EQ(WalSyncs() - before, 2);
  EXPECT_EQ(answers.order(), order);
}

TEST_F(DecisionLogTest, ALargeGroupIsWrittenInSeveralSyncs) {
  Open();
  Answers answers;
  const int before = WalSyncs();
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  for (std::uint64_t batch = 2; batch <= 5; ++batch) {
    txn::Decision large = DecisionOf(batch);
    large.participants[0].prepared.evidence.assign(60'000, {{"a-topic-of-some-length", 1}, 1});
    log_->StoreDecision(std::move(large), answers.Expect(batch));
  }
  fs_->Release();
  answers.Wait(5);
  EXPECT_EQ(WalSyncs() - before, 1 + 2);
  EXPECT_EQ(answers.order(), (Batches{1, 2, 3, 4, 5}));
}

TEST_F(DecisionLogTest, ACompletionWaitsForASyncToShare) {
  options_.lazy_sync_interval = kNever;
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  Answers answers;
  const int before = WalSyncs();
  log_->StoreCompletion({BatchId(1), 0, ParticipantOutcome::kCommitted}, false, answers.Expect(1));
  log_->StoreCompletion({BatchId(1), 1, ParticipantOutcome::kCommitted}, false, answers.Expect(2));
  log_->StoreDecision(DecisionOf(2), answers.Expect(3));
  answers.Wait(3);
  EXPECT_EQ(answers.order(), (Batches{1, 2, 3}));
  EXPECT_LE(WalSyncs() - before, 2);  // One, unless the writer woke for the first alone.
}

TEST_F(DecisionLogTest, ACompletionAloneIsDurableAfterTheInterval) {
  options_.lazy_sync_interval = std::chrono::milliseconds(5);
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1, 1)).ok());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(CompleteNow(*log_, 1, 0).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, options_.lazy_sync_interval);
  Crash();
  Open();
  EXPECT_TRUE(log_->recovered().incomplete.empty());
}

TEST_F(DecisionLogTest, AnUrgentCompletionDoesNotWait) {
  options_.lazy_sync_interval = kNever;
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1, 1)).ok());
  Answers answers;
  log_->StoreCompletion({BatchId(1), 0, ParticipantOutcome::kCommitted}, true, answers.Expect(1));
  answers.Wait(1);
  Crash();
  Open();
  EXPECT_TRUE(log_->recovered().incomplete.empty());
}

TEST_F(DecisionLogTest, ClosingWritesWhatWaits) {
  options_.lazy_sync_interval = kNever;
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1, 1)).ok());
  Answers answers;
  log_->StoreCompletion({BatchId(1), 0, ParticipantOutcome::kCommitted}, false, answers.Expect(1));
  log_.reset();
  EXPECT_TRUE(answers.Of(1)->ok());
  Open();
  EXPECT_TRUE(log_->recovered().incomplete.empty());
}

TEST_F(DecisionLogTest, DoneIsCalledOnAnotherThread) {
  Open();
  std::atomic<bool> same{true};
  Answers answers;
  const auto done = answers.Expect(1);
  log_->StoreDecision(DecisionOf(1), [&, caller = std::this_thread::get_id()](Status status) {
    same = std::this_thread::get_id() == caller;
    done(status);
  });
  answers.Wait(1);
  EXPECT_FALSE(same);
}

TEST_F(DecisionLogTest, ManyThreadsAppendAtOnce) {
  Open();
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  Answers answers;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto batch = static_cast<std::uint64_t>(1 + t + i * kThreads);
        log_->StoreDecision(DecisionOf(batch), answers.Expect(batch));
        EXPECT_TRUE(log_->Find(TxnOf(batch)).ok());
        log_->Binding(ClusterName("c0"));
        log_->Horizon();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  answers.Wait(kThreads * kEach);
  Crash();
  Open();
  EXPECT_EQ(log_->recovered().incomplete.size(), std::size_t{kThreads * kEach});
}

// ---- What goes wrong ----------------------------------------------------------------------------

struct Failure {
  const char* name;
  Op op;
  rocksdb::IOStatus error;
  std::string way_out;
};

class FailedWriteTest : public DecisionLogTest, public ::testing::WithParamInterface<Failure> {};

TEST_P(FailedWriteTest, FailsTheLogForEver) {
  options_.lazy_sync_interval = std::chrono::milliseconds(1);
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  const int before = WalSyncs();
  fs_->FailNth(GetParam().op, std::string(kWal), 1, GetParam().error);
  const auto expect_failed = [](const Status& status) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kUnavailable);
    EXPECT_EQ(status.error().effect, Effect::kUnknown);
    EXPECT_NE(status.error().message.find(GetParam().error.ToString()), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find(GetParam().way_out), std::string::npos)
        << status.error().message;
  };
  expect_failed(StoreNow(*log_, DecisionOf(2)));
  // The disk is well again, but the log is not to be trusted: nothing is tried once more.
  expect_failed(StoreNow(*log_, DecisionOf(3)));
  expect_failed(CompleteNow(*log_, 1, 0));
  expect_failed(AcknowledgeNow(*log_, 1));
  EXPECT_LE(WalSyncs() - before, 1);
  for (const std::uint64_t batch : {1, 2}) {
    const auto found = log_->Find(TxnOf(batch));
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().effect, Effect::kUnknown);
  }
  Crash();
  Open();
  EXPECT_EQ(BatchesOf(log_->recovered().incomplete), (Batches{1}));
  EXPECT_TRUE(StoreNow(*log_, DecisionOf(2)).ok());
}

INSTANTIATE_TEST_SUITE_P(
    , FailedWriteTest,
    ::testing::Values(
        Failure{"SyncEio", Op::kSync, rocksdb::IOStatus::IOError("disk on fire"), "check the disk"},
        Failure{"SyncEnospc", Op::kSync, rocksdb::IOStatus::NoSpace("full"), "free some space"},
        Failure{"AppendEio", Op::kAppend, rocksdb::IOStatus::IOError("on fire"), "check the disk"},
        Failure{"AppendEnospc", Op::kAppend, rocksdb::IOStatus::NoSpace("full"), "free some"}),
    [](const auto& param) { return param.param.name; });

TEST_F(DecisionLogTest, WhatWaitsBehindAFailedSyncFailsToo) {
  Open();
  Answers answers;
  fs_->FailNth(Op::kSync, std::string(kWal), 2, rocksdb::IOStatus::IOError("disk on fire"));
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  log_->StoreDecision(DecisionOf(2), answers.Expect(2));
  log_->StoreDecision(DecisionOf(3), answers.Expect(3));
  fs_->Release();
  answers.Wait(3);
  EXPECT_TRUE(answers.Of(1)->ok());
  EXPECT_EQ(answers.Of(2)->error().effect, Effect::kUnknown);
  EXPECT_EQ(answers.Of(3)->error().effect, Effect::kUnknown);
}

TEST_F(DecisionLogTest, FailpointsFailTheLog) {
  for (const bool durable : {false, true}) {
    DisarmFailpoints();
    Open();
    const std::uint64_t batch = durable ? 2 : 1;
    ASSERT_TRUE(ArmFailpoint(durable ? "log.after_sync=error" : "log.before_sync=error").ok());
    const Status status = StoreNow(*log_, DecisionOf(batch));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().effect, Effect::kUnknown);
    DisarmFailpoints();
    EXPECT_FALSE(StoreNow(*log_, DecisionOf(9)).ok());
    Crash();
    Open();
    EXPECT_EQ(log_->recovered().incomplete.size(), durable ? 1u : 0u);
    log_.reset();
  }
}

TEST_F(DecisionLogTest, WhatContradictsTheLogIsRefusedAloneAndHarmsNothing) {
  options_.lazy_sync_interval = std::chrono::milliseconds(1);
  Open();
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(7)).ok());
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(8)).ok());
  ASSERT_TRUE(CompleteNow(*log_, 8, 0).ok());
  ASSERT_TRUE(CompleteNow(*log_, 8, 1).ok());
  const auto expect_refused = [](const Status& status) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_EQ(status.error().effect, Effect::kNone);
  };
  txn::Decision nameless = DecisionOf(9);
  nameless.members.clear();
  expect_refused(StoreNow(*log_, nameless));
  expect_refused(StoreNow(*log_, DecisionOf(7)));  // Open.
  expect_refused(StoreNow(*log_, DecisionOf(8)));  // Complete.
  expect_refused(CompleteNow(*log_, 6, 0));
  expect_refused(CompleteNow(*log_, 8, 0));
  expect_refused(CompleteNow(*log_, 7, 2));
  expect_refused(CompleteNow(*log_, 7, 0, ParticipantOutcome::kPending));
  expect_refused(AcknowledgeNow(*log_, 7));
  expect_refused(AcknowledgeNow(*log_, 8));
  ASSERT_TRUE(CompleteNow(*log_, 7, 0).ok());
  EXPECT_TRUE(CompleteNow(*log_, 7, 0).ok());  // The same again.
  expect_refused(CompleteNow(*log_, 7, 0, ParticipantOutcome::kAborted));
  EXPECT_TRUE(StoreNow(*log_, DecisionOf(6)).ok());  // Late, but new.
  Crash();
  Open();
  EXPECT_EQ(BatchesOf(log_->recovered().incomplete), (Batches{6, 7}));
  EXPECT_EQ(log_->recovered().next_batch, BatchId(9));
}

TEST_F(DecisionLogTest, AFullQueueTakesNoMoreAndSaysSo) {
  options_.max_queued = 2;
  Open();
  Answers answers;
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  for (std::uint64_t batch = 2; batch <= 4; ++batch) {
    log_->StoreDecision(DecisionOf(batch), answers.Expect(batch));
  }
  fs_->Release();
  answers.Wait(4);
  EXPECT_TRUE(answers.Of(2)->ok());
  EXPECT_TRUE(answers.Of(3)->ok());
  ASSERT_FALSE(answers.Of(4)->ok());
  EXPECT_EQ(answers.Of(4)->error().code, Code::kResourceExhausted);
  EXPECT_EQ(answers.Of(4)->error().effect, Effect::kNone);
  EXPECT_TRUE(StoreNow(*log_, DecisionOf(4)).ok());
}

TEST(SupersededTest, AnOlderCopyIsRefusedAtEveryLaterOpening) {
  TempDir dir;
  const FakeClock clock;
  const OpenOptions options{.path = dir.data(), .clock = &clock};
  {
    auto log = Open(options);
    ASSERT_TRUE(log.ok()) << log.error().message;
    Answers answers;
    (*log)->StoreSuperseded("another start of it went on", answers.Expect(1));
    answers.Wait(1);
  }
  for (int opening = 0; opening < 3; ++opening) {
    const auto log = Open(options);
    ASSERT_FALSE(log.ok());
    EXPECT_EQ(log.error().code, Code::kFailedPrecondition);
    EXPECT_NE(log.error().message.find("another start of it went on"), std::string::npos)
        << log.error().message;
  }
}

}  // namespace
}  // namespace lockstep::log
