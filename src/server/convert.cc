#include "server/convert.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

namespace lockstep::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMaxLabelBytes = 256;
constexpr std::size_t kMaxIdBytes = 256;
constexpr std::int64_t kYear9999Seconds = 253'402'300'799;  // Protobuf's last second.

Error Invalid(const std::string& field, const std::string& problem) {
  return MakeError(Code::kInvalidArgument, field + ": " + problem);
}

/// Within what google.protobuf.Duration allows, and what 64 bits of nanoseconds hold.
Result<Duration> ParsePositive(const std::string& field,
                               const google::protobuf::Duration& duration) {
  constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max() / 1'000'000'000 - 1;
  const bool valid = duration.seconds() >= 0 && duration.seconds() <= kMaxSeconds &&
                     duration.nanos() >= 0 && duration.nanos() < 1'000'000'000 &&
                     (duration.seconds() > 0 || duration.nanos() > 0);
  if (!valid) return Invalid(field, "must be a positive duration");
  return std::chrono::seconds(duration.seconds()) + std::chrono::nanoseconds(duration.nanos());
}

/// What Produce and SendOffsets share.
template <typename Request>
Result<WorkCall> ParseWorkCall(const Request& request) {
  WorkCall call;
  auto id = ParseTxnId(request.txn_id());
  if (!id) return id.error();
  call.txn = *std::move(id);
  if (request.cluster().empty()) return Invalid("cluster", "is required");
  call.cluster = ClusterName(request.cluster());
  if (!request.has_sequence()) {
    return Invalid("sequence", "is required: it counts this transaction's calls from 0");
  }
  call.sequence = request.sequence();
  return call;
}

Result<txn::Record> ParseRecord(const std::string& field, const v1::Record& in) {
  txn::Record out;
  if (in.topic().empty()) return Invalid(field + ".topic", "is required");
  out.topic = in.topic();
  if (in.has_partition()) {
    if (in.partition() < 0) return Invalid(field + ".partition", "must not be negative");
    out.partition = in.partition();
  }
  if (in.has_key()) out.key = in.key();
  if (in.has_value()) out.value = in.value();
  out.headers.reserve(static_cast<std::size_t>(in.headers_size()));
  for (const v1::Header& header : in.headers()) {
    out.headers.push_back({header.key(), header.has_value()
                                             ? std::optional<std::string>(header.value())
                                             : std::nullopt});
  }
  if (in.has_timestamp()) {
    const auto& time = in.timestamp();
    if (time.seconds() < 0 || time.seconds() > kYear9999Seconds || time.nanos() < 0 ||
        time.nanos() >= 1'000'000'000) {
      return Invalid(field + ".timestamp", "must be a time since 1970");
    }
    out.timestamp_ms = TimeUtil::TimestampToMilliseconds(time);
  }
  return out;
}

Result<txn::OffsetToCommit> ParseOffset(const std::string& field, const v1::Offset& in) {
  if (in.topic().empty()) return Invalid(field + ".topic", "is required");
  if (in.partition() < 0) return Invalid(field + ".partition", "must not be negative");
  if (in.offset() < 0) return Invalid(field + ".offset", "must not be negative");
  if (in.has_leader_epoch() && in.leader_epoch() < 0) {
    return Invalid(field + ".leader_epoch", "must not be negative");
  }
  txn::OffsetToCommit out;
  out.partition = {in.topic(), in.partition()};
  out.offset = in.offset();
  if (in.has_leader_epoch()) out.leader_epoch = in.leader_epoch();
  out.metadata = in.metadata();
  return out;
}

Result<txn::GroupOffsets> ParseGroup(const v1::ConsumerGroup& group, bool standalone) {
  if (group.group_id().empty()) return Invalid("group.group_id", "is required");
  txn::GroupOffsets out;
  out.group_id = group.group_id();
  out.standalone = standalone;
  if (standalone) {
    if (group.has_generation() || !group.member_id().empty() || group.has_group_instance_id()) {
      return Invalid("group", "standalone offsets carry no generation, member or instance id");
    }
    return out;
  }
  if (!group.has_generation() || group.generation() < 0 || group.member_id().empty()) {
    return Invalid("group",
                   "generation and member_id are required, so that the broker can fence a stale "
                   "member; or say standalone");
  }
  out.generation = group.generation();
  out.member_id = group.member_id();
  if (group.has_group_instance_id()) out.group_instance_id = group.group_instance_id();
  return out;
}

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

void Fill(const coordinator::BranchView& view, v1::Branch& branch) {
  branch.set_cluster(view.cluster.get());
  branch.set_outcome(BranchOutcomeOf(view.outcome));
  branch.set_problem(view.problem);
  if (!view.participant) return;
  auto& managed = *branch.mutable_managed();
  managed.set_transactional_id(view.participant->transactional_id.get());
  managed.set_producer_id(view.participant->producer_id.get());
  managed.set_producer_epoch(view.participant->producer_epoch.get());
  for (const txn::TopicPartition& partition : view.missing_markers) {
    auto& out = *managed.add_missing_markers();
    out.set_topic(partition.topic);
    out.set_partition(partition.partition);
  }
}

