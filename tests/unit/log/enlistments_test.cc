// What is enlisted, and what a crash leaves of it.

#include <sstream>

#include "decision_log_fixture.h"
#include "log/dump.h"

namespace lockstep::log {
namespace {

class EnlistmentTest : public DecisionLogTest {};

using Enlistments = std::vector<txn::Enlistment>;

TEST_F(EnlistmentTest, AnEnlistmentIsFoundUntilItEnds) {
  Open();
  log_->StoreEnlistment(EnlistmentOf(1));
  log_->StoreEnlistment(EnlistmentOf(2, "other"));
  Reopen();
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(1), EnlistmentOf(2, "other")}));
  log_->EndEnlistment(ClusterName("c0"), TransactionalId("app"));
  log_->EndEnlistment(ClusterName("c1"), TransactionalId("other"));
  Reopen();
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(2, "other")}));
}

TEST_F(EnlistmentTest, ALaterEnlistmentOfTheSameIdReplacesTheFirst) {
  Open();
  log_->StoreEnlistment(EnlistmentOf(1));
  log_->StoreEnlistment(EnlistmentOf(2));
  Reopen();
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(2)}));
}

TEST_F(EnlistmentTest, AnEnlistmentThatADecisionCoversIsVoidAndGone) {
  Open();
  log_->StoreEnlistment(EnlistmentOf(1));
  log_->StoreEnlistment(EnlistmentOf(2, "other"));
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  Reopen();
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(2, "other")}));
  std::ostringstream dump;
  ASSERT_TRUE(Dump(dir_.data(), dump).ok());
  EXPECT_EQ(dump.str().find("transactional.id app"), std::string::npos) << dump.str();
}

TEST_F(EnlistmentTest, AnEnlistmentAsksForNoSyncAndOutlivesTheProcess) {
  options_.lazy_sync_interval = std::chrono::milliseconds(1);
  Open();
  const int before = WalSyncs();
  const int appends = fs_->Count(Op::kAppend, kWal);
  log_->StoreEnlistment(EnlistmentOf(1));
  while (fs_->Count(Op::kAppend, kWal) == appends) std::this_thread::yield();
  EXPECT_EQ(WalSyncs(), before);
  // The process is gone, the machine is not: what was written is in the kernel's hands.
  std::ostringstream dump;
  ASSERT_TRUE(Dump(dir_.data(), dump).ok());
  EXPECT_NE(dump.str().find("enlisted in transaction txn-1"), std::string::npos) << dump.str();
}

TEST_F(EnlistmentTest, AnEnlistmentIsAsDurableAsWhatComesAfterIt) {
  options_.lazy_sync_interval = kNever;
  Open();
  log_->StoreEnlistment(EnlistmentOf(9));
  ASSERT_TRUE(StoreNow(*log_, DecisionOf(1)).ok());
  log_->EndEnlistment(ClusterName("c0"), TransactionalId("app"));  // Lost.
  Crash();
  Open();
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(9)}));
}

TEST_F(EnlistmentTest, AFullQueueDropsAnEnlistmentAndNothingElse) {
  options_.max_queued = 2;
  Open();
  Answers answers;
  fs_->HoldSyncs(std::string(kWal));
  log_->StoreDecision(DecisionOf(1), answers.Expect(1));
  fs_->WaitUntilHeld();
  log_->StoreDecision(DecisionOf(2), answers.Expect(2));
  log_->StoreEnlistment(EnlistmentOf(8));
  log_->StoreEnlistment(EnlistmentOf(9, "other"));
  fs_->Release();
  answers.Wait(2);
  Reopen();
  EXPECT_EQ(log_->recovered().incomplete.size(), 2u);
  EXPECT_EQ(log_->recovered().enlisted, (Enlistments{EnlistmentOf(8)}));
}

}  // namespace
}  // namespace lockstep::log
