#include "txn/resolve.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/planted.h"

namespace lockstep::txn {
namespace {

using Effects = std::vector<ResolveEffect>;
using std::chrono::milliseconds;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool SameTransaction(const ParticipantName& name, const TxnDescription& d, int epochs_later) {
  return d.producer_id == name.producer_id &&
         d.producer_epoch.get() == name.producer_epoch.get() + epochs_later &&
         (d.start_time_ms == name.start_time_ms || Planted(PlantedBug::kLaneReusedEarly));
}

/// Doubles every `each` attempts. Fast at first, since a transaction in doubt holds back every
/// read_committed reader; then slow enough not to burden a cluster that is in trouble.
Duration Backoff(milliseconds first, int each, int attempt) {
  constexpr milliseconds kLongest{2'000};
  milliseconds delay = first;
  for (int i = each; i < attempt && delay < kLongest; i += each) delay *= 2;
  return std::min(delay, kLongest);
}

Effects WaitThen(Resolution& r, ResolvePhase resume, Duration delay) {
  r.phase = ResolvePhase::kWaiting;
  r.resume = resume;
  return {Wait{delay}};
}

Effects WaitThen(Resolution& r, ResolvePhase resume) {
  return WaitThen(r, resume, Backoff(milliseconds(5), 1, ++r.attempt));
}

/// Markers follow the broker's answer within a few milliseconds, and a client may be waiting.
Effects WaitForMarkers(Resolution& r) {
  return WaitThen(r, ResolvePhase::kCheckingMarkers, Backoff(milliseconds(1), 4, ++r.attempt));
}

Effects Failed(Resolution& r, const Error& error) {
  r.problem = error.message;
  return WaitThen(r, r.phase);
}

Direction DirectionOf(const Resolution& r) {
  if (!r.order) return Direction::kCommit;
  const bool abort =
      r.order->kind == OrderKind::kAbort || r.order->kind == OrderKind::kDeclareAborted;
  return abort ? Direction::kAbort : Direction::kCommit;
}

Effects Enter(Resolution& r, ResolvePhase phase) {
  r.phase = phase;
  switch (phase) {
    case ResolvePhase::kDescribing:
      return {AskDescribe{}};
    case ResolvePhase::kEnding:
      return {SendEndTxn{DirectionOf(r)}};
    case ResolvePhase::kReadingMarkers:
      return {ReadMarkers{}};
    case ResolvePhase::kCheckingMarkers:
      return {CheckMarkers{}};
    case ResolvePhase::kWaiting:
    case ResolvePhase::kConcluded:
      break;
  }
  std::abort();
}

Effects ConcludeWith(Resolution& r, ParticipantOutcome outcome, std::string problem) {
  r.phase = ResolvePhase::kConcluded;
  r.outcome = outcome;
  r.problem = std::move(problem);
  r.hanging.clear();
  return {Conclude{outcome}};
}

Effects CommittedByBrokersWord(Resolution& r) {
  if (!r.check_markers || Planted(PlantedBug::kMarkersUnchecked)) {
    return ConcludeWith(r, ParticipantOutcome::kCommitted, "");
  }
  return Enter(r, ResolvePhase::kCheckingMarkers);
}

Effects On(Resolution& r, const Described& event) {
  Require(r.phase == ResolvePhase::kDescribing);
  if (!event.answer.ok()) return Failed(r, event.answer.error());
  switch (Judge(r.participant.name, *event.answer, r.asked)) {
    case Verdict::kCommitted:
      return CommittedByBrokersWord(r);
    case Verdict::kAborted:
      return ConcludeWith(
          r, ParticipantOutcome::kAborted,
          "the broker aborted the transaction after COMMIT was decided (state " +
              std::string(Name(event.answer->state)) + ")" +
              (DirectionOf(r) == Direction::kAbort ? "; " + ToString(*r.order) : ""));
    case Verdict::kOngoing:
      return Enter(r, ResolvePhase::kEnding);
    case Verdict::kAskByEndTxn:
      // Whatever an operator ordered: there is nothing open for an abort to end.
      r.phase = ResolvePhase::kEnding;
      return {SendEndTxn{Direction::kCommit}};
    case Verdict::kAskAgain:
      r.problem = "the transaction coordinator shows the state " +
                  std::string(Name(event.answer->state)) + ": waiting for it to change";
      return WaitThen(r, ResolvePhase::kDescribing);
    case Verdict::kProvesNothing:
      return Enter(r, ResolvePhase::kReadingMarkers);
  }
  std::abort();
}

/// NONE. Under TV2, and not against an operator's abort, it is the broker's word.
Effects Ended(Resolution& r) {
  const bool tv2 = r.participant.name.protocol == EndTxnProtocol::kTv2;
  if (tv2 && DirectionOf(r) == Direction::kCommit) return CommittedByBrokersWord(r);
  return Enter(r, ResolvePhase::kDescribing);
}

Effects On(Resolution& r, const EndTxnAnswered& event) {
  Require(r.phase == ResolvePhase::kEnding);
  r.asked = event.answer.kind;
  if (event.answer.kind == EndTxnAnswer::Kind::kDone) return Ended(r);
  if (event.answer.kind == EndTxnAnswer::Kind::kFenced && Planted(PlantedBug::kFencedIsSuccess)) {
    return CommittedByBrokersWord(r);
  }
  // Whatever the error says, it is no outcome: look again, a little later.
  r.problem = event.answer.problem;
  return WaitThen(r, ResolvePhase::kDescribing);
}

Effects On(Resolution& r, const MarkersRead& event) {
  Require(r.phase == ResolvePhase::kReadingMarkers);
  if (!event.answer.ok()) return Failed(r, event.answer.error());
  Require(event.answer->size() == r.participant.evidence.size());
  switch (JudgeMarkers(*event.answer)) {
    case ParticipantOutcome::kCommitted:
      return CommittedByBrokersWord(r);
    case ParticipantOutcome::kAborted:
      return ConcludeWith(r, ParticipantOutcome::kAborted,
                          "an ABORT marker stands behind the records of a decided transaction");
    case ParticipantOutcome::kUnknown:
    case ParticipantOutcome::kPending:
      return ConcludeWith(r, ParticipantOutcome::kUnknown,
                          "the coordinator no longer knows the transaction, and no end-of-"
                          "transaction marker of it is left to read");
  }
  std::abort();
}

Effects On(Resolution& r, const MarkersChecked& event) {
  Require(r.phase == ResolvePhase::kCheckingMarkers);
  // What the cluster's brokers are was not known yet when the check began.
  if (!r.check_markers) return CommittedByBrokersWord(r);
  if (!event.hanging.ok()) return Failed(r, event.hanging.error());
  if (event.hanging->empty()) return ConcludeWith(r, ParticipantOutcome::kCommitted, "");
  // After some 120 ms of looking they are late enough to be named, and to be repaired.
  constexpr int kLate = 20;
  if (r.attempt < kLate) return WaitForMarkers(r);
  r.hanging = *event.hanging;
  std::string where;
  for (const TopicPartition& tp : r.hanging) where += (where.empty() ? "" : ", ") + ToString(tp);
  r.problem = "the broker says committed, but no COMMIT marker stands behind the records on " +
              where + ": it may be lost (KAFKA-20734); if this stays, repair-markers writes it";
  return WaitForMarkers(r);
}

Effects On(Resolution& r, const WaitOver&) {
  Require(r.phase == ResolvePhase::kWaiting);
  return Enter(r, r.resume);
}

Effects On(Resolution& r, const OrderGiven& event) {
  if (r.phase == ResolvePhase::kConcluded) return {};
  r.order = event.order;
  r.attempt = 0;
  if (r.phase != ResolvePhase::kWaiting) return {};  // The answer that is on its way comes first.
  return DeclaredOutcome(r.order->kind) ? Effects{} : Enter(r, r.resume);
}

/// A declaration ends the loop where it would wait.
bool EndsByDeclaration(const Resolution& r) {
  return r.phase == ResolvePhase::kWaiting && r.order && DeclaredOutcome(r.order->kind);
}

Effects ConcludeAsDeclared(Resolution& r) {
  // The broker has said that it is committed: only its markers are not seen.
  const bool committed = r.resume == ResolvePhase::kCheckingMarkers;
  r.declared = !committed;
  return ConcludeWith(r,
                      committed ? ParticipantOutcome::kCommitted : *DeclaredOutcome(r.order->kind),
                      ToString(*r.order));
}

/// What no name in the description proves. Under TV1 nothing does; under TV2 EndTxn is asked, once
/// it is known that no transaction is open.
Verdict JudgeByAnswer(const ParticipantName& name, bool aborted,
                      std::optional<EndTxnAnswer::Kind> asked) {
  if (name.protocol == EndTxnProtocol::kTv1) return Verdict::kProvesNothing;
  if (!asked || *asked == EndTxnAnswer::Kind::kUncertain) return Verdict::kAskByEndTxn;
  const bool invalid_state = *asked == EndTxnAnswer::Kind::kInvalidState;
  return aborted && invalid_state ? Verdict::kAborted : Verdict::kProvesNothing;
}

}  // namespace

std::string_view Name(KafkaTxnState state) {
  switch (state) {
    case KafkaTxnState::kEmpty:
      return "Empty";
    case KafkaTxnState::kOngoing:
      return "Ongoing";
    case KafkaTxnState::kPrepareCommit:
      return "PrepareCommit";
    case KafkaTxnState::kPrepareAbort:
      return "PrepareAbort";
    case KafkaTxnState::kCompleteCommit:
      return "CompleteCommit";
    case KafkaTxnState::kCompleteAbort:
      return "CompleteAbort";
    case KafkaTxnState::kDead:
      return "Dead";
    case KafkaTxnState::kPrepareEpochFence:
      return "PrepareEpochFence";
    case KafkaTxnState::kUnknown:
      return "Unknown";
  }
  std::abort();
}

Verdict Judge(const ParticipantName& name, const TxnDescription& description,
              std::optional<EndTxnAnswer::Kind> asked) {
  if (!description.exists) return Verdict::kProvesNothing;
  const bool tv2 = name.protocol == EndTxnProtocol::kTv2;
  const bool same = SameTransaction(name, description, 0);
  switch (description.state) {
    case KafkaTxnState::kOngoing:
      return same ? Verdict::kOngoing : Verdict::kProvesNothing;
    case KafkaTxnState::kPrepareCommit:
    case KafkaTxnState::kCompleteCommit:
      return same || (tv2 && SameTransaction(name, description, 1))
                 ? Verdict::kCommitted
                 : JudgeByAnswer(name, false, asked);
    case KafkaTxnState::kPrepareAbort:
    case KafkaTxnState::kCompleteAbort:
      // A time-out or a fence bumps the epoch as it aborts.
      return same || SameTransaction(name, description, 1) ? Verdict::kAborted
                                                           : JudgeByAnswer(name, true, asked);
    case KafkaTxnState::kEmpty:
      return Verdict::kProvesNothing;
    case KafkaTxnState::kDead:               // Being removed: not found next.
    case KafkaTxnState::kPrepareEpochFence:  // Being fenced: PrepareAbort next.
    case KafkaTxnState::kUnknown:
      return Verdict::kAskAgain;
  }
  std::abort();
}

ParticipantOutcome JudgeMarkers(const std::vector<MarkerFound>& found) {
  const bool commit = std::count(found.begin(), found.end(), MarkerFound::kCommit) > 0;
  const bool abort = std::count(found.begin(), found.end(), MarkerFound::kAbort) > 0;
  if (!commit && Planted(PlantedBug::kMissingMarkerIsAbort)) return ParticipantOutcome::kAborted;
  // Both would be a transaction torn inside one cluster: no single word for it is true.
  if (commit == abort) return ParticipantOutcome::kUnknown;
  return commit ? ParticipantOutcome::kCommitted : ParticipantOutcome::kAborted;
}

std::vector<ResolveEffect> StartFromUnknown(Resolution& resolution) {
  return Enter(resolution, ResolvePhase::kDescribing);
}

std::vector<ResolveEffect> StartFromCommitted(Resolution& resolution) {
  return CommittedByBrokersWord(resolution);
}

std::vector<ResolveEffect> Step(Resolution& resolution, const ResolveEvent& event) {
  Effects effects = std::visit([&](const auto& e) { return On(resolution, e); }, event);
  return EndsByDeclaration(resolution) ? ConcludeAsDeclared(resolution) : effects;
}

}  // namespace lockstep::txn
