#include "txn/types.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::txn {

std::string ToString(const TopicPartition& tp) {
  return tp.topic + "-" + std::to_string(tp.partition);
}

std::size_t Weight(const Record& record) {
  constexpr std::size_t kFlat = 128;  // Strings' and vectors' own words, and the producer's share.
  std::size_t bytes = kFlat + record.topic.size();
  if (record.key) bytes += record.key->size();
  if (record.value) bytes += record.value->size();
  for (const Header& header : record.headers) {
    bytes += kFlat / 2 + header.key.size() + (header.value ? header.value->size() : 0);
  }
  return bytes;
}

std::string_view Name(GlobalTxnState state) {
  switch (state) {
    case GlobalTxnState::kActive:
      return "ACTIVE";
    case GlobalTxnState::kPreparing:
      return "PREPARING";
    case GlobalTxnState::kCommitting:
      return "COMMITTING";
    case GlobalTxnState::kCommitted:
      return "COMMITTED";
    case GlobalTxnState::kAborting:
      return "ABORTING";
    case GlobalTxnState::kAborted:
      return "ABORTED";
    case GlobalTxnState::kHeuristic:
      return "HEURISTIC";
  }
  std::abort();
}

std::string_view Name(ParticipantOutcome outcome) {
  switch (outcome) {
    case ParticipantOutcome::kPending:
      return "PENDING";
    case ParticipantOutcome::kCommitted:
      return "COMMITTED";
    case ParticipantOutcome::kAborted:
      return "ABORTED";
    case ParticipantOutcome::kUnknown:
      return "UNKNOWN";
  }
  std::abort();
}

bool LiesInWork(AbortReason reason) {
  switch (reason) {
    case AbortReason::kUnknownTopic:
    case AbortReason::kUnknownPartition:
    case AbortReason::kRecordTooLarge:
    case AbortReason::kInvalidRecord:
    case AbortReason::kNotAuthorized:
    case AbortReason::kGroupFenced:
      return true;
    case AbortReason::kNone:
    case AbortReason::kClientAbort:
    case AbortReason::kTxnTimeout:
    case AbortReason::kShutdown:
    case AbortReason::kClusterUnavailable:
    case AbortReason::kClusterMismatch:
    case AbortReason::kProducerFenced:
    case AbortReason::kDeadlineTooClose:
    case AbortReason::kVoteMismatch:
    case AbortReason::kInternal:
      return false;
  }
  std::abort();
}

std::string_view Name(AbortReason reason) {
  switch (reason) {
    case AbortReason::kNone:
      return "NONE";
    case AbortReason::kClientAbort:
      return "CLIENT_ABORT";
    case AbortReason::kTxnTimeout:
      return "TXN_TIMEOUT";
    case AbortReason::kShutdown:
      return "SHUTDOWN";
    case AbortReason::kClusterUnavailable:
      return "CLUSTER_UNAVAILABLE";
    case AbortReason::kClusterMismatch:
      return "CLUSTER_MISMATCH";
    case AbortReason::kUnknownTopic:
      return "UNKNOWN_TOPIC";
    case AbortReason::kUnknownPartition:
      return "UNKNOWN_PARTITION";
    case AbortReason::kRecordTooLarge:
      return "RECORD_TOO_LARGE";
    case AbortReason::kInvalidRecord:
      return "INVALID_RECORD";
    case AbortReason::kNotAuthorized:
      return "NOT_AUTHORIZED";
    case AbortReason::kGroupFenced:
      return "GROUP_FENCED";
    case AbortReason::kProducerFenced:
      return "PRODUCER_FENCED";
    case AbortReason::kDeadlineTooClose:
      return "DEADLINE_TOO_CLOSE";
    case AbortReason::kVoteMismatch:
      return "VOTE_MISMATCH";
    case AbortReason::kInternal:
      return "INTERNAL";
  }
  std::abort();
}

std::string_view Name(OrderKind kind) {
  switch (kind) {
    case OrderKind::kCommit:
      return "COMMIT";
    case OrderKind::kAbort:
      return "ABORT";
    case OrderKind::kDeclareCommitted:
      return "DECLARE_COMMITTED";
    case OrderKind::kDeclareAborted:
      return "DECLARE_ABORTED";
    case OrderKind::kDeclareUnknown:
      return "DECLARE_UNKNOWN";
  }
  std::abort();
}

std::string ToString(const OperatorOrder& order) {
  return std::string(Name(order.kind)) + " by an operator (" + order.who + "): " + order.why;
}

std::optional<ParticipantOutcome> DeclaredOutcome(OrderKind kind) {
  switch (kind) {
    case OrderKind::kCommit:
    case OrderKind::kAbort:
      return std::nullopt;
    case OrderKind::kDeclareCommitted:
      return ParticipantOutcome::kCommitted;
    case OrderKind::kDeclareAborted:
      return ParticipantOutcome::kAborted;
    case OrderKind::kDeclareUnknown:
      return ParticipantOutcome::kUnknown;
  }
  std::abort();
}

bool Decision::complete() const {
  return std::none_of(participants.begin(), participants.end(), [](const auto& participant) {
    return participant.outcome == ParticipantOutcome::kPending;
  });
}

bool Decision::heuristic() const {
  return complete() &&
         std::any_of(participants.begin(), participants.end(), [](const auto& participant) {
           return participant.outcome != ParticipantOutcome::kCommitted;
         });
}

GlobalTxnState StateOf(const Decision& decision) {
  if (!decision.complete()) return GlobalTxnState::kCommitting;
  return decision.heuristic() ? GlobalTxnState::kHeuristic : GlobalTxnState::kCommitted;
}

}  // namespace lockstep::txn
