// Which of an operator's orders are taken.

#include "coordinator/operator_orders.h"

#include <gtest/gtest.h>

namespace lockstep::coordinator {
namespace {

using txn::OrderKind;
using txn::ParticipantOutcome;

constexpr OrderKind kAll[] = {OrderKind::kCommit, OrderKind::kAbort, OrderKind::kDeclareCommitted,
                              OrderKind::kDeclareAborted, OrderKind::kDeclareUnknown};

OrderedBranch InDoubt(ClusterState state) {
  return {.cluster = ClusterName("east"), .asked = true, .cluster_state = state};
}

bool Taken(const OrderedBranch& branch, OrderKind kind, bool forced = false) {
  return !OrderProblem(branch, {kind, forced, "ann", "why", {}}).has_value();
}

TEST(OrderProblemTest, WhatContradictsTheDecisionNeedsForce) {
  for (const auto state :
       {ClusterState::kReady, ClusterState::kUnreachable, ClusterState::kMismatch,
        ClusterState::kConnecting, ClusterState::kRefused}) {
    EXPECT_TRUE(Taken(InDoubt(state), OrderKind::kCommit));
    for (const auto kind :
         {OrderKind::kAbort, OrderKind::kDeclareAborted, OrderKind::kDeclareUnknown}) {
      EXPECT_FALSE(Taken(InDoubt(state), kind)) << Name(kind);
      EXPECT_TRUE(Taken(InDoubt(state), kind, true)) << Name(kind);
    }
  }
}

TEST(OrderProblemTest, CommittedIsDeclaredFreelyOnlyOfAClusterThatDoesNotAnswer) {
  EXPECT_TRUE(Taken(InDoubt(ClusterState::kUnreachable), OrderKind::kDeclareCommitted));
  EXPECT_TRUE(Taken(InDoubt(ClusterState::kMismatch), OrderKind::kDeclareCommitted));
  EXPECT_TRUE(Taken(InDoubt(ClusterState::kConnecting), OrderKind::kDeclareCommitted));
  EXPECT_FALSE(Taken(InDoubt(ClusterState::kReady), OrderKind::kDeclareCommitted));
  EXPECT_TRUE(Taken(InDoubt(ClusterState::kReady), OrderKind::kDeclareCommitted, true));
}

TEST(OrderProblemTest, MissingMarkersAreRepairedRatherThanDeclaredAway) {
  OrderedBranch branch = InDoubt(ClusterState::kUnreachable);
  branch.missing_markers = {{"orders", 1}};
  EXPECT_FALSE(Taken(branch, OrderKind::kDeclareCommitted));
  EXPECT_TRUE(Taken(branch, OrderKind::kDeclareCommitted, true));
  EXPECT_TRUE(Taken(branch, OrderKind::kCommit));
}

TEST(OrderProblemTest, ForceDoesNotChangeAnOutcomeNorDisturbALane) {
  OrderedBranch known = InDoubt(ClusterState::kUnreachable);
  known.outcome = ParticipantOutcome::kCommitted;
  OrderedBranch lane = InDoubt(ClusterState::kUnreachable);
  lane.asked = false;
  for (const OrderKind kind : kAll) {
    const txn::OperatorOrder order{kind, true, "ann", "why", {}};
    EXPECT_EQ(OrderProblem(known, order)->code, Code::kFailedPrecondition) << Name(kind);
    EXPECT_EQ(OrderProblem(lane, order)->code, Code::kUnavailable) << Name(kind);
  }
}

}  // namespace
}  // namespace lockstep::coordinator