/// What Transaction and the two outcome responses have in common.
template <typename Message>
void FillBranches(const coordinator::TxnView& view, Message& message) {
  for (const auto& branch : view.branches) Fill(branch, *message.add_branches());
  if (!IsAborted(view.state)) return;
  auto& abort = *message.mutable_abort();
  abort.set_reason(ToProto(view.refusal.reason));
  abort.set_cluster(view.refusal.cluster.get());
  abort.set_message(view.refusal.message);
  abort.set_retryable(view.refusal.retriable);
}

template <typename Response>
Status FillOutcomeOf(const coordinator::TxnView& view, Response& response) {
  const v1::Outcome outcome = OutcomeOf(view.state);
  if (outcome == v1::OUTCOME_UNSPECIFIED) {
    return MakeError(Code::kInternal,
                     "answered in state " + std::string(Name(view.state)) + ", which is no outcome",
                     Effect::kUnknown);
  }
  response.set_outcome(outcome);
  FillBranches(view, response);
  return {};
}

}  // namespace

// ---- Requests
// ------------------------------------------------------------------------------------

Result<GlobalTxnId> ParseTxnId(const std::string& text) {
  if (text.empty()) return Invalid("txn_id", "is required");
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
  if (text.size() > kMaxIdBytes || !plain) return Invalid("txn_id", "is not formed like an id");
  return GlobalTxnId(text);
}

Result<BeginCall> ParseBegin(const v1::BeginGlobalTxnRequest& request) {
  if (!request.has_timeout()) return Invalid("timeout", "is required");
  const auto timeout = ParsePositive("timeout", request.timeout());
  if (!timeout) return timeout.error();
  if (request.label().size() > kMaxLabelBytes) {
    return Invalid("label", "must not be longer than " + std::to_string(kMaxLabelBytes) + " bytes");
  }
  return BeginCall{*timeout, request.label()};
}

Result<WorkCall> ParseProduce(const v1::ProduceRequest& request, std::size_t record_bytes) {
  auto call = ParseWorkCall(request);
  if (!call) return call;
  if (request.records().empty()) return Invalid("records", "must not be empty");
  call->work.records.reserve(static_cast<std::size_t>(request.records_size()));
  for (int i = 0; i < request.records_size(); ++i) {
    const std::string field = "records[" + std::to_string(i) + "]";
    auto record = ParseRecord(field, request.records(i));
    if (!record) return record.error();
    if (const std::size_t weight = Weight(*record); weight > record_bytes) {
      return Invalid(field, "weighs " + std::to_string(weight) + " bytes, limits.record_bytes is " +
                                std::to_string(record_bytes));
    }
    call->work.records.push_back(*std::move(record));
  }
  return call;
}

Result<WorkCall> ParseSendOffsets(const v1::SendOffsetsRequest& request) {
  auto call = ParseWorkCall(request);
  if (!call) return call;
  if (!request.kafka_cluster_id().empty()) {
    call->kafka_cluster_id = KafkaClusterId(request.kafka_cluster_id());
  }
  auto group = ParseGroup(request.group(), request.standalone());
  if (!group) return group.error();
  if (request.offsets().empty()) return Invalid("offsets", "must not be empty");
  std::set<txn::TopicPartition> seen;
  for (int i = 0; i < request.offsets_size(); ++i) {
    const std::string field = "offsets[" + std::to_string(i) + "]";
    auto offset = ParseOffset(field, request.offsets(i));
    if (!offset) return offset.error();
    if (!seen.insert(offset->partition).second) {
      return Invalid(field, ToString(offset->partition) + " is given twice");
    }
    group->offsets.push_back(*std::move(offset));
  }
  call->work.offsets.push_back(*std::move(group));
  return call;
}

Result<coordinator::CommitOptions> ParseCommit(const v1::CommitRequest& request) {
  coordinator::CommitOptions options;
  switch (request.wait()) {
    case v1::COMMIT_WAIT_UNSPECIFIED:
    case v1::COMMIT_WAIT_COMPLETE:
      options.wait = coordinator::WaitFor::kComplete;
      break;
    case v1::COMMIT_WAIT_DECIDED:
      options.wait = coordinator::WaitFor::kDecided;
      break;
    default:
      return Invalid("wait", "must be COMPLETE or DECIDED");
  }
  if (request.has_max_wait()) {
    const auto max_wait = ParsePositive("max_wait", request.max_wait());
    if (!max_wait) return max_wait.error();
    options.max_wait = *max_wait;
  }
  return options;
}

// ---- Answers
// -------------------------------------------------------------------------------------

Status FillOutcome(const coordinator::TxnView& view, v1::CommitResponse& response) {
  return FillOutcomeOf(view, response);
}

Status FillOutcome(const coordinator::TxnView& view, v1::AbortResponse& response) {
  return FillOutcomeOf(view, response);
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
