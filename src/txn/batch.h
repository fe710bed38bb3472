#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "txn/types.h"

/// The two-phase commit of one batch as a pure function: an event changes the state and yields
/// effects; the caller runs the effects afterwards, in order. No I/O, no clock, no threads.
///
/// "Log before tell" lives here: kStoreDecision is the only way into kCommitting, and no effect
/// that ends a participant with COMMIT or tells a member exists before DecisionStored came back.
namespace lockstep::txn {

enum class BatchPhase : std::uint8_t {
  kPreparing,   ///< Waiting for votes. Abort and expiry may still win.
  kDeciding,    ///< The decision's write is in flight: it counts as decided (rule M2).
  kCommitting,  ///< COMMIT is durable; participants are being ended.
  kAborting,    ///< Abort won; participants are being ended.
  kDone,        ///< Nothing more will happen to it.
};
std::string_view Name(BatchPhase phase);
/// The transition table: which phases may precede `to`.
bool IsValidTransition(BatchPhase from, BatchPhase to);

enum class ParticipantPhase : std::uint8_t {
  kPreparing,  ///< Asked to prepare; no vote yet.
  kYes,        ///< Prepared.
  kReadOnly,   ///< Nothing to end.
  kNo,         ///< Refused; what it began must still be aborted.
  kEnding,     ///< Asked to commit or abort.
  kEnded,      ///< Outcome known (or known to be unknowable).
  kReleased,   ///< Its lane may be used again, or renewed.
};

struct BatchParticipant {
  ClusterName cluster;
  ParticipantPhase phase = ParticipantPhase::kPreparing;
  std::optional<PreparedParticipant> prepared;  ///< After a YES.
  MonoTime deadline{};                          ///< After a YES.
  ParticipantOutcome outcome = ParticipantOutcome::kPending;
  bool declared = false;  ///< The outcome is an operator's word: no broker has proved it.
  bool enlisted = false;  ///< The client's own producer's: see PreparedParticipant.
  /// Enlisted only: an EndTxn of ours may be on its way still, so the producer must get another
  /// epoch before it goes on.
  bool reinit_required = false;
  Positions positions;  ///< After a YES, if they were wanted.
};

struct Batch {
  BatchId id;
  BatchPhase phase = BatchPhase::kPreparing;
  std::vector<BatchParticipant> participants;
  Refusal refusal;                ///< Why it aborted; reason kNone otherwise.
  std::vector<Culprit> culprits;  ///< Whose fault that is; none: everybody's, or not known.
  bool announced = false;
};

// ---- Events ---------------------------------------------------------------------------------

/// A participant voted. The caller passes the clock's reading and the reserve that must remain
/// before the earliest deadline.
struct VoteArrived {
  std::size_t participant = 0;
  Vote vote;
  MonoTime now;
  Duration deadline_margin{};
};
/// Somebody wants it aborted: the client, its timeout, a shutdown. Loses against a decision.
struct AbortWanted {
  Refusal why;
  std::vector<Culprit> culprits;  ///< As in Batch.
};
/// The decision is durable.
struct DecisionStored {};
/// A participant's outcome is known (or known to be unknowable).
struct ParticipantEnded {
  std::size_t participant = 0;
  ParticipantOutcome outcome = ParticipantOutcome::kPending;
  bool declared = false;
  bool reinit_required = false;
};
/// The outcome of a decided participant is durable.
struct CompletionStored {
  std::size_t participant = 0;
};
using BatchEvent =
    std::variant<VoteArrived, AbortWanted, DecisionStored, ParticipantEnded, CompletionStored>;

// ---- Effects ---------------------------------------------------------------------------------

/// Write the decision and sync it; then feed DecisionStored.
struct StoreDecision {};
/// End this participant; feed ParticipantEnded when its outcome is known. For kAbort this is also
/// the way to cancel a prepare that is still running.
struct EndParticipant {
  std::size_t participant = 0;
  Direction direction = Direction::kAbort;
};
/// Write the outcome; durable within the log's own pace, or at once; then feed CompletionStored.
struct StoreCompletion {
  std::size_t participant = 0;
  ParticipantOutcome outcome = ParticipantOutcome::kPending;
  bool urgent = false;  ///< Somebody waits for it: an enlisted producer goes on only then.
};
/// The participant is done with: its completion is durable, or it was never decided. Only now may
/// its transactional.id see another transaction or an InitProducerId (rules M1, "clean" (a)).
struct ReleaseParticipant {
  std::size_t participant = 0;
};
/// The decision is durable: those who wait for DECIDED may be told.
struct AnnounceDecided {};
/// The outcome is final: everyone may be told. `outcome` is kCommitted, kAborted or kHeuristic.
struct AnnounceOutcome {
  GlobalTxnState outcome = GlobalTxnState::kAborted;
};
using BatchEffect = std::variant<StoreDecision, EndParticipant, StoreCompletion, ReleaseParticipant,
                                 AnnounceDecided, AnnounceOutcome>;

struct NewParticipant {
  ClusterName cluster;
  bool enlisted = false;
};
/// A new batch over these, every one asked to prepare.
Batch NewBatch(BatchId id, const std::vector<NewParticipant>& participants);

/// Another one, asked to prepare; its index. Only while votes are missing.
std::size_t AddParticipant(Batch& batch, NewParticipant participant);

/// A batch as recovery finds it in the log: decided, some participants pending. The effects that
/// start its completion are those of DecisionStored.
Batch RecoveredBatch(const Decision& decision);

/// One step. Events that the state does not allow (a vote after a decision, a second end) are
/// defects of the caller and abort the process, except those that a race makes legal: AbortWanted
/// in any phase, a late vote after an abort; these change nothing.
std::vector<BatchEffect> Step(Batch& batch, const BatchEvent& event);

/// The decision record of a batch in kDeciding. Read-only participants are not in it: they have
/// nothing to end.
Decision DecisionOf(const Batch& batch, std::vector<GlobalTxnId> members, WallTime now);

/// Where a participant of the batch that is not read-only stands in the decision's list.
std::uint32_t IndexInDecision(const Batch& batch, std::size_t participant);

}  // namespace lockstep::txn
