#include "kafka/producer.h"

#include <algorithm>
#include <utility>

#include "base/secret.h"
#include "kafka/token.h"
#include "rdkafka/c_values.h"

namespace lockstep::kafka {
namespace {

struct ErrorDeleter {
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
};

// librdkafka counts in milliseconds; one that is rounded down to 0 would not wait at all.
int Milliseconds(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3'600'000));
}

// Takes ownership of what a transactional call returned.
std::optional<Failure> Take(rd_kafka_error_t* raw) {
  if (raw == nullptr) return std::nullopt;
  const std::unique_ptr<rd_kafka_error_t, ErrorDeleter> error(raw);
  return Failure{rd_kafka_error_code(raw), rd_kafka_error_is_fatal(raw) != 0,
                 rd_kafka_error_txn_requires_abort(raw) != 0, rd_kafka_error_is_retriable(raw) != 0,
                 rd_kafka_error_string(raw)};
}

std::optional<Failure> FromCode(rd_kafka_resp_err_t code) {
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
  Failure failure;
  failure.code = code;
  failure.message = rd_kafka_err2str(code);
  return failure;
}

DeliveryReport ReportOf(const rd_kafka_message_t& message) {
  DeliveryReport report;
  // The index travels as the message's opaque pointer, one up: none is null.
  report.record = reinterpret_cast<std::uintptr_t>(message._private) - 1;
  report.partition = {rd_kafka_topic_name(message.rkt), message.partition};
  report.offset = std::max<std::int64_t>(message.offset, -1);
  // Not rd_kafka_message_errstr: of a produced message it is the payload.
  report.failure = FromCode(message.err);
  return report;
}

struct MetadataDeleter {
  void operator()(const rd_kafka_metadata_t* metadata) const {
    rd_kafka_metadata_destroy(metadata);
  }
};

rdkafka::ListPtr ListOf(const std::vector<txn::OffsetToCommit>& offsets) {
  rdkafka::ListPtr list(rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
  for (const txn::OffsetToCommit& offset : offsets) {
    rdkafka::AddOffset(*list, offset.partition.topic, offset.partition.partition, offset.offset,
                       offset.leader_epoch, offset.metadata);
  }
  return list;
}

rdkafka::GroupPtr GroupOf(const txn::GroupOffsets& offsets) {
  if (offsets.standalone) return rdkafka::StandaloneGroup(offsets.group_id);
  return rdkafka::MemberOfGroup(offsets.group_id, offsets.generation, offsets.member_id,
                                offsets.group_instance_id);
}

}  // namespace

void Producer::OnLog(const rd_kafka_t* handle, int level, const char* facility, const char* text) {
  auto* self = static_cast<Producer*>(rd_kafka_opaque(handle));
  self->log_.Write(level, self->id_, facility, text);
}

void Producer::OnTokenNeeded(rd_kafka_t* handle, const char* /*config*/, void* opaque) {
  auto* self = static_cast<Producer*>(opaque);
  const auto token = ReadSecret({self->token_file_, ""}, "sasl.token_file");
  // librdkafka asks again in ten seconds.
  if (!token.ok()) {
    rd_kafka_oauthbearer_set_token_failure(handle, token.error().message.c_str());
    return;
  }
  const TokenFacts facts = FactsOfToken(*token, std::chrono::system_clock::now());
  std::int64_t first = 0;
  if (facts.expires) {
    self->session_end_ms_.compare_exchange_strong(
        first,
        std::chrono::duration_cast<std::chrono::milliseconds>(facts.expires->time_since_epoch())
            .count());
  }
  const auto until =
      std::chrono::duration_cast<std::chrono::milliseconds>(facts.use_until.time_since_epoch());
  char why[512];
  const auto set = rd_kafka_oauthbearer_set_token(
      handle, token->c_str(), until.count(), facts.subject.c_str(), nullptr, 0, why, sizeof why);
  if (set != RD_KAFKA_RESP_ERR_NO_ERROR) rd_kafka_oauthbearer_set_token_failure(handle, why);
}

std::optional<std::chrono::system_clock::time_point> Producer::session_end() const {
  const std::int64_t end = session_end_ms_;
  if (end == 0) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(end));
}

/// The callback runs on librdkafka's own thread: ours may be inside a call that waits for a token.
Status Producer::StartTokens() {
  if (token_file_.empty()) return {};
  const auto failure = Take(rd_kafka_sasl_background_callbacks_enable(handle_.get()));
  return failure ? Status(ToError(*failure)) : Status();
}

