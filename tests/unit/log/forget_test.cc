#include <gtest/gtest.h>

#include "coordinator/txn_id.h"
#include "faulty_fs.h"
#include "log/store.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

using testing::FaultyFs;
using txn::ParticipantOutcome;

constexpr std::int64_t kDay = 24 * 3600 * 1000;
constexpr std::int64_t kWeek = 7 * kDay;
constexpr std::int64_t kStart = 1'700'000'000'000;

/// Drives the store without the writer thread: a round of forgetting is over when it returns.
class ForgetTest : public ::testing::Test {
 protected:
  ForgetTest() : fs_(std::make_shared<FaultyFs>(dir_.path(), 1)) {
    options_.path = dir_.data();
    options_.clock = &clock_;
    options_.file_system = fs_;
    clock_.now_ms = kStart;
    Open();
  }

  void Open() {
    store_.reset();
    auto opened = Store::Open(options_);
    ASSERT_TRUE(opened.ok()) << ToString(opened.error());
    store_ = *std::move(opened);
  }
  void Crash() {
    fs_->Kill();
    store_.reset();
    fs_->Restart(FaultyFs::Left::kOnlySynced);
    Open();
  }

  void Decide(std::uint64_t batch) {
    ASSERT_TRUE(store_->Add(DecisionOf(batch, 1, clock_.now_ms.load())).ok());
    ASSERT_TRUE(store_->Write(true).ok());
  }
  void Complete(std::uint64_t batch, ParticipantOutcome outcome = ParticipantOutcome::kCommitted) {
    ASSERT_TRUE(store_->Add(coordinator::Completion{BatchId(batch), 0, outcome}).ok());
    ASSERT_TRUE(store_->Write(true).ok());
  }
  /// Until there is nothing left to forget. How many rounds it took.
  int Forget() {
    for (int rounds = 1; rounds < 1000; ++rounds) {
      const Result<bool> more = store_->ForgetSome();
      EXPECT_TRUE(more.ok());
      if (!more.ok() || !*more) return rounds;
    }
    ADD_FAILURE() << "forgetting never ends";
    return 0;
  }
  bool Kept(std::uint64_t batch) const { return store_->Find(TxnOf(batch))->has_value(); }

  TempDir dir_;
  FakeClock clock_;
  std::shared_ptr<FaultyFs> fs_;
  OpenOptions options_;
  std::unique_ptr<Store> store_;
};

TEST_F(ForgetTest, AKeyIsFoundUntilItIsForgottenAndThenBelowTheHorizon) {
  txn::Decision decision = DecisionOf(1, 1, kStart);
  decision.keys = {{0, {"key", WallTime{kStart + 5}, "digest"}}};
  ASSERT_TRUE(store_->Add(decision).ok());
  ASSERT_TRUE(store_->Write(true).ok());
  Crash();
  ASSERT_TRUE(store_->FindKey("key")->has_value());
  EXPECT_EQ(store_->FindKey("key")->value().keys, decision.keys);
  EXPECT_FALSE(store_->FindKey("ke")->has_value());
  Complete(1);
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(store_->FindKey("key")->has_value());
  EXPECT_GE(store_->Horizon(), WallTime{kStart + 5});
}

TEST_F(ForgetTest, WhatIsSettledForLongEnoughIsForgotten) {
  Decide(1);
  Complete(1);
  clock_.now_ms += kWeek;
  Forget();
  EXPECT_TRUE(Kept(1));
  EXPECT_EQ(store_->Horizon(), WallTime{0});
  clock_.now_ms += 1;
  Forget();
  EXPECT_FALSE(Kept(1));
  EXPECT_EQ(store_->Horizon(), WallTime{kStart});
}

TEST_F(ForgetTest, TheTimeCountsFromTheLastCompletion) {
  Decide(1);
  Decide(2);
  Complete(2);
  clock_.now_ms += 3 * kWeek;
  Complete(1);
  Forget();
  EXPECT_FALSE(Kept(2));
  clock_.now_ms += kWeek;
  Forget();
  EXPECT_TRUE(Kept(1));
  clock_.now_ms += 1;
  Forget();
  EXPECT_FALSE(Kept(1));
}

TEST_F(ForgetTest, WhatIsOpenIsNeverForgotten) {
  Decide(1);
  Decide(2);
  Complete(2, ParticipantOutcome::kUnknown);
  Decide(3);
  Complete(3);
  clock_.now_ms += 100 * kWeek;
  Forget();
  EXPECT_FALSE(Kept(3));
  Forget();
  Open();
  Forget();
  EXPECT_TRUE(Kept(1));
  EXPECT_TRUE(Kept(2));
  EXPECT_EQ(store_->recovered().incomplete.size(), 1u);
  EXPECT_EQ(store_->recovered().heuristic.size(), 1u);
  // Once closed they have their time too, although later batches are forgotten already.
  Complete(1);
  ASSERT_TRUE(store_->AddAcknowledgement(BatchId(2)).ok());
  ASSERT_TRUE(store_->Write(true).ok());
  Forget();
  EXPECT_TRUE(Kept(1));
  EXPECT_TRUE(Kept(2));
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(Kept(1));
  EXPECT_FALSE(Kept(2));
}

