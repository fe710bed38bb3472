#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "base/planted.h"
#include "coordinator/txn_id.h"
#include "kafka/lane_id.h"
#include "server/checks.h"
#include "server/convert.h"
#include "server/work_digest.h"

namespace lockstep::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMaxLabelBytes = 256;
constexpr std::size_t kMaxIdBytes = 256;
constexpr std::size_t kMaxTransactionalIdBytes = 1024;
constexpr int kMaxPage = 1000;
constexpr std::string_view kFinalMark = "f";  // At the end of a resume token.

/// Fit for log lines and terminals.
bool IsPlain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

/// Within what google.protobuf.Duration allows, and what 64 bits of nanoseconds hold.
Result<Duration> ParsePositive(const std::string& field,
                               const google::protobuf::Duration& duration) {
  constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max() / 1'000'000'000 - 1;
  const std::int64_t most =
      Planted(PlantedBug::kDurationUnbounded) ? kMaxSeconds * 1000 : kMaxSeconds;
  const bool valid = duration.seconds() >= 0 && duration.seconds() <= most &&
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

/// An error begins with the record's own field: naming each of ten thousand good ones costs more
/// than the rest of their checks.
Result<txn::Record> ParseRecord(const v1::Record& in) {
  txn::Record out;
  if (in.topic().empty()) return Invalid(".topic", "is required");
  out.topic = in.topic();
  if (in.has_partition()) {
    if (in.partition() < 0) return Invalid(".partition", "must not be negative");
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
    if (!IsTime(in.timestamp())) {
      return Invalid(".timestamp", "must be a time since 1970");
    }
    out.timestamp_ms = TimeUtil::TimestampToMilliseconds(in.timestamp());
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

Result<txn::GroupOffsets> ParseGroup(const std::string& where, const v1::ConsumerGroup& group,
                                     bool standalone) {
  if (group.group_id().empty()) return Invalid(where + "group.group_id", "is required");
  txn::GroupOffsets out;
  out.group_id = group.group_id();
  out.standalone = standalone;
  if (standalone) {
    if (group.has_generation() || !group.member_id().empty() || group.has_group_instance_id()) {
      return Invalid(where + "group",
                     "standalone offsets carry no generation, member or instance id");
    }
    return out;
  }
  if (!group.has_generation() || group.generation() < 0 || group.member_id().empty()) {
    return Invalid(where + "group",
                   "generation and member_id are required, so that the broker can fence a stale "
                   "member; or say standalone");
  }
  out.generation = group.generation();
  out.member_id = group.member_id();
  if (group.has_group_instance_id()) out.group_instance_id = group.group_instance_id();
  return out;
}

/// `where`: "records", or "work[2].produce.records".
Result<std::vector<txn::Record>> ParseRecords(
    const std::string& where, const google::protobuf::RepeatedPtrField<v1::Record>& records,
    std::size_t record_bytes) {
  if (records.empty()) return Invalid(where, "must not be empty");
  std::vector<txn::Record> out;
  out.reserve(static_cast<std::size_t>(records.size()));
  for (int i = 0; i < records.size(); ++i) {
    const auto field = [&] { return where + "[" + std::to_string(i) + "]"; };
    auto record = ParseRecord(records[i]);
    if (!record) {
      Error error = record.error();
      error.message.insert(0, field());
      return error;
    }
    if (const std::size_t weight = Weight(*record); weight > record_bytes) {
      return Invalid(field(), "weighs " + std::to_string(weight) +
                                  " bytes, limits.record_bytes is " + std::to_string(record_bytes));
    }
    out.push_back(*std::move(record));
  }
  return out;
}

/// Of a SendOffsetsRequest or an OffsetsWork; `where` goes before the fields' names.
template <typename Message>
Result<txn::GroupOffsets> ParseGroupOffsets(const std::string& where, const Message& message) {
  auto group = ParseGroup(where, message.group(), message.standalone());
  if (!group) return group;
  if (message.offsets().empty()) return Invalid(where + "offsets", "must not be empty");
  std::set<txn::TopicPartition> seen;
  for (int i = 0; i < message.offsets_size(); ++i) {
    const std::string field = where + "offsets[" + std::to_string(i) + "]";
    auto offset = ParseOffset(field, message.offsets(i));
    if (!offset) return offset.error();
    if (!seen.insert(offset->partition).second) {
      return Invalid(field, ToString(offset->partition) + " is given twice");
    }
    group->offsets.push_back(*std::move(offset));
  }
  return group;
}

/// The fields that CommitRequest and ExecuteRequest share.
template <typename Request>
Result<coordinator::CommitOptions> ParseCommitOptions(const Request& request) {
  coordinator::CommitOptions options;
  options.want_positions = request.return_positions();
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

/// `where`: "" or "enlisted[2]."; goes before the field's name.
Result<std::string> ParseRegistrationId(const std::string& where, const std::string& id) {
  const std::string field = where + "registration_id";
  if (id.empty()) return Invalid(field, "is required");
  if (id.size() > kMaxIdBytes || !IsPlain(id)) return Invalid(field, "is none that a server gave");
  return id;
}

Result<coordinator::EnlistedWork> ParseEnlistedWork(const std::string& field,
                                                    const v1::EnlistedWork& in) {
  if (in.read_only() && (!in.partitions().empty() || !in.group_ids().empty())) {
    return Invalid(field + ".read_only", "says that nothing was written; so name nothing");
  }
  coordinator::EnlistedWork out;
  out.read_only = in.read_only();
  for (int i = 0; i < in.partitions_size(); ++i) {
    const v1::WrittenPartition& written = in.partitions(i);
    const std::string where = field + ".partitions[" + std::to_string(i) + "]";
    if (written.topic().empty()) return Invalid(where + ".topic", "is required");
    if (written.partition() < 0) return Invalid(where + ".partition", "must not be negative");
    if (written.has_offset() && written.offset() < 0) {
      return Invalid(where + ".offset", "must not be negative");
    }
    const txn::TopicPartition partition{written.topic(), written.partition()};
    const std::int64_t offset = written.has_offset() ? written.offset() : -1;
    if (!out.partitions.emplace(partition, offset).second) {
      return Invalid(where, ToString(partition) + " is given twice");
    }
  }
  for (int i = 0; i < in.group_ids_size(); ++i) {
    const std::string where = field + ".group_ids[" + std::to_string(i) + "]";
    if (in.group_ids(i).empty()) return Invalid(where, "must not be empty");
    if (!out.group_ids.insert(in.group_ids(i)).second) {
      return Invalid(where, "group '" + in.group_ids(i) + "' is given twice");
    }
  }
  return out;
}

/// Timeout and label, of BeginGlobalTxn or Execute.
template <typename Request>
Result<BeginCall> ParseBeginOf(const Request& request) {
  if (!request.has_timeout()) return Invalid("timeout", "is required");
  const auto timeout = ParsePositive("timeout", request.timeout());
  if (!timeout) return timeout.error();
  if (request.label().size() > kMaxLabelBytes) {
    return Invalid("label", "must not be longer than " + std::to_string(kMaxLabelBytes) + " bytes");
  }
  return BeginCall{*timeout, request.label(), {}};
}

/// Whom to enlist, in Enlist or BeginGlobalTxn; `where` is the path to it.
template <typename Request>
Result<coordinator::Enlistee> ParseEnlistee(const std::string& where, const Request& request) {
  coordinator::Enlistee producer;
  auto registration = ParseRegistrationId(where, request.registration_id());
  if (!registration) return registration.error();
  producer.registration = *std::move(registration);
  if (request.has_producer_id() != request.has_producer_epoch()) {
    return Invalid(where + (request.has_producer_id() ? "producer_epoch" : "producer_id"),
                   "producer_id and producer_epoch must be set together");
  }
  if (!request.has_producer_id()) return producer;
  if (request.producer_id() < 0) return Invalid(where + "producer_id", "must not be negative");
  if (request.producer_epoch() < 0 ||
      request.producer_epoch() > std::numeric_limits<std::int16_t>::max()) {
    return Invalid(where + "producer_epoch", "must be 0 to 32767");
  }
  producer.told = {ProducerId(request.producer_id()),
                   ProducerEpoch(static_cast<std::int16_t>(request.producer_epoch()))};
  return producer;
}

/// Produce, or one message of ProduceStream.
template <typename Request>
Result<WorkCall> ParseProduceOf(const Request& request, std::size_t record_bytes) {
  auto call = ParseWorkCall(request);
  if (!call) return call;
  auto records = ParseRecords("records", request.records(), record_bytes);
  if (!records) return records.error();
  call->work.records = *std::move(records);
  return call;
}

Result<coordinator::Submission::Part> ParsePart(const std::string& field, const v1::Work& work,
                                                std::size_t record_bytes) {
  coordinator::Submission::Part part;
  std::string cluster;
  std::string where;
  switch (work.kind_case()) {
    case v1::Work::kProduce: {
      where = field + ".produce.";
      cluster = work.produce().cluster();
      auto records = ParseRecords(where + "records", work.produce().records(), record_bytes);
      if (!records) return records.error();
      part.work.records = *std::move(records);
      break;
    }
    case v1::Work::kOffsets: {
      where = field + ".offsets.";
      cluster = work.offsets().cluster();
      auto group = ParseGroupOffsets(where, work.offsets());
      if (!group) return group.error();
      part.work.offsets.push_back(*std::move(group));
      if (const auto& id = work.offsets().kafka_cluster_id(); !id.empty()) {
        part.expected_cluster = KafkaClusterId(id);
      }
      break;
    }
    case v1::Work::KIND_NOT_SET:
      return Invalid(field, "must be produce or offsets");
  }
  if (cluster.empty()) return Invalid(where + "cluster", "is required");
  part.cluster = ClusterName(cluster);
  return part;
}

Result<txn::GlobalTxnState> ParseState(const std::string& field, int state) {
  for (const auto known : {txn::GlobalTxnState::kActive, txn::GlobalTxnState::kPreparing,
                           txn::GlobalTxnState::kCommitting, txn::GlobalTxnState::kCommitted,
                           txn::GlobalTxnState::kAborting, txn::GlobalTxnState::kAborted,
                           txn::GlobalTxnState::kHeuristic}) {
    if (ToProto(known) == state) return known;
  }
  return Invalid(field, "is no state of a transaction");
}

}  // namespace

Result<GlobalTxnId> ParseTxnId(const std::string& text) {
  if (text.empty()) return Invalid("txn_id", "is required");
  if (text.size() > kMaxIdBytes || !IsPlain(text))
    return Invalid("txn_id", "is not formed like an id");
  return GlobalTxnId(text);
}

Result<BeginCall> ParseBegin(const v1::BeginGlobalTxnRequest& request) {
  auto call = ParseBeginOf(request);
  if (!call) return call;
  std::set<std::string_view> given;
  for (int i = 0; i < request.enlistments_size(); ++i) {
    const std::string where = "enlistments[" + std::to_string(i) + "].";
    if (!given.insert(request.enlistments(i).registration_id()).second) {
      return Invalid(where + "registration_id", "is given twice");
    }
    auto producer = ParseEnlistee(where, request.enlistments(i));
    if (!producer) return producer.error();
    call->enlisted.push_back(*std::move(producer));
  }
  return call;
}

Result<WorkCall> ParseProduce(const v1::ProduceRequest& request, std::size_t record_bytes) {
  return ParseProduceOf(request, record_bytes);
}

Result<WorkCall> ParseProduce(const v1::ProduceStreamRequest& request, std::size_t record_bytes) {
  return ParseProduceOf(request, record_bytes);
}

Result<WorkCall> ParseSendOffsets(const v1::SendOffsetsRequest& request) {
  auto call = ParseWorkCall(request);
  if (!call) return call;
  if (!request.kafka_cluster_id().empty()) {
    call->kafka_cluster_id = KafkaClusterId(request.kafka_cluster_id());
  }
  auto group = ParseGroupOffsets("", request);
  if (!group) return group.error();
  call->work.offsets.push_back(*std::move(group));
  return call;
}

Result<coordinator::CommitOptions> ParseCommit(const v1::CommitRequest& request) {
  auto options = ParseCommitOptions(request);
  if (!options) return options;
  for (int i = 0; i < request.enlisted_size(); ++i) {
    const std::string field = "enlisted[" + std::to_string(i) + "]";
    auto id = ParseRegistrationId(field + ".", request.enlisted(i).registration_id());
    if (!id) return id.error();
    auto work = ParseEnlistedWork(field, request.enlisted(i));
    if (!work) return work.error();
    if (!options->enlisted.emplace(*std::move(id), *std::move(work)).second) {
      return Invalid(field + ".registration_id", "is given twice");
    }
  }
  return options;
}

Result<RegisterCall> ParseRegister(const v1::RegisterProducerRequest& request) {
  RegisterCall call;
  if (request.cluster().empty()) return Invalid("cluster", "is required");
  call.cluster = ClusterName(request.cluster());
  const std::string& id = request.transactional_id();
  if (id.empty()) return Invalid("transactional_id", "is required");
  const bool printable = std::none_of(
      id.begin(), id.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
  if (id.size() > kMaxTransactionalIdBytes || !printable) {
    return Invalid("transactional_id", "must be 1 to " + std::to_string(kMaxTransactionalIdBytes) +
                                           " bytes without control characters");
  }
  call.id = TransactionalId(id);
  if (kafka::ParseLaneId(call.id)) {
    return Invalid("transactional_id",
                   "'" + id + "' is the id of a lane of Lockstep's own; take another one");
  }
  switch (request.protocol()) {
    case v1::PRODUCER_PROTOCOL_TV1:
      call.protocol = txn::EndTxnProtocol::kTv1;
      return call;
    case v1::PRODUCER_PROTOCOL_TV2:
      call.protocol = txn::EndTxnProtocol::kTv2;
      return call;
    default:
      return Invalid("protocol", "must be TV1 or TV2: the best that the client's library speaks");
  }
}

Result<EnlistCall> ParseEnlist(const v1::EnlistRequest& request) {
  EnlistCall call;
  auto txn = ParseTxnId(request.txn_id());
  if (!txn) return txn.error();
  call.txn = *std::move(txn);
  auto producer = ParseEnlistee("", request);
  if (!producer) return producer.error();
  call.producer = *std::move(producer);
  return call;
}

Status CheckKey(const std::string& key) {
  if (key.empty()) return Invalid("key", "is required");
  if (key.size() > kMaxIdBytes || !IsPlain(key)) {
    return Invalid("key", "must be 1 to " + std::to_string(kMaxIdBytes) +
                              " bytes of printable ASCII without spaces");
  }
  return {};
}

Result<ExecuteCall> ParseExecute(const v1::ExecuteRequest& request, std::size_t record_bytes) {
  if (Status key = CheckKey(request.key()); !key.ok()) return key.error();
  if (!request.has_key_time()) return Invalid("key_time", "is required");
  if (!IsTime(request.key_time())) return Invalid("key_time", "must be a time since 1970");
  auto begin = ParseBeginOf(request);
  if (!begin) return begin.error();
  auto options = ParseCommitOptions(request);
  if (!options) return options.error();
  ExecuteCall call;
  call.options = *options;
  coordinator::Submission& submission = call.submission;
  submission.key = {request.key(), WallTime{TimeUtil::TimestampToMilliseconds(request.key_time())},
                    DigestOf(request.work())};
  submission.timeout = begin->timeout;
  submission.label = std::move(begin->label);
  submission.want_positions = options->want_positions;
  for (int i = 0; i < request.work_size(); ++i) {
    auto part = ParsePart("work[" + std::to_string(i) + "]", request.work(i), record_bytes);
    if (!part) return part.error();
    submission.parts.push_back(*std::move(part));
  }
  return call;
}

Result<ListCall> ParseList(const v1::ListTxnsRequest& request) {
  ListCall call;
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return Invalid("page_size", "must be 0 to " + std::to_string(kMaxPage));
  }
  if (request.page_size() > 0) call.count = static_cast<std::size_t>(request.page_size());
  if (request.label_prefix().size() > kMaxLabelBytes) {
    return Invalid("label_prefix",
                   "must not be longer than " + std::to_string(kMaxLabelBytes) + " bytes");
  }
  call.filter.label_prefix = request.label_prefix();
  for (int i = 0; i < request.states_size(); ++i) {
    const auto state = ParseState("states[" + std::to_string(i) + "]", request.states(i));
    if (!state) return state.error();
    call.filter.states.push_back(*state);
  }
  if (!request.page_token().empty()) {
    call.after = GlobalTxnId(request.page_token());
    if (!coordinator::ParseTxnId(*call.after)) {
      return Invalid("page_token", "is none that this server gave");
    }
  }
  return call;
}

Result<SeenRevision> ParseResumeToken(const std::string& token, Incarnation incarnation) {
  if (token.empty()) return SeenRevision{};
  std::uint64_t start = 0;
  SeenRevision seen;
  const char* const end = token.data() + token.size();
  const auto [dash, bad_start] = std::from_chars(token.data(), end, start);
  if (bad_start == std::errc() && dash != end && *dash == '-') {
    const auto [rest, bad_revision] = std::from_chars(dash + 1, end, seen.revision);
    seen.final = std::string_view(rest, end) == kFinalMark;
    if (bad_revision == std::errc() && (rest == end || seen.final)) {
      return start == incarnation.get() ? seen : SeenRevision{};
    }
  }
  return Invalid("resume_token", "is none that this server gave");
}

std::string ResumeToken(Incarnation incarnation, SeenRevision seen) {
  std::string token = std::to_string(incarnation.get()) + "-" + std::to_string(seen.revision);
  if (seen.final) token += kFinalMark;
  return token;
}

}  // namespace lockstep::server
