#include "client/convert.h"

#include <google/protobuf/util/time_util.h>

#include <optional>
#include <utility>

namespace lockstep::client {
namespace {

using google::protobuf::util::TimeUtil;

std::optional<Outcome> FromProto(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_COMMITTED:
      return Outcome::kCommitted;
    case v1::OUTCOME_ABORTED:
      return Outcome::kAborted;
    case v1::OUTCOME_COMMITTING:
      return Outcome::kCommitting;
    case v1::OUTCOME_HEURISTIC:
      return Outcome::kHeuristic;
    default:
      return std::nullopt;
  }
}

std::optional<TxnState> FromProto(v1::TxnState state) {
  switch (state) {
    case v1::TXN_STATE_ACTIVE:
      return TxnState::kActive;
    case v1::TXN_STATE_PREPARING:
      return TxnState::kPreparing;
    case v1::TXN_STATE_COMMITTING:
      return TxnState::kCommitting;
    case v1::TXN_STATE_COMMITTED:
      return TxnState::kCommitted;
    case v1::TXN_STATE_ABORTING:
      return TxnState::kAborting;
    case v1::TXN_STATE_ABORTED:
      return TxnState::kAborted;
    case v1::TXN_STATE_HEURISTIC:
      return TxnState::kHeuristic;
    default:
      return std::nullopt;
  }
}

BranchOutcome FromProto(v1::BranchOutcome outcome) {
  switch (outcome) {
    case v1::BRANCH_OUTCOME_COMMITTED:
      return BranchOutcome::kCommitted;
    case v1::BRANCH_OUTCOME_ABORTED:
      return BranchOutcome::kAborted;
    case v1::BRANCH_OUTCOME_UNKNOWN:
      return BranchOutcome::kUnknown;
    default:
      return BranchOutcome::kPending;
  }
}

std::vector<Branch> BranchesOf(const google::protobuf::RepeatedPtrField<v1::Branch>& branches) {
  std::vector<Branch> out;
  for (const v1::Branch& branch : branches) {
    out.push_back({.cluster = branch.cluster(),
                   .outcome = FromProto(branch.outcome()),
                   .problem = branch.problem(),
                   .transactional_id = branch.has_enlisted() ? branch.enlisted().transactional_id()
                                                             : branch.managed().transactional_id(),
                   .reinit_required = branch.enlisted().reinit_required()});
  }
  return out;
}

Abort FromProto(const v1::Abort& abort) {
  constexpr std::string_view kPrefix = "ABORT_REASON_";
  Abort out{.cluster = abort.cluster(), .message = abort.message(), .retryable = abort.retryable()};
  if (abort.reason() != v1::ABORT_REASON_UNSPECIFIED) {
    const std::string name = v1::AbortReason_Name(abort.reason());
    out.reason = name.empty() ? std::to_string(abort.reason()) : name.substr(kPrefix.size());
  }
  return out;
}

Error NotUnderstood(const char* what, int value) {
  return Error{.code = Code::kInternal,
               .effect = Effect::kUnknown,
               .message = std::string("the server speaks of ") + what + " " +
                          std::to_string(value) + ", which this client does not know"};
}

}  // namespace

google::protobuf::Duration ToProto(std::chrono::milliseconds duration) {
  return TimeUtil::MillisecondsToDuration(duration.count());
}

google::protobuf::Timestamp ToProto(WallTime time) {
  return TimeUtil::MillisecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count());
}

v1::CommitWait ToProto(Wait wait) {
  return wait == Wait::kDecided ? v1::COMMIT_WAIT_DECIDED : v1::COMMIT_WAIT_COMPLETE;
}

void FillRecord(Record record, v1::Record& out) {
  out.set_topic(std::move(record.topic));
  if (record.partition) out.set_partition(*record.partition);
  if (record.key) out.set_key(*std::move(record.key));
  if (record.value) out.set_value(*std::move(record.value));
  for (Header& header : record.headers) {
    auto& added = *out.add_headers();
    added.set_key(std::move(header.key));
    if (header.value) added.set_value(*std::move(header.value));
  }
  if (record.timestamp) *out.mutable_timestamp() = ToProto(*record.timestamp);
}

void FillEnlisted(const EnlistedWork& work, v1::EnlistedWork& out) {
  out.set_registration_id(work.registration_id);
  out.set_read_only(work.read_only);
  for (const std::string& group : work.group_ids) out.add_group_ids(group);
  for (const WrittenPartition& written : work.partitions) {
    auto& added = *out.add_partitions();
    added.set_topic(written.topic);
    added.set_partition(written.partition);
    if (written.offset) added.set_offset(*written.offset);
  }
}

v1::TxnState ToProto(TxnState state) {
  switch (state) {
    case TxnState::kActive:
      return v1::TXN_STATE_ACTIVE;
    case TxnState::kPreparing:
      return v1::TXN_STATE_PREPARING;
    case TxnState::kCommitting:
      return v1::TXN_STATE_COMMITTING;
    case TxnState::kCommitted:
      return v1::TXN_STATE_COMMITTED;
    case TxnState::kAborting:
      return v1::TXN_STATE_ABORTING;
    case TxnState::kAborted:
      return v1::TXN_STATE_ABORTED;
    case TxnState::kHeuristic:
      return v1::TXN_STATE_HEURISTIC;
  }
  return v1::TXN_STATE_UNSPECIFIED;
}

template <typename Message>
void FillOffsets(const GroupOffsets& offsets, Message& out) {
  out.set_kafka_cluster_id(offsets.kafka_cluster_id);
  out.set_standalone(offsets.group.standalone);
  auto& group = *out.mutable_group();
  group.set_group_id(offsets.group.id);
  if (!offsets.group.standalone) {
    group.set_generation(offsets.group.generation);
    group.set_member_id(offsets.group.member_id);
    if (offsets.group.instance_id) group.set_group_instance_id(*offsets.group.instance_id);
  }
  for (const Offset& offset : offsets.offsets) {
    auto& added = *out.add_offsets();
    added.set_topic(offset.topic);
    added.set_partition(offset.partition);
    added.set_offset(offset.offset);
    if (offset.leader_epoch) added.set_leader_epoch(*offset.leader_epoch);
    added.set_metadata(offset.metadata);
  }
}
template void FillOffsets(const GroupOffsets&, v1::SendOffsetsRequest&);
template void FillOffsets(const GroupOffsets&, v1::OffsetsWork&);

WallTime FromProto(const google::protobuf::Timestamp& time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::nanoseconds(TimeUtil::TimestampToNanoseconds(time))));
}

Result<TxnInfo> FromProto(const v1::Transaction& txn) {
  const auto state = FromProto(txn.state());
  if (!state) return NotUnderstood("transaction state", txn.state());
  return TxnInfo{.id = txn.txn_id(),
                 .label = txn.label(),
                 .state = *state,
                 .began_at = FromProto(txn.begin_time()),
                 .expires_at = FromProto(txn.expire_time()),
                 .branches = BranchesOf(txn.branches()),
                 .abort = FromProto(txn.abort())};
}

template <typename Response>
Result<TxnResult> ResultOf(const Response& response) {
  const auto outcome = FromProto(response.outcome());
  if (!outcome) return NotUnderstood("outcome", response.outcome());
  return TxnResult{.outcome = *outcome,
                   .branches = BranchesOf(response.branches()),
                   .abort = FromProto(response.abort())};
}
template Result<TxnResult> ResultOf(const v1::CommitResponse&);
template Result<TxnResult> ResultOf(const v1::AbortResponse&);
template Result<TxnResult> ResultOf(const v1::ExecuteResponse&);

}  // namespace lockstep::client
