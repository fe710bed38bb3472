#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// What operators ask of the coordinator.
namespace lockstep::coordinator {

using txn::GlobalTxnState;

namespace {

Error NothingMissing(GlobalTxnState state) {
  return MakeError(Code::kFailedPrecondition, "the transaction is " + std::string(Name(state)) +
                                                  ": no marker of it is known to be missing");
}

}  // namespace

void Coordinator::ListInDoubt(Callback<std::vector<InDoubtView>> done) {
  executor_.Post([this, done = std::move(done)] {
    std::vector<InDoubtView> views;
    for (const auto& [batch, view] : heuristic_) views.push_back(view);
    for (const auto& [batch, runner] : runners_) {
      if (runner->decided() && !runner->announced()) {
        views.push_back(InDoubtOf(*runner, GlobalTxnState::kCommitting));
      }
    }
    done(std::move(views));
  });
}

void Coordinator::RepairMarkers(GlobalTxnId id, ClusterName cluster, Callback<Status> done) {
  Post(
      [this, id = std::move(id), cluster = std::move(cluster), done] {
        const auto found = open_.find(id);
        if (found == open_.end()) {
          const Result<TxnView> closed = ClosedView(id);
          if (!closed.ok()) return done(closed.error());
          return done(NothingMissing(closed->state));
        }
        const std::shared_ptr<BatchRunner> runner = found->second.runner;
        if (runner == nullptr) return done(NothingMissing(found->second.view.state));
        const auto& participants = runner->batch().participants;
        for (std::size_t i = 0; i < participants.size(); ++i) {
          if (participants[i].cluster == cluster) return runner->RepairMarkers(i, done);
        }
        done(NoBranch(cluster));
      },
      done);
}

void Coordinator::AcknowledgeHeuristic(GlobalTxnId id, Callback<Status> done) {
  Post(
      [this, id = std::move(id), done] {
        for (const auto& [batch, view] : heuristic_) {
          if (std::count(view.members.begin(), view.members.end(), id) == 0) continue;
          return log_.StoreAcknowledgement(batch, [this, id, batch = batch, done](Status status) {
            executor_.Post([this, id, batch, done, status = std::move(status)] {
              if (!status.ok() && status.error().effect == Effect::kNone) {
                // The log is unharmed; it hears nothing twice. Another call was first, if it has
                // it.
                return heuristic_.contains(batch) ? done(status) : AcknowledgeHeuristic(id, done);
              }
              if (!status.ok()) return OnLogFailed(status.error()), done(*failed_);
              heuristic_.erase(batch);
              done({});
            });
          });
        }
        const Result<TxnView> closed = ClosedView(id);
        if (!closed.ok()) return done(closed.error());
        if (closed->state == GlobalTxnState::kHeuristic) return done({});  // Acknowledged already.
        done(MakeError(Code::kFailedPrecondition,
                       "the transaction is " + std::string(Name(closed->state)) +
                           ", not HEURISTIC: there is nothing to acknowledge"));
      },
      done);
}

}  // namespace lockstep::coordinator
