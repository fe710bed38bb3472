#include "log/record_codec.h"

#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "base/planted.h"
#include "lockstep/v1/log.pb.h"

namespace lockstep::log {
namespace {

namespace proto = lockstep::v1::log;

using Kind = proto::Record::KindCase;

constexpr std::size_t kLogIdDigits = 16;

// ---- Encoding -----------------------------------------------------------------------------------

proto::Protocol ToProto(txn::EndTxnProtocol protocol) {
  switch (protocol) {
    case txn::EndTxnProtocol::kTv1:
      return proto::PROTOCOL_TV1;
    case txn::EndTxnProtocol::kTv2:
      return proto::PROTOCOL_TV2;
  }
  std::abort();
}

proto::Outcome ToProto(txn::ParticipantOutcome outcome) {
  switch (outcome) {
    case txn::ParticipantOutcome::kPending:
      return proto::OUTCOME_PENDING;
    case txn::ParticipantOutcome::kCommitted:
      return proto::OUTCOME_COMMITTED;
    case txn::ParticipantOutcome::kAborted:
      return proto::OUTCOME_ABORTED;
    case txn::ParticipantOutcome::kUnknown:
      return proto::OUTCOME_UNKNOWN;
  }
  std::abort();
}

proto::OrderKind ToProto(txn::OrderKind kind) {
  switch (kind) {
    case txn::OrderKind::kCommit:
      return proto::ORDER_KIND_COMMIT;
    case txn::OrderKind::kAbort:
      return proto::ORDER_KIND_ABORT;
    case txn::OrderKind::kDeclareCommitted:
      return proto::ORDER_KIND_DECLARE_COMMITTED;
    case txn::OrderKind::kDeclareAborted:
      return proto::ORDER_KIND_DECLARE_ABORTED;
    case txn::OrderKind::kDeclareUnknown:
      return proto::ORDER_KIND_DECLARE_UNKNOWN;
  }
  std::abort();
}

void Fill(const txn::DecidedParticipant& from, proto::Participant& to) {
  const txn::ParticipantName& name = from.prepared.name;
  to.set_cluster(name.cluster.get());
  to.set_kafka_cluster_id(name.kafka_cluster_id.get());
  to.set_transactional_id(name.transactional_id.get());
  to.set_producer_id(name.producer_id.get());
  to.set_producer_epoch(name.producer_epoch.get());
  to.set_protocol(ToProto(name.protocol));
  to.set_start_time_ms(name.start_time_ms);
  for (const txn::Evidence& evidence : from.prepared.evidence) {
    proto::Evidence& out = *to.add_evidence();
    out.set_topic(evidence.partition.topic);
    out.set_partition(evidence.partition.partition);
    out.set_offset(evidence.offset);
  }
  to.set_deadline_ms(from.prepared.deadline.ms);
  to.set_outcome(ToProto(from.outcome));
  to.set_enlisted(from.prepared.enlisted);
}

proto::Record NewRecord() {
  proto::Record record;
  record.set_format(kRecordFormat);
  return record;
}

// ---- Decoding -----------------------------------------------------------------------------------

Error Corrupt(std::string_view where, std::string_view what) {
  return MakeError(Code::kCorrupt, std::string(where) + ": " + std::string(what));
}

Result<proto::Record> Parse(std::string_view bytes, Kind kind, std::string_view where) {
  proto::Record record;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt(where, "the bytes are not a record");
  }
  if (record.format() == 0) return Corrupt(where, "the record carries no format");
  if (record.format() > kRecordFormat) {
    return MakeError(Code::kFailedPrecondition,
                     std::string(where) + ": the record has format " +
                         std::to_string(record.format()) + ", this lockstepd reads up to " +
                         std::to_string(kRecordFormat) + ": run the newer lockstepd again");
  }
  if (record.kind_case() != kind) {
    return Corrupt(where, "expected record kind " + std::to_string(static_cast<int>(kind)) +
                              ", found " + std::to_string(static_cast<int>(record.kind_case())));
  }
  return record;
}

std::optional<txn::EndTxnProtocol> FromProto(proto::Protocol protocol) {
  switch (protocol) {
    case proto::PROTOCOL_TV1:
      return txn::EndTxnProtocol::kTv1;
    case proto::PROTOCOL_TV2:
      return txn::EndTxnProtocol::kTv2;
    default:
      return std::nullopt;
  }
}

std::optional<txn::ParticipantOutcome> FromProto(proto::Outcome outcome) {
  switch (outcome) {
    case proto::OUTCOME_PENDING:
      return txn::ParticipantOutcome::kPending;
    case proto::OUTCOME_COMMITTED:
      return txn::ParticipantOutcome::kCommitted;
    case proto::OUTCOME_ABORTED:
      return txn::ParticipantOutcome::kAborted;
    case proto::OUTCOME_UNKNOWN:
      return txn::ParticipantOutcome::kUnknown;
    default:
      return std::nullopt;
  }
}

std::optional<txn::OrderKind> FromProto(proto::OrderKind kind) {
  switch (kind) {
    case proto::ORDER_KIND_COMMIT:
      return txn::OrderKind::kCommit;
    case proto::ORDER_KIND_ABORT:
      return txn::OrderKind::kAbort;
    case proto::ORDER_KIND_DECLARE_COMMITTED:
      return txn::OrderKind::kDeclareCommitted;
    case proto::ORDER_KIND_DECLARE_ABORTED:
      return txn::OrderKind::kDeclareAborted;
    case proto::ORDER_KIND_DECLARE_UNKNOWN:
      return txn::OrderKind::kDeclareUnknown;
    default:
      return std::nullopt;
  }
}

bool IsEpoch(std::int32_t epoch) {
  return epoch >= 0 && epoch <= std::numeric_limits<std::int16_t>::max();
}

Result<txn::DecidedParticipant> FromProto(proto::Participant& from, std::string_view where) {
  const auto protocol = FromProto(from.protocol());
  const auto outcome = FromProto(from.outcome());
  if (!protocol) return Corrupt(where, "a participant's EndTxn protocol is unknown");
  if (!outcome) return Corrupt(where, "a participant's outcome is unknown");
  if (!IsEpoch(from.producer_epoch())) {
    return Corrupt(where, "a participant's producer epoch is out of range");
  }
  txn::DecidedParticipant to;
  to.outcome = *outcome;
  to.prepared.name = {
      .cluster = ClusterName(std::move(*from.mutable_cluster())),
      .kafka_cluster_id = KafkaClusterId(std::move(*from.mutable_kafka_cluster_id())),
      .transactional_id = TransactionalId(std::move(*from.mutable_transactional_id())),
      .producer_id = ProducerId(from.producer_id()),
      .producer_epoch = ProducerEpoch(static_cast<std::int16_t>(from.producer_epoch())),
      .protocol = *protocol,
      .start_time_ms = from.start_time_ms()};
  for (proto::Evidence& evidence : *from.mutable_evidence()) {
    to.prepared.evidence.push_back(
        {{std::move(*evidence.mutable_topic()), evidence.partition()}, evidence.offset()});
  }
  to.prepared.deadline = WallTime{from.deadline_ms()};
  to.prepared.enlisted = from.enlisted();
  return to;
}

bool IsLogId(const std::string& text) {
  return text.size() == kLogIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// What is wrong with a participant; empty if nothing is.
std::string_view ProblemOf(const txn::ParticipantName& name) {
  if (name.cluster.get().empty()) return "a participant has no cluster";
  if (name.kafka_cluster_id.get().empty()) return "a participant has no Kafka cluster id";
  if (name.transactional_id.get().empty()) return "a participant has no transactional.id";
  if (name.producer_id.get() < 0) return "a participant's producer id is negative";
  if (name.producer_epoch.get() < 0) return "a participant's producer epoch is negative";
  return {};
}

std::string_view ProblemOf(const txn::PreparedParticipant& participant) {
  if (const auto problem = ProblemOf(participant.name); !problem.empty()) return problem;
  for (const txn::Evidence& evidence : participant.evidence) {
    if (evidence.partition.topic.empty()) return "evidence without a topic";
    if (evidence.partition.partition < 0) return "evidence with a negative partition";
    if (evidence.offset < 0) return "evidence with a negative offset";
  }
  return {};
}

std::string_view ProblemOf(const txn::MemberKey& member, std::size_t members) {
  if (member.member >= members) return "a client's key of no member";
  if (member.key.key.empty()) return "an empty client's key";
  if (member.key.digest.empty()) return "a client's key without a digest";
  return {};
}

std::string_view ProblemOf(const txn::Decision& decision) {
  if (decision.members.empty()) return "a decision without members";
  for (const GlobalTxnId& member : decision.members) {
    if (member.get().empty()) return "a member without an id";
  }
  for (const txn::MemberKey& key : decision.keys) {
    if (const auto problem = ProblemOf(key, decision.members.size()); !problem.empty()) {
      return problem;
    }
  }
  for (const txn::DecidedParticipant& participant : decision.participants) {
    if (const auto problem = ProblemOf(participant.prepared); !problem.empty()) return problem;
  }
  return {};
}

std::string_view ProblemOf(const txn::Enlistment& enlistment) {
  if (enlistment.txn.get().empty()) return "an enlistment in no transaction";
  return ProblemOf(enlistment.name);
}

/// `stored`: something about one participant of a batch.
template <typename T>
Status CheckBelongs(const T& stored, const txn::Decision& decision, std::string_view where) {
  if (stored.batch != decision.batch) {
    return Corrupt(where, "applied to batch " + std::to_string(decision.batch.get()));
  }
  const std::size_t participants =
      decision.participants.size() + (Planted(PlantedBug::kCompletionOfNobody) ? 1 : 0);
  if (stored.participant >= participants) {
    return Corrupt(where, "the decision has only " + std::to_string(decision.participants.size()) +
                              " participants");
  }
  return {};
}

}  // namespace

std::string Encode(const txn::Decision& decision) {
  proto::Record record = NewRecord();
  proto::Decision& out = *record.mutable_decision();
  out.set_batch(decision.batch.get());
  out.set_decided_at_ms(decision.decided_at.ms);
  for (const GlobalTxnId& member : decision.members) out.add_members(member.get());
  for (const auto& participant : decision.participants) Fill(participant, *out.add_participants());
  out.set_acknowledged(decision.acknowledged);
  for (const txn::MemberKey& member : decision.keys) {
    proto::ClientKey& key = *out.add_keys();
    key.set_member(member.member);
    key.set_key(member.key.key);
    key.set_birth_ms(member.key.birth.ms);
    key.set_digest(member.key.digest);
  }
  return record.SerializeAsString();
}

std::string Encode(const StoredCompletion& completion) {
  proto::Record record = NewRecord();
  proto::Completion& out = *record.mutable_completion();
  out.set_batch(completion.completion.batch.get());
  out.set_participant(completion.completion.participant);
  out.set_outcome(ToProto(completion.completion.outcome));
  out.set_stored_at_ms(completion.stored_at.ms);
  return record.SerializeAsString();
}

std::string Encode(const Acknowledgement& acknowledgement) {
  proto::Record record = NewRecord();
  record.mutable_acknowledgement()->set_batch(acknowledgement.batch.get());
  record.mutable_acknowledgement()->set_stored_at_ms(acknowledgement.stored_at.ms);
  return record.SerializeAsString();
}

std::string Encode(const Binding& binding) {
  proto::Record record = NewRecord();
  record.mutable_binding()->set_cluster(binding.cluster.get());
  record.mutable_binding()->set_kafka_cluster_id(binding.kafka_cluster_id.get());
  return record.SerializeAsString();
}

std::string Encode(const Identity& identity) {
  proto::Record record = NewRecord();
  record.mutable_identity()->set_log_id(identity.log_id.get());
  record.mutable_identity()->set_created_at_ms(identity.created_at.ms);
  for (const Origin& origin : identity.origins) {
    proto::Origin& to = *record.mutable_identity()->add_origins();
    to.set_log_id(origin.log_id.get());
    to.set_taken_at_ms(origin.taken_at.ms);
    to.set_restored_at_ms(origin.restored_at.ms);
  }
  return record.SerializeAsString();
}

std::string Encode(const Start& start) {
  proto::Record record = NewRecord();
  record.mutable_start()->set_incarnation(start.incarnation.get());
  record.mutable_start()->set_started_at_ms(start.started_at.ms);
  record.mutable_start()->set_superseded(start.superseded);
  return record.SerializeAsString();
}

std::string Encode(const Forgotten& forgotten) {
  proto::Record record = NewRecord();
  record.mutable_forgotten()->set_horizon_ms(forgotten.horizon.ms);
  record.mutable_forgotten()->set_through_batch(forgotten.through.get());
  return record.SerializeAsString();
}

std::string Encode(const Kept& kept) {
  proto::Record record = NewRecord();
  record.mutable_kept()->set_bytes(kept.bytes);
  record.mutable_kept()->set_decisions(kept.decisions);
  return record.SerializeAsString();
}

std::string Encode(const coordinator::StoredOrder& order) {
  proto::Record record = NewRecord();
  proto::OperatorOrder& out = *record.mutable_operator_order();
  out.set_batch(order.batch.get());
  out.set_participant(order.participant);
  out.set_kind(ToProto(order.order.kind));
  out.set_forced(order.order.forced);
  out.set_who(order.order.who);
  out.set_why(order.order.why);
  out.set_given_at_ms(order.order.given_at.ms);
  return record.SerializeAsString();
}

std::string Encode(const txn::Enlistment& enlistment) {
  proto::Record record = NewRecord();
  proto::Enlistment& out = *record.mutable_enlistment();
  const txn::ParticipantName& name = enlistment.name;
  out.set_txn(enlistment.txn.get());
  out.set_cluster(name.cluster.get());
  out.set_kafka_cluster_id(name.kafka_cluster_id.get());
  out.set_transactional_id(name.transactional_id.get());
  out.set_producer_id(name.producer_id.get());
  out.set_producer_epoch(name.producer_epoch.get());
  out.set_protocol(ToProto(name.protocol));
  return record.SerializeAsString();
}

template <>
Result<txn::Decision> Decode(std::string_view bytes, std::string_view where) {
  Result<proto::Record> record = Parse(bytes, Kind::kDecision, where);
  if (!record.ok()) return record.error();
  proto::Decision& from = *record->mutable_decision();
  txn::Decision decision;
  decision.batch = BatchId(from.batch());
  decision.decided_at = WallTime{from.decided_at_ms()};
  decision.acknowledged = from.acknowledged();
  for (std::string& member : *from.mutable_members()) {
    decision.members.emplace_back(std::move(member));
  }
  for (proto::ClientKey& key : *from.mutable_keys()) {
    decision.keys.push_back({key.member(),
                             {std::move(*key.mutable_key()), WallTime{key.birth_ms()},
                              std::move(*key.mutable_digest())}});
  }
  for (proto::Participant& participant : *from.mutable_participants()) {
    Result<txn::DecidedParticipant> decoded = FromProto(participant, where);
    if (!decoded.ok()) return decoded.error();
    decision.participants.push_back(*std::move(decoded));
  }
  if (const auto problem = ProblemOf(decision); !problem.empty()) return Corrupt(where, problem);
  return decision;
}

template <>
Result<StoredCompletion> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kCompletion, where);
  if (!record.ok()) return record.error();
  const proto::Completion& from = record->completion();
  const auto outcome = FromProto(from.outcome());
  if (!outcome || *outcome == txn::ParticipantOutcome::kPending) {
    return Corrupt(where, "a completion's outcome is unknown");
  }
  return StoredCompletion{{BatchId(from.batch()), from.participant(), *outcome},
                          WallTime{from.stored_at_ms()}};
}

