#include "coordinator/operator_orders.h"

#include <string>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/views.h"

namespace lockstep::coordinator {
namespace {

using txn::OrderKind;
using txn::ParticipantOutcome;

Error Refused(const OrderedBranch& branch, const std::string& why) {
  return MakeError(Code::kFailedPrecondition, "cluster '" + branch.cluster.get() + "': " + why);
}

}  // namespace

ParticipantOutcome WantedOutcome(OrderKind kind) {
  if (const auto declared = DeclaredOutcome(kind)) return *declared;
  return kind == OrderKind::kAbort ? ParticipantOutcome::kAborted : ParticipantOutcome::kCommitted;
}

std::optional<Error> OrderProblem(const OrderedBranch& branch, const txn::OperatorOrder& order) {
  if (branch.outcome != ParticipantOutcome::kPending) {
    return Refused(branch, "the outcome is known: " + std::string(Name(branch.outcome)));
  }
  if (!branch.asked) {
    return MakeError(Code::kUnavailable, "cluster '" + branch.cluster.get() +
                                             "': the lane that wrote it is being asked to commit; "
                                             "retry");
  }
  if (order.forced) return std::nullopt;
  if (WantedOutcome(order.kind) != ParticipantOutcome::kCommitted) {
    return Refused(branch,
                   std::string(Name(order.kind)) +
                       " contradicts the decision, which is COMMIT: the transaction becomes "
                       "HEURISTIC. Force it if that is meant");
  }
  if (!DeclaredOutcome(order.kind)) return std::nullopt;
  if (!branch.missing_markers.empty()) {
    return Refused(branch,
                   "it is committed, and markers are missing: repair-markers writes them; declared "
                   "COMMITTED, they stay missing. Force it if that is meant");
  }
  if (branch.cluster_state == ClusterState::kReady) {
    return Refused(
        branch,
        "the cluster answers, so it can be asked: order COMMIT. Force the declaration if "
        "that is meant");
  }
  return std::nullopt;
}

void Coordinator::Resolve(GlobalTxnId id, ClusterName cluster, txn::OperatorOrder order,
                          Callback<Result<TxnView>> done) {
  Post(
      [this, id = std::move(id), cluster = std::move(cluster), order = std::move(order),
       done]() mutable {
        if (const auto found = open_.find(id); found != open_.end()) {
          return ResolveOpen(found->second, cluster, std::move(order), done);
        }
        const Result<TxnView> closed = ClosedView(id);
        if (!closed.ok()) return done(closed.error());
        for (const BranchView& branch : closed->branches) {
          const bool named = branch.cluster == cluster && branch.participant.has_value();
          if (named && branch.outcome == WantedOutcome(order.kind)) return done(*closed);
        }
        done(MakeError(Code::kFailedPrecondition, "the transaction is " +
                                                      std::string(Name(closed->state)) +
                                                      ": nothing of it is in doubt"));
      },
      done);
}

void Coordinator::ResolveOpen(const OpenTxn& txn, const ClusterName& cluster,
                              txn::OperatorOrder order, Callback<Result<TxnView>> done) {
  const std::shared_ptr<BatchRunner> runner = txn.runner;
  if (runner == nullptr || !runner->decided()) {
    return done(MakeError(Code::kFailedPrecondition,
                          "the transaction is " + std::string(Name(txn.view.state)) +
                              ", so nothing is decided: abort it instead"));
  }
  const auto& participants = runner->batch().participants;
  for (std::size_t i = 0; i < participants.size(); ++i) {
    if (participants[i].cluster != cluster) continue;
    const ParticipantOutcome outcome = participants[i].outcome;
    if (outcome == WantedOutcome(order.kind)) return done(ViewOf(txn));
    const Resolver* resolver = runner->resolver(i);
    OrderedBranch branch{.cluster = cluster,
                         .outcome = outcome,
                         .asked = resolver != nullptr,
                         .cluster_state = FindCluster(cluster)->status().state};
    if (resolver != nullptr) branch.missing_markers = resolver->resolution().hanging;
    if (auto problem = OrderProblem(branch, order)) return done(*std::move(problem));
    order.given_at = clock_.WallNow();
    return runner->Obey(i, std::move(order), [this, id = txn.view.id, done] {
      if (failed_) return done(*failed_);
      const auto found = open_.find(id);
      done(found != open_.end() ? Result<TxnView>(ViewOf(found->second)) : ClosedView(id));
    });
  }
  done(NoBranch(cluster));
}

void Coordinator::SetAdmission(bool admit, Callback<Result<std::size_t>> done) {
  Post(
      [this, admit, done] {
        if (admit && draining_) {
          return done(MakeError(Code::kFailedPrecondition,
                                "the server is stopping: it takes no new transactions any more"));
        }
        admitting_ = admit;
        done(open_.size());
      },
      done);
}

}  // namespace lockstep::coordinator
