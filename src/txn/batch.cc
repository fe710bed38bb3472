#include "txn/batch.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "base/planted.h"

namespace lockstep::txn {
namespace {

using Effects = std::vector<BatchEffect>;

/// A condition that only a defect can break; the state must not go on from there.
void Require(bool condition) {
  if (!condition) std::abort();
}

void MoveTo(Batch& batch, BatchPhase to) {
  Require(IsValidTransition(batch.phase, to));
  batch.phase = to;
}

bool HasBegun(const BatchParticipant& participant) {
  return participant.phase != ParticipantPhase::kReadOnly;
}

void FinishIfReleased(Batch& batch) {
  const bool all =
      std::all_of(batch.participants.begin(), batch.participants.end(),
                  [](const auto& p) { return p.phase == ParticipantPhase::kReleased; });
  if (all) MoveTo(batch, BatchPhase::kDone);
}

/// Read-only participants have nothing to end: their part is over with the decision.
void ReleaseReadOnly(Batch& batch, Effects& effects) {
  for (std::size_t i = 0; i < batch.participants.size(); ++i) {
    BatchParticipant& participant = batch.participants[i];
    if (participant.phase != ParticipantPhase::kReadOnly) continue;
    participant.phase = ParticipantPhase::kReleased;
    effects.push_back(ReleaseParticipant{i});
  }
}

/// Presumed abort: nothing was and nothing will be decided, so this is the truth from the start.
/// But who enlisted a producer goes on with it once told, and an abort that is still on its way
/// would meet the producer's next transaction (rule M13).
void AnnounceAborted(Batch& batch, Effects& effects) {
  const bool ending =
      std::any_of(batch.participants.begin(), batch.participants.end(),
                  [](const auto& p) { return p.enlisted && p.phase == ParticipantPhase::kEnding; });
  if (batch.announced || (ending && !Planted(PlantedBug::kAbortToldEarly))) return;
  batch.announced = true;
  effects.push_back(AnnounceOutcome{GlobalTxnState::kAborted});
}

Effects StartAborting(Batch& batch, Refusal why, std::vector<Culprit> culprits) {
  MoveTo(batch, BatchPhase::kAborting);
  batch.refusal = std::move(why);
  batch.culprits = std::move(culprits);
  Effects effects;
  for (std::size_t i = 0; i < batch.participants.size(); ++i) {
    BatchParticipant& participant = batch.participants[i];
    if (!HasBegun(participant)) continue;
    participant.phase = ParticipantPhase::kEnding;
    effects.push_back(EndParticipant{i, Direction::kAbort});
  }
  ReleaseReadOnly(batch, effects);
  AnnounceAborted(batch, effects);
  FinishIfReleased(batch);
  return effects;
}

/// Under TV1 an enlisted producer's next transaction has the same name: told of COMMITTED it may
/// begin, and recovery would not find this one again (rule M11). A TV2 producer waits at its next
/// Enlist.
bool MovesOnWhenTold(const BatchParticipant& participant) {
  if (Planted(PlantedBug::kEnlistedToldEarly)) return false;
  return participant.enlisted && participant.prepared &&
         participant.prepared->name.protocol == EndTxnProtocol::kTv1;
}

/// Known to be committed may be told at once: were the completion lost, recovery would find the
/// same. What a later look might not show again (an aborted or unknowable participant, an
/// operator's declaration, one whose producer moves on) is told only once it is durable.
bool MayBeTold(const BatchParticipant& participant) {
  if (participant.phase == ParticipantPhase::kReleased) return true;
  return participant.outcome == ParticipantOutcome::kCommitted && !participant.declared &&
         !MovesOnWhenTold(participant);
}

/// The outcome that may be told now, if any.
std::optional<GlobalTxnState> FinalOutcome(const Batch& batch) {
  bool heuristic = false;
  for (const BatchParticipant& participant : batch.participants) {
    if (participant.outcome == ParticipantOutcome::kPending) return std::nullopt;
    if (!MayBeTold(participant)) return std::nullopt;
    heuristic |= participant.outcome != ParticipantOutcome::kCommitted;
  }
  if (Planted(PlantedBug::kHeuristicHidden)) heuristic = false;
  return heuristic ? GlobalTxnState::kHeuristic : GlobalTxnState::kCommitted;
}

void AnnounceIfFinal(Batch& batch, Effects& effects) {
  if (batch.announced) return;
  if (const auto outcome = FinalOutcome(batch)) {
    batch.announced = true;
    effects.push_back(AnnounceOutcome{*outcome});
  }
}

Effects StartCommitting(Batch& batch) {
  MoveTo(batch, BatchPhase::kCommitting);
  Effects effects{AnnounceDecided{}};
  for (std::size_t i = 0; i < batch.participants.size(); ++i) {
    BatchParticipant& participant = batch.participants[i];
    if (participant.phase != ParticipantPhase::kYes) continue;
    participant.phase = ParticipantPhase::kEnding;
    effects.push_back(EndParticipant{i, Direction::kCommit});
  }
  ReleaseReadOnly(batch, effects);
  AnnounceIfFinal(batch, effects);
  FinishIfReleased(batch);
  return effects;
}

void Record(BatchParticipant& participant, const Vote& vote) {
  switch (vote.kind) {
    case Vote::Kind::kYes:
      participant.phase = ParticipantPhase::kYes;
      participant.prepared = vote.prepared;
      participant.deadline = vote.deadline;
      participant.positions = vote.positions;
      break;
    case Vote::Kind::kReadOnly:
      participant.phase = ParticipantPhase::kReadOnly;
      participant.outcome = ParticipantOutcome::kCommitted;
      break;
    case Vote::Kind::kNo:
      participant.phase = ParticipantPhase::kNo;
      break;
  }
}

Effects DecideIfAllVoted(Batch& batch, const VoteArrived& event) {
  const bool all = std::all_of(batch.participants.begin(), batch.participants.end(),
                               [](const auto& participant) {
                                 return participant.phase == ParticipantPhase::kYes ||
                                        participant.phase == ParticipantPhase::kReadOnly;
                               });
  if (!all) return {};
  for (const BatchParticipant& participant : batch.participants) {
    if (participant.phase != ParticipantPhase::kYes) continue;
    if (event.now + event.deadline_margin < participant.deadline) continue;
    if (Planted(PlantedBug::kDecidePastDeadline)) continue;
    return StartAborting(batch,
                         Refusal{AbortReason::kDeadlineTooClose, participant.cluster,
                                 "too little of Kafka's transaction timeout was left on cluster '" +
                                     participant.cluster.get() +
                                     "' to promise COMMIT; raise its transaction_timeout",
                                 true},
                         {});
  }
  MoveTo(batch, BatchPhase::kDeciding);
  return {StoreDecision{}};
}

Effects On(Batch& batch, const VoteArrived& event) {
  Require(event.participant < batch.participants.size());
  BatchParticipant& participant = batch.participants[event.participant];
  if (batch.phase == BatchPhase::kAborting || batch.phase == BatchPhase::kDone) {
    return {};  // Abort won while it was on its way; its end was asked for already.
  }
  Require(batch.phase == BatchPhase::kPreparing);
  Require(participant.phase == ParticipantPhase::kPreparing);
  Record(participant, event.vote);
  if (event.vote.kind == Vote::Kind::kNo && Planted(PlantedBug::kCommitWithoutAllVotes)) {
    Record(participant, {.kind = Vote::Kind::kReadOnly});
  } else if (event.vote.kind == Vote::Kind::kNo) {
    return StartAborting(batch, event.vote.refusal, event.vote.culprits);
  }
  return DecideIfAllVoted(batch, event);
}

Effects On(Batch& batch, const AbortWanted& event) {
  if (batch.phase == BatchPhase::kDeciding && Planted(PlantedBug::kAbortBeatsDecision)) {
    batch.announced = true;
    return {AnnounceOutcome{GlobalTxnState::kAborted}};
  }
  if (batch.phase != BatchPhase::kPreparing) return {};  // Decided, or aborting anyway.
  return StartAborting(batch, event.why, event.culprits);
}

Effects On(Batch& batch, const DecisionStored&) { return StartCommitting(batch); }

Effects On(Batch& batch, const ParticipantEnded& event) {
  Require(event.participant < batch.participants.size());
  Require(event.outcome != ParticipantOutcome::kPending);
  BatchParticipant& participant = batch.participants[event.participant];
  Require(participant.phase == ParticipantPhase::kEnding);
  participant.outcome = event.outcome;
  participant.declared = event.declared;
  participant.reinit_required = event.reinit_required;
  Effects effects;
  if (batch.phase == BatchPhase::kAborting) {
    participant.phase = ParticipantPhase::kReleased;  // Never decided: nothing to make durable.
    effects.push_back(ReleaseParticipant{event.participant});
    AnnounceAborted(batch, effects);
    FinishIfReleased(batch);
    return effects;
  }
  Require(batch.phase == BatchPhase::kCommitting);
  participant.phase = ParticipantPhase::kEnded;
  if (Planted(PlantedBug::kLaneReusedEarly)) {
    effects.push_back(ReleaseParticipant{event.participant});
  }
  effects.push_back(StoreCompletion{event.participant, event.outcome, participant.enlisted});
  AnnounceIfFinal(batch, effects);
  return effects;
}

Effects On(Batch& batch, const CompletionStored& event) {
  Require(batch.phase == BatchPhase::kCommitting);
  Require(event.participant < batch.participants.size());
  BatchParticipant& participant = batch.participants[event.participant];
  Require(participant.phase == ParticipantPhase::kEnded);
  participant.phase = ParticipantPhase::kReleased;
  Effects effects;
  if (!Planted(PlantedBug::kLaneReusedEarly)) {
    effects.push_back(ReleaseParticipant{event.participant});
  }
  AnnounceIfFinal(batch, effects);
  FinishIfReleased(batch);
  return effects;
}

}  // namespace

std::string_view Name(BatchPhase phase) {
  switch (phase) {
    case BatchPhase::kPreparing:
      return "preparing";
    case BatchPhase::kDeciding:
      return "deciding";
    case BatchPhase::kCommitting:
      return "committing";
    case BatchPhase::kAborting:
      return "aborting";
    case BatchPhase::kDone:
      return "done";
  }
  std::abort();
}

bool IsValidTransition(BatchPhase from, BatchPhase to) {
  switch (to) {
    case BatchPhase::kPreparing:
      return false;
    case BatchPhase::kDeciding:
      return from == BatchPhase::kPreparing;
    case BatchPhase::kCommitting:
      return from == BatchPhase::kDeciding;
    case BatchPhase::kAborting:
      return from == BatchPhase::kPreparing;
    case BatchPhase::kDone:
      return from == BatchPhase::kCommitting || from == BatchPhase::kAborting;
  }
  std::abort();
}

std::size_t AddParticipant(Batch& batch, NewParticipant participant) {
  Require(batch.phase == BatchPhase::kPreparing);
  batch.participants.push_back(BatchParticipant{.cluster = std::move(participant.cluster),
                                                .enlisted = participant.enlisted});
  return batch.participants.size() - 1;
}

Batch NewBatch(BatchId id, const std::vector<NewParticipant>& participants) {
  Batch batch;
  batch.id = id;
  for (const NewParticipant& participant : participants) AddParticipant(batch, participant);
  // Nothing was written anywhere: there is nobody to wait for, but the decision is still stored, so
  // that COMMITTED stays the answer after a crash.
  if (participants.empty()) batch.phase = BatchPhase::kDeciding;
  return batch;
}

Batch RecoveredBatch(const Decision& decision) {
  Batch batch;
  batch.id = decision.batch;
  batch.phase = BatchPhase::kDeciding;
  for (const DecidedParticipant& decided : decision.participants) {
    BatchParticipant participant{.cluster = decided.prepared.name.cluster,
                                 .phase = ParticipantPhase::kYes,
                                 .prepared = decided.prepared,
                                 .outcome = decided.outcome,
                                 .enlisted = decided.prepared.enlisted,
                                 // A request of the dead process may be on its way.
                                 .reinit_required = decided.prepared.enlisted};
    // A completion that was read back is durable.
    if (decided.outcome != ParticipantOutcome::kPending) {
      participant.phase = ParticipantPhase::kReleased;
    }
    batch.participants.push_back(std::move(participant));
  }
  return batch;
}

std::vector<BatchEffect> Step(Batch& batch, const BatchEvent& event) {
  return std::visit([&](const auto& e) { return On(batch, e); }, event);
}

Decision DecisionOf(const Batch& batch, std::vector<GlobalTxnId> members, WallTime now) {
  Require(batch.phase == BatchPhase::kDeciding);
  Decision decision{.batch = batch.id, .decided_at = now, .members = std::move(members)};
  for (const BatchParticipant& participant : batch.participants) {
    if (participant.phase == ParticipantPhase::kReadOnly) continue;
    Require(participant.prepared.has_value());
    decision.participants.push_back(DecidedParticipant{.prepared = *participant.prepared});
  }
  return decision;
}

std::uint32_t IndexInDecision(const Batch& batch, std::size_t participant) {
  Require(participant < batch.participants.size() && batch.participants[participant].prepared);
  const auto end = batch.participants.begin() + static_cast<std::ptrdiff_t>(participant);
  return static_cast<std::uint32_t>(std::count_if(
      batch.participants.begin(), end, [](const auto& p) { return p.prepared.has_value(); }));
}

}  // namespace lockstep::txn