TEST_F(ForgetTest, WhatWasLeftBehindIsFoundAgainAfterARestart) {
  Decide(1);
  Decide(2);
  Complete(2);
  clock_.now_ms += kWeek + 1;
  Forget();
  Complete(1);
  Open();
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(Kept(1));
}

TEST_F(ForgetTest, ALateDecisionHasItsTimeToo) {
  Decide(5);
  Complete(5);
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(Kept(5));
  Decide(4);
  Complete(4);
  Forget();
  EXPECT_TRUE(Kept(4));
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(Kept(4));
}

TEST_F(ForgetTest, TheHorizonIsDurableWithWhatWasForgotten) {
  Decide(7);
  Complete(7);
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_EQ(store_->Horizon(), WallTime{kStart});
  Crash();  // Nothing was synced since: both are back.
  EXPECT_TRUE(Kept(7));
  EXPECT_EQ(store_->Horizon(), WallTime{0});
  Forget();
  Decide(8);  // Its sync covers what was forgotten before.
  Crash();
  EXPECT_FALSE(Kept(7));
  EXPECT_EQ(store_->Horizon(), WallTime{kStart});
  EXPECT_EQ(store_->recovered().horizon, WallTime{kStart});
}

TEST_F(ForgetTest, ABatchNumberIsNotGivenTwiceEvenIfAllIsForgotten) {
  Decide(7);
  Complete(7);
  clock_.now_ms += kWeek + 1;
  Forget();
  Open();
  EXPECT_FALSE(Kept(7));
  EXPECT_EQ(store_->recovered().next_batch, BatchId(8));
}

TEST_F(ForgetTest, TheHorizonCoversAMemberThatBeganAfterItsDecisionByAClockThatStepped) {
  const std::int64_t birth = kStart + 5 * kDay;
  txn::Decision decision = DecisionOf(1, 1, kStart);
  decision.members.push_back(
      coordinator::FormatTxnId({store_->recovered().log_id, Incarnation(1), WallTime{birth}, 1}));
  ASSERT_TRUE(store_->Add(decision).ok());
  ASSERT_TRUE(store_->Write(true).ok());
  Complete(1);
  clock_.now_ms += kWeek + 1;
  Forget();
  EXPECT_FALSE(Kept(1));
  EXPECT_EQ(store_->Horizon(), WallTime{birth});
}

TEST_F(ForgetTest, AClockThatStepsBackForgetsNothing) {
  Decide(1);
  Complete(1);
  clock_.now_ms -= 100 * kWeek;
  Forget();
  EXPECT_TRUE(Kept(1));
}

TEST_F(ForgetTest, TheSizeBoundForgetsTheOldestFirst) {
  Decide(1);  // Stays open.
  constexpr std::uint64_t kLast = 200;
  for (std::uint64_t batch = 2; batch <= kLast; ++batch) {
    Decide(batch);
    Complete(batch);
  }
  options_.retention.bytes = 20'000;
  Open();  // The weight of what is kept survives it.
  Forget();
  std::uint64_t oldest = 2;
  while (oldest < kLast && !Kept(oldest)) ++oldest;
  for (std::uint64_t batch = oldest; batch <= kLast; ++batch) EXPECT_TRUE(Kept(batch)) << batch;
  // 20,000 bytes hold some 90 of these; neither all nor none.
  EXPECT_LT(oldest, kLast - 60);
  EXPECT_GT(oldest, kLast - 120);
  EXPECT_TRUE(Kept(1));
}

TEST_F(ForgetTest, ARoundIsBounded) {
  constexpr std::uint64_t kMany = 1000;
  for (std::uint64_t batch = 1; batch <= kMany; ++batch) {
    txn::Decision decision = DecisionOf(batch, 1, kStart);
    ASSERT_TRUE(store_->Add(decision).ok());
    ASSERT_TRUE(
        store_->Add(coordinator::Completion{BatchId(batch), 0, ParticipantOutcome::kCommitted})
            .ok());
  }
  ASSERT_TRUE(store_->Write(true).ok());
  clock_.now_ms += kWeek + 1;
  EXPECT_GT(Forget(), 10);
  for (std::uint64_t batch = 1; batch <= kMany; ++batch) EXPECT_FALSE(Kept(batch)) << batch;
}

TEST(ForgetInTheBackground, GoesOnBesideTheAppends) {
  TempDir dir;
  FakeClock clock;
  OpenOptions options;
  options.path = dir.data();
  options.clock = &clock;
  options.forget_interval = std::chrono::milliseconds(1);
  const auto log = MustOpen(options);
  constexpr std::uint64_t kOld = 300;
  Answers answers;
  for (std::uint64_t batch = 1; batch <= kOld; ++batch) {
    log->StoreDecision(DecisionOf(batch, 0, kStart), answers.Expect(batch));
  }
  answers.Wait(kOld);
  clock.now_ms = kStart + kWeek + 1;
  // Each answered append has let the writer come by once more.
  std::uint64_t batch = kOld + 1;
  for (; log->Find(TxnOf(kOld))->has_value(); ++batch) {
    ASSERT_TRUE(StoreNow(*log, DecisionOf(batch, 0, clock.now_ms.load())).ok());
  }
  EXPECT_FALSE(log->Find(TxnOf(1))->has_value());
  EXPECT_EQ(log->Horizon(), WallTime{kStart});
  EXPECT_TRUE(log->Find(TxnOf(batch - 1))->has_value());
}

}  // namespace
}  // namespace lockstep::log