void Producer::Deleter::operator()(rd_kafka_t* handle) const {
  // What is still queued would be sent while the threads wind down, and warned about.
  rd_kafka_purge(
      handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
  rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Result<std::unique_ptr<Producer>> Producer::Create(const ClusterConfig& config,
                                                   const TransactionalId& id,
                                                   std::chrono::milliseconds transaction_timeout,
                                                   LogBridge& log,
                                                   std::atomic<std::uint64_t>& requests) {
  Result<ConfPtr> conf = ProducerConf(config, id, transaction_timeout);
  if (!conf.ok()) return conf.error();
  const auto& sasl = config.security.sasl;
  std::unique_ptr<Producer> producer(new Producer(id, sasl ? sasl->token_file : "", log, requests));
  rd_kafka_conf_t* raw = conf->get();
  rd_kafka_conf_set_opaque(raw, producer.get());
  rd_kafka_conf_set_log_cb(raw, OnLog);
  // Reports as events: this thread sleeps until one is there. Without (or with a callback)
  // librdkafka's own flush wakes every 10 ms.
  rd_kafka_conf_set_events(raw, RD_KAFKA_EVENT_DR);
  if (!producer->token_file_.empty()) {
    rd_kafka_conf_set_oauthbearer_token_refresh_cb(raw, OnTokenNeeded);
    rd_kafka_conf_enable_sasl_queue(raw, 1);
  }
  producer->ledger_.AttachTo(raw);
  char why[512];
  producer->handle_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, raw, why, sizeof why));
  if (producer->handle_ == nullptr) {
    return MakeError(Code::kInvalidArgument, std::string("librdkafka: ") + why);
  }
  conf->release();  // The producer has it.
  producer->queue_.reset(rd_kafka_queue_get_main(producer->handle_.get()));
  if (Status started = producer->StartTokens(); !started.ok()) return started.error();
  return producer;
}

Producer::~Producer() = default;

std::optional<Failure> Producer::InitTransactions(Duration slice) {
  return Take(rd_kafka_init_transactions(handle_.get(), Milliseconds(slice)));
}

std::optional<Failure> Producer::BeginTransaction() {
  return Take(rd_kafka_begin_transaction(handle_.get()));
}

std::optional<Failure> Producer::Warm(const TopicCatalog::Topics& topics, Duration timeout) {
  std::vector<WarmTopic*> stale;
  for (const auto& [name, topic] : topics) {
    auto& slot = topics_[name];
    if (slot.handle == nullptr) {
      slot.handle.reset(rd_kafka_topic_new(handle_.get(), name.c_str(), nullptr));
      if (slot.handle == nullptr) {
        topics_.erase(name);
        return FromCode(rd_kafka_last_error());
      }
    }
    if (slot.partitions >= topic.partitions) continue;
    slot.partitions = topic.partitions;
    stale.push_back(&slot);
  }
  if (stale.empty()) return std::nullopt;
  // Without a topic it asks for all that this producer knows: one request for several.
  const rd_kafka_metadata_t* raw = nullptr;
  const auto code =
      rd_kafka_metadata(handle_.get(), 0, stale.size() == 1 ? stale[0]->handle.get() : nullptr,
                        &raw, Milliseconds(timeout));
  const std::unique_ptr<const rd_kafka_metadata_t, MetadataDeleter> metadata(raw);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    for (WarmTopic* topic : stale) topic->partitions = -1;
  }
  return FromCode(code);
}

std::optional<Failure> Producer::Produce(const txn::Record& record, std::size_t index) {
  const auto topic = topics_.find(record.topic);
  if (topic == topics_.end()) return FromCode(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC);
  return Take(rdkafka::Enqueue(handle_.get(), topic->second.handle.get(), record,
                               record.timestamp_ms, reinterpret_cast<void*>(index + 1)));
}

bool Producer::TakeReports(Duration slice, const std::function<void(const DeliveryReport&)>& take) {
  bool any = false;
  for (int wait = Milliseconds(slice);; wait = 0) {
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue_.get(), wait);
    if (event == nullptr) return any;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event)) {
      any = true;
      take(ReportOf(*message));
    }
    rd_kafka_event_destroy(event);
  }
}

std::optional<Failure> Producer::SendOffsets(const txn::GroupOffsets& offsets, Duration timeout) {
  const rdkafka::ListPtr list = ListOf(offsets.offsets);
  const rdkafka::GroupPtr group = GroupOf(offsets);
  return Take(rd_kafka_send_offsets_to_transaction(handle_.get(), list.get(), group.get(),
                                                   Milliseconds(timeout)));
}

std::optional<Failure> Producer::CommitTransaction(Duration slice) {
  return Take(rd_kafka_commit_transaction(handle_.get(), Milliseconds(slice)));
}

void Producer::PurgeUnsent() {
  rd_kafka_purge(handle_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

int Producer::Undelivered() const { return rd_kafka_outq_len(handle_.get()); }

std::optional<Failure> Producer::AbortTransaction(Duration slice) {
  return Take(rd_kafka_abort_transaction(handle_.get(), Milliseconds(slice)));
}

std::optional<Failure> Producer::TransactionFailure() {
  // Beginning a second transaction changes nothing and is always refused: with the failure of the
  // open one where it has failed, else because one is open.
  auto failure = BeginTransaction();
  if (failure && failure->code == RD_KAFKA_RESP_ERR__STATE && !failure->fatal) return std::nullopt;
  return failure;
}

bool Producer::dead() const {
  return rd_kafka_fatal_error(handle_.get(), nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
}

void Producer::Wake() { rd_kafka_queue_yield(queue_.get()); }

}  // namespace lockstep::kafka