template <>
Result<Acknowledgement> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kAcknowledgement, where);
  if (!record.ok()) return record.error();
  return Acknowledgement{BatchId(record->acknowledgement().batch()),
                         WallTime{record->acknowledgement().stored_at_ms()}};
}

template <>
Result<Binding> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kBinding, where);
  if (!record.ok()) return record.error();
  const proto::Binding& from = record->binding();
  if (from.cluster().empty()) return Corrupt(where, "a binding without a cluster");
  if (from.kafka_cluster_id().empty()) return Corrupt(where, "a binding without a Kafka id");
  return Binding{ClusterName(from.cluster()), KafkaClusterId(from.kafka_cluster_id())};
}

template <>
Result<Identity> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kIdentity, where);
  if (!record.ok()) return record.error();
  const proto::Identity& from = record->identity();
  constexpr std::string_view kNoLogId = "a log id is not 16 lower-case hex digits";
  if (!IsLogId(from.log_id())) return Corrupt(where, kNoLogId);
  Identity identity{LogId(from.log_id()), WallTime{from.created_at_ms()}, {}};
  for (const proto::Origin& origin : from.origins()) {
    if (!IsLogId(origin.log_id())) return Corrupt(where, kNoLogId);
    identity.origins.push_back({LogId(origin.log_id()), WallTime{origin.taken_at_ms()},
                                WallTime{origin.restored_at_ms()}});
  }
  return identity;
}

