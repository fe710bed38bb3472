// Who is registered for which transactional.id, and who waits for one.

#include "coordinator/enlistments.h"

#include <gtest/gtest.h>

namespace lockstep::coordinator {
namespace {

EnlistedId Id(const std::string& name) { return {ClusterName("a"), TransactionalId(name)}; }

TEST(EnlistmentsTest, ALaterRegistrationVoidsTheOneBefore) {
  Enlistments enlistments("p-", 10);
  const std::string first = enlistments.Register(Id("x"), txn::EndTxnProtocol::kTv1).id;
  const std::string second = enlistments.Register(Id("x"), txn::EndTxnProtocol::kTv2).id;
  EXPECT_NE(first, second);
  EXPECT_EQ(enlistments.Find(first), nullptr);
  ASSERT_NE(enlistments.Find(second), nullptr);
  EXPECT_EQ(enlistments.FindProducer(Id("x"))->id, second);
  EXPECT_EQ(enlistments.Find(second)->protocol, txn::EndTxnProtocol::kTv2);
}

TEST(EnlistmentsTest, WhoeverWaitsIsRunWhenTheLastHoldIsGone) {
  Enlistments enlistments("p-", 10);
  enlistments.Hold(Id("x"));
  enlistments.Hold(Id("x"));
  int ran = 0;
  enlistments.WhenFree(Id("x"), [&] { ++ran; });
  const auto given_up = enlistments.WhenFree(Id("x"), [&] { ran += 100; });
  enlistments.StopWaiting(Id("x"), given_up);
  enlistments.LetGo(Id("x"));
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(enlistments.held(Id("x")));
  enlistments.LetGo(Id("x"));
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(enlistments.held(Id("x")));
  EXPECT_FALSE(enlistments.held(Id("y")));
}

TEST(EnlistmentsTest, WhoWasUsedLongestAgoGoesUnlessSomethingIsUnfinished) {
  Enlistments enlistments("p-", 2);
  const std::string busy = enlistments.Register(Id("busy"), txn::EndTxnProtocol::kTv1).id;
  enlistments.Hold(Id("busy"));
  const std::string used = enlistments.Register(Id("used"), txn::EndTxnProtocol::kTv1).id;
  const std::string idle = enlistments.Register(Id("idle"), txn::EndTxnProtocol::kTv1).id;
  EXPECT_EQ(enlistments.Find(used), nullptr) << "the oldest that may go";
  EXPECT_NE(enlistments.Find(busy), nullptr);
  EXPECT_NE(enlistments.Find(idle), nullptr);
}

}  // namespace
}  // namespace lockstep::coordinator
