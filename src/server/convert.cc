#include "server/convert.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "coordinator/txn_id.h"
#include "server/checks.h"

namespace lockstep::server {
namespace {

using google::protobuf::util::TimeUtil;

v1::BranchOutcome BranchOutcomeOf(txn::ParticipantOutcome outcome) {
  switch (outcome) {
    case txn::ParticipantOutcome::kPending:
      return v1::BRANCH_OUTCOME_PENDING;
    case txn::ParticipantOutcome::kCommitted:
      return v1::BRANCH_OUTCOME_COMMITTED;
    case txn::ParticipantOutcome::kAborted:
      return v1::BRANCH_OUTCOME_ABORTED;
    case txn::ParticipantOutcome::kUnknown:
      return v1::BRANCH_OUTCOME_UNKNOWN;
  }
  std::abort();
}

v1::ClusterState ClusterStateOf(coordinator::ClusterState state) {
  switch (state) {
    case coordinator::ClusterState::kConnecting:
      return v1::CLUSTER_STATE_CONNECTING;
    case coordinator::ClusterState::kReady:
      return v1::CLUSTER_STATE_READY;
    case coordinator::ClusterState::kUnreachable:
      return v1::CLUSTER_STATE_UNREACHABLE;
    case coordinator::ClusterState::kMismatch:
      return v1::CLUSTER_STATE_MISMATCH;
    case coordinator::ClusterState::kRefused:
      return v1::CLUSTER_STATE_REFUSED;
  }
  std::abort();
}

/// Unspecified for a state that is no outcome.
v1::Outcome OutcomeOf(txn::GlobalTxnState state) {
  switch (state) {
    case txn::GlobalTxnState::kCommitted:
      return v1::OUTCOME_COMMITTED;
    case txn::GlobalTxnState::kCommitting:
      return v1::OUTCOME_COMMITTING;
    case txn::GlobalTxnState::kHeuristic:
      return v1::OUTCOME_HEURISTIC;
    // It can never commit, whichever brokers still have to be told.
    case txn::GlobalTxnState::kAborting:
    case txn::GlobalTxnState::kAborted:
      return v1::OUTCOME_ABORTED;
    case txn::GlobalTxnState::kActive:
    case txn::GlobalTxnState::kPreparing:
      return v1::OUTCOME_UNSPECIFIED;
  }
  std::abort();
}

bool IsAborted(txn::GlobalTxnState state) { return OutcomeOf(state) == v1::OUTCOME_ABORTED; }

void FillPositions(const txn::Positions& positions, v1::ManagedBranch& managed) {
  if (positions == nullptr) return;
  managed.mutable_positions()->Reserve(static_cast<int>(positions->size()));
  for (const txn::RecordPosition& position : *positions) {
    auto& out = *managed.add_positions();
    out.set_partition(position.partition);
    out.set_offset(position.offset);
  }
}

/// What both kinds of branches have in common.
template <typename Kind>
void FillKind(const coordinator::BranchView& view, Kind& kind) {
  kind.set_transactional_id(view.participant->transactional_id.get());
  kind.set_producer_id(view.participant->producer_id.get());
  kind.set_producer_epoch(view.participant->producer_epoch.get());
  for (const txn::TopicPartition& partition : view.missing_markers) {
    auto& out = *kind.add_missing_markers();
    out.set_topic(partition.topic);
    out.set_partition(partition.partition);
  }
}

void Fill(const coordinator::BranchView& view, v1::Branch& branch, bool positions = false) {
  branch.set_cluster(view.cluster.get());
  branch.set_outcome(BranchOutcomeOf(view.outcome));
  branch.set_problem(view.problem);
  if (!view.participant) return;
  if (view.enlisted) {
    FillKind(view, *branch.mutable_enlisted());
    branch.mutable_enlisted()->set_reinit_required(view.reinit_required);
    return;
  }
  FillKind(view, *branch.mutable_managed());
  if (positions) FillPositions(view.positions, *branch.mutable_managed());
}

/// What Transaction and the outcome responses have in common.
template <typename Message>
void FillBranches(const coordinator::TxnView& view, Message& message, bool positions = false) {
  for (const auto& branch : view.branches) Fill(branch, *message.add_branches(), positions);
  if (!IsAborted(view.state)) return;
  auto& abort = *message.mutable_abort();
  abort.set_reason(ToProto(view.refusal.reason));
  abort.set_cluster(view.refusal.cluster.get());
  abort.set_message(view.refusal.message);
  abort.set_retryable(view.refusal.retriable);
}

template <typename Response>
Status FillOutcomeOf(const coordinator::TxnView& view, Response& response, bool positions) {
  const v1::Outcome outcome = OutcomeOf(view.state);
  if (outcome == v1::OUTCOME_UNSPECIFIED) {
    return MakeError(Code::kInternal,
                     "answered in state " + std::string(Name(view.state)) + ", which is no outcome",
                     Effect::kUnknown);
  }
  response.set_outcome(outcome);
  FillBranches(view, response, positions);
  return {};
}

}  // namespace

Status FillOutcome(const coordinator::TxnView& view, bool positions, v1::CommitResponse& response) {
  return FillOutcomeOf(view, response, positions);
}

Status FillOutcome(const coordinator::TxnView& view, bool positions,
                   v1::ExecuteResponse& response) {
  response.set_txn_id(view.id.get());
  return FillOutcomeOf(view, response, positions);
}

Status FillOutcome(const coordinator::TxnView& view, v1::AbortResponse& response) {
  return FillOutcomeOf(view, response, false);
}

v1::Transaction ToProto(const coordinator::TxnView& view) {
  v1::Transaction out;
  out.set_txn_id(view.id.get());
  out.set_label(view.label);
  out.set_state(ToProto(view.state));
  *out.mutable_begin_time() = ToProto(view.began_at);
  // Not known any more once only the log remembers it.
  if (view.expires_at.ms != 0) *out.mutable_expire_time() = ToProto(view.expires_at);
  FillBranches(view, out);
  if (view.state == txn::GlobalTxnState::kActive) out.set_next_sequence(view.next_sequence);
  if (view.decided_at.ms != 0) *out.mutable_decide_time() = ToProto(view.decided_at);
  if (view.ended_at.ms != 0) *out.mutable_end_time() = ToProto(view.ended_at);
  out.set_key(view.key);
  if (const auto parts = coordinator::ParseTxnId(view.id)) out.set_owner(parts->owner);
  return out;
}

v1::InDoubt ToProto(const coordinator::InDoubtView& view) {
  v1::InDoubt out;
  out.set_batch_id(view.batch.get());
  for (const GlobalTxnId& member : view.members) out.add_txn_ids(member.get());
  *out.mutable_decide_time() = ToProto(view.decided_at);
  out.set_state(ToProto(view.state));
  for (const auto& branch : view.branches) Fill(branch, *out.add_branches());
  return out;
}

v1::ClusterStatus ToProto(const ClusterName& name, const coordinator::ClusterStatus& status) {
  v1::ClusterStatus out;
  out.set_name(name.get());
  out.set_state(ClusterStateOf(status.state));
  out.set_kafka_cluster_id(status.kafka_cluster_id.get());
  out.set_problem(status.problem);
  out.set_check_markers(status.check_markers);
  out.mutable_lanes()->set_idle(status.lanes_idle);
  out.mutable_lanes()->set_busy(status.lanes_busy);
  out.mutable_lanes()->set_renewing(status.lanes_renewing);
  out.set_kafka_requests(status.kafka_requests);
  return out;
}

v1::ClusterInfo ToClusterInfo(const ClusterName& name, const coordinator::ClusterStatus& status) {
  v1::ClusterInfo out;
  out.set_name(name.get());
  out.set_state(ClusterStateOf(status.state));
  out.set_kafka_cluster_id(status.kafka_cluster_id.get());
  out.set_problem(status.problem);
  return out;
}

v1::TxnState ToProto(txn::GlobalTxnState state) {
  switch (state) {
    case txn::GlobalTxnState::kActive:
      return v1::TXN_STATE_ACTIVE;
    case txn::GlobalTxnState::kPreparing:
      return v1::TXN_STATE_PREPARING;
    case txn::GlobalTxnState::kCommitting:
      return v1::TXN_STATE_COMMITTING;
    case txn::GlobalTxnState::kCommitted:
      return v1::TXN_STATE_COMMITTED;
    case txn::GlobalTxnState::kAborting:
      return v1::TXN_STATE_ABORTING;
    case txn::GlobalTxnState::kAborted:
      return v1::TXN_STATE_ABORTED;
    case txn::GlobalTxnState::kHeuristic:
      return v1::TXN_STATE_HEURISTIC;
  }
  std::abort();
}

v1::ProducerProtocol ToProto(txn::EndTxnProtocol protocol) {
  switch (protocol) {
    case txn::EndTxnProtocol::kTv1:
      return v1::PRODUCER_PROTOCOL_TV1;
    case txn::EndTxnProtocol::kTv2:
      return v1::PRODUCER_PROTOCOL_TV2;
  }
  std::abort();
}

v1::AbortReason ToProto(txn::AbortReason reason) {
  switch (reason) {
    case txn::AbortReason::kNone:
      return v1::ABORT_REASON_UNSPECIFIED;
    case txn::AbortReason::kClientAbort:
      return v1::ABORT_REASON_CLIENT_ABORT;
    case txn::AbortReason::kTxnTimeout:
      return v1::ABORT_REASON_TXN_TIMEOUT;
    case txn::AbortReason::kShutdown:
      return v1::ABORT_REASON_SHUTDOWN;
    case txn::AbortReason::kClusterUnavailable:
      return v1::ABORT_REASON_CLUSTER_UNAVAILABLE;
    case txn::AbortReason::kClusterMismatch:
      return v1::ABORT_REASON_CLUSTER_MISMATCH;
    case txn::AbortReason::kUnknownTopic:
      return v1::ABORT_REASON_UNKNOWN_TOPIC;
    case txn::AbortReason::kUnknownPartition:
      return v1::ABORT_REASON_UNKNOWN_PARTITION;
    case txn::AbortReason::kRecordTooLarge:
      return v1::ABORT_REASON_RECORD_TOO_LARGE;
    case txn::AbortReason::kInvalidRecord:
      return v1::ABORT_REASON_INVALID_RECORD;
    case txn::AbortReason::kNotAuthorized:
      return v1::ABORT_REASON_NOT_AUTHORIZED;
    case txn::AbortReason::kGroupFenced:
      return v1::ABORT_REASON_GROUP_FENCED;
    case txn::AbortReason::kProducerFenced:
      return v1::ABORT_REASON_PRODUCER_FENCED;
    case txn::AbortReason::kDeadlineTooClose:
      return v1::ABORT_REASON_DEADLINE_TOO_CLOSE;
    case txn::AbortReason::kVoteMismatch:
      return v1::ABORT_REASON_VOTE_MISMATCH;
    case txn::AbortReason::kInternal:
      return v1::ABORT_REASON_INTERNAL;
  }
  std::abort();
}

google::protobuf::Timestamp ToProto(WallTime time) {
  // An id that a client made up may carry any time at all; protobuf insists on years 1 to 9999.
  return TimeUtil::MillisecondsToTimestamp(
      std::clamp<std::int64_t>(time.ms, 0, kYear9999Seconds * 1000));
}

}  // namespace lockstep::server