template <>
Result<Start> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kStart, where);
  if (!record.ok()) return record.error();
  if (record->start().incarnation() == 0) return Corrupt(where, "incarnation 0");
  return Start{Incarnation(record->start().incarnation()),
               WallTime{record->start().started_at_ms()}, record->start().superseded()};
}

template <>
Result<Forgotten> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kForgotten, where);
  if (!record.ok()) return record.error();
  return Forgotten{WallTime{record->forgotten().horizon_ms()},
                   BatchId(record->forgotten().through_batch())};
}

template <>
Result<Kept> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kKept, where);
  if (!record.ok()) return record.error();
  return Kept{record->kept().bytes(), record->kept().decisions()};
}

template <>
Result<coordinator::StoredOrder> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kOperatorOrder, where);
  if (!record.ok()) return record.error();
  const proto::OperatorOrder& from = record->operator_order();
  const auto kind = FromProto(from.kind());
  if (!kind) return Corrupt(where, "an order's kind is unknown");
  return coordinator::StoredOrder{
      BatchId(from.batch()),
      from.participant(),
      {*kind, from.forced(), from.who(), from.why(), WallTime{from.given_at_ms()}}};
}

template <>
Result<txn::Enlistment> Decode(std::string_view bytes, std::string_view where) {
  const Result<proto::Record> record = Parse(bytes, Kind::kEnlistment, where);
  if (!record.ok()) return record.error();
  const proto::Enlistment& from = record->enlistment();
  const auto protocol = FromProto(from.protocol());
  if (!protocol) return Corrupt(where, "an enlistment's EndTxn protocol is unknown");
  if (!IsEpoch(from.producer_epoch())) {
    return Corrupt(where, "an enlistment's producer epoch is out of range");
  }
  txn::Enlistment enlistment{
      GlobalTxnId(from.txn()),
      {.cluster = ClusterName(from.cluster()),
       .kafka_cluster_id = KafkaClusterId(from.kafka_cluster_id()),
       .transactional_id = TransactionalId(from.transactional_id()),
       .producer_id = ProducerId(from.producer_id()),
       .producer_epoch = ProducerEpoch(static_cast<std::int16_t>(from.producer_epoch())),
       .protocol = *protocol}};
  if (const auto problem = ProblemOf(enlistment); !problem.empty()) return Corrupt(where, problem);
  return enlistment;
}

