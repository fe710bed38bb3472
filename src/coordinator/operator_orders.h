#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "coordinator/ports.h"
#include "txn/types.h"

namespace lockstep::coordinator {

/// What the coordinator knows of a branch that an operator gives an order about.
struct OrderedBranch {
  ClusterName cluster;
  txn::ParticipantOutcome outcome = txn::ParticipantOutcome::kPending;
  bool asked = false;  ///< Its resolution has begun: its lane is done with it.
  ClusterState cluster_state = ClusterState::kConnecting;
  std::vector<txn::TopicPartition> missing_markers;
};

/// Whether an order may be given: the rules of ResolveTxn, pure. None: obey it.
///   kFailedPrecondition  the outcome is known, and another one; or, unless forced: it contradicts
///                        the decision (kAbort, kDeclareAborted, kDeclareUnknown), it declares what
///                        the cluster, which answers, can be asked, or only markers are missing.
///   kUnavailable         the branch's lane is still being asked: retry.
std::optional<Error> OrderProblem(const OrderedBranch& branch, const txn::OperatorOrder& order);

/// The outcome that an order asks for.
txn::ParticipantOutcome WantedOutcome(txn::OrderKind kind);

}  // namespace lockstep::coordinator
