#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

/// What the coordinator tells of its own work.
namespace lockstep::coordinator {

using txn::GlobalTxnState;

void Coordinator::CountEnd(const OpenTxn& txn, GlobalTxnState state, txn::AbortReason reason) {
  switch (state) {
    case GlobalTxnState::kCommitted:
      ++stats_.committed;
      if (txn.commit_asked) stats_.commit.Add(clock_.Now() - *txn.commit_asked);
      return;
    case GlobalTxnState::kHeuristic:
      ++stats_.heuristic;
      return;
    default:
      ++stats_.aborted[static_cast<std::size_t>(reason)];
  }
}

void Coordinator::Read(Callback<Reading> done) {
  executor_.Post([this, done = std::move(done)] {
    Reading reading{.stats = stats_,
                    .open_txns = open_.size(),
                    .in_line = batcher_.waiting(),
                    .batches = runners_.size(),
                    .buffered_bytes = buffered_bytes_,
                    .recovered = log_.recovered().incomplete.size(),
                    .recovering = recovering_,
                    .recovery = recovered_.value_or(clock_.Now()) - started_};
    ReadInDoubt(reading);
    done(std::move(reading));
  });
}

void Coordinator::ReadInDoubt(Reading& reading) const {
  for (const auto& [name, cluster] : clusters_) {
    reading.in_doubt[name];
    reading.stats.clusters[name];
  }
  for (const auto& [batch, view] : heuristic_) reading.heuristic_txns += view.members.size();
  for (const auto& [batch, runner] : runners_) {
    if (!runner->decided() || runner->announced()) continue;
    reading.in_doubt_txns += runner->members().size();
    const auto& participants = runner->batch().participants;
    for (std::size_t i = 0; i < participants.size(); ++i) {
      if (participants[i].outcome != txn::ParticipantOutcome::kPending) continue;
      InDoubtThere& there = reading.in_doubt[participants[i].cluster];
      there.txns += runner->members().size();
      there.decided_at =
          std::min(there.decided_at.value_or(runner->decided_at()), runner->decided_at());
      const Resolver* resolver = runner->resolver(i);
      if (resolver != nullptr) there.missing_markers += resolver->resolution().hanging.size();
    }
  }
}

}  // namespace lockstep::coordinator