Status Validate(const txn::Decision& decision) {
  const auto problem = ProblemOf(decision);
  if (problem.empty()) return {};
  return MakeError(Code::kInternal, "batch " + std::to_string(decision.batch.get()) +
                                        " cannot be stored: " + std::string(problem));
}

Status Validate(const txn::Enlistment& enlistment) {
  const auto problem = ProblemOf(enlistment);
  if (problem.empty()) return {};
  return MakeError(Code::kInternal, "an enlistment in transaction '" + enlistment.txn.get() +
                                        "' cannot be stored: " + std::string(problem));
}

Status Apply(const coordinator::Completion& completion, txn::Decision& decision) {
  const std::string where = "completion of participant " + std::to_string(completion.participant) +
                            " of batch " + std::to_string(completion.batch.get());
  if (Status belongs = CheckBelongs(completion, decision, where); !belongs.ok()) return belongs;
  decision.participants[completion.participant].outcome = completion.outcome;
  return {};
}

Status Apply(const coordinator::StoredOrder& order, txn::Decision& decision) {
  const std::string where = "order about participant " + std::to_string(order.participant) +
                            " of batch " + std::to_string(order.batch.get());
  if (Status belongs = CheckBelongs(order, decision, where); !belongs.ok()) return belongs;
  decision.participants[order.participant].order = order.order;
  return {};
}

}  // namespace lockstep::log
