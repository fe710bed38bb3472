#include "rdkafka/instance.h"

#include <optional>

#include "rdkafka/c_values.h"

namespace lockstep::rdkafka {
namespace {

using client::Code;
using client::Effect;
using client::Error;
using client::Result;
using client::Status;

// The broker has ended the transaction already: one round trip, and its coordinator may be moving.
constexpr std::chrono::seconds kOwnEnd(10);

ListPtr ListOf(const std::vector<client::Offset>& offsets) {
  ListPtr list(rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
  for (const client::Offset& offset : offsets) {
    AddOffset(*list, offset.topic, offset.partition, offset.offset,
              offset.leader_epoch.value_or(-1), offset.metadata);
  }
  return list;
}

GroupPtr GroupOf(const client::ConsumerGroup& group) {
  if (group.standalone) return StandaloneGroup(group.id);
  return MemberOfGroup(group.id, group.generation, group.member_id, group.instance_id);
}

std::optional<std::int64_t> MillisecondsOf(const std::optional<client::WallTime>& time) {
  if (!time) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::Create(client::Client& client,
                                                   const ProducerOptions& options,
                                                   const Deadline& deadline) {
  std::unique_ptr<Instance> made(new Instance(options));
  // Made first: between the registration and the initialisation as little as possible is to happen.
  if (const Status status = made->Make(); !status) return status.error();
  auto registration = client.RegisterProducer(options.cluster, options.transactional_id,
                                              client::ProducerProtocol::kTv1, deadline.left());
  if (!registration) return registration.error();
  made->registration_ = *std::move(registration);
  const Status initialised = Resume(made->Called("init_transactions"), deadline, [&](int slice) {
    return rd_kafka_init_transactions(made->handle_, slice);
  });
  if (!initialised) return initialised.error();
  return made;
}

Status Instance::Make() {
  rd_kafka_conf_t* conf = options_.conf();
  rd_kafka_conf_set_dr_msg_cb(conf, OnReport);
  char why[512];
  const std::pair<const char*, std::string> ours[] = {
      {"transactional.id", options_.transactional_id},
      {"transaction.timeout.ms", std::to_string(options_.transaction_timeout.count())},
      {"delivery.report.only.error", "false"}};
  bool fine = true;
  for (const auto& [name, value] : ours) {
    fine =
        fine && rd_kafka_conf_set(conf, name, value.c_str(), why, sizeof why) == RD_KAFKA_CONF_OK;
  }
  handle_ = fine ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why) : nullptr;
  if (handle_ != nullptr) return {};
  rd_kafka_conf_destroy(conf);
  return Error{.code = Code::kInvalidArgument,
               .effect = Effect::kNone,
               .message = Called("rd_kafka_new") + ": " + why};
}

Instance::~Instance() {
  if (handle_ == nullptr) return;
  for (const auto& [name, topic] : topics_) rd_kafka_topic_destroy(topic);
  // What is still queued would be sent while the threads wind down.
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
  rd_kafka_destroy(handle_);
}

std::string Instance::Called(const std::string& call) const {
  return options_.transactional_id + " on " + options_.cluster + ": " + call;
}

Status Instance::BeginTransaction() {
  unreported_ = 0;
  acknowledged_.clear();
  groups_.clear();
  failure_.reset();
  if (rd_kafka_error_t* error = rd_kafka_begin_transaction(handle_)) {
    return Failed(Called("begin_transaction"), error);
  }
  return {};
}

/// Without its metadata a topic's first record waits for librdkafka's next look, up to a second.
Result<rd_kafka_topic_t*> Instance::Warm(const std::string& topic, const Deadline& deadline) {
  if (const auto known = topics_.find(topic); known != topics_.end()) return known->second;
  rd_kafka_topic_t* handle = rd_kafka_topic_new(handle_, topic.c_str(), nullptr);
  if (handle == nullptr) return Failed(Called("topic " + topic), rd_kafka_last_error());
  const rd_kafka_metadata_t* metadata = nullptr;
  const auto code = rd_kafka_metadata(handle_, 0, handle, &metadata, deadline.Whole());
  if (metadata != nullptr) rd_kafka_metadata_destroy(metadata);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    rd_kafka_topic_destroy(handle);
    return Failed(Called("metadata of " + topic), code);
  }
  topics_.emplace(topic, handle);
  return handle;
}

Status Instance::Produce(const client::Record& record, const Deadline& deadline) {
  if (failure_) return *failure_;
  const auto topic = Warm(record.topic, deadline);
  if (!topic) return topic.error();
  for (;;) {
    rd_kafka_error_t* error =
        Enqueue(handle_, *topic, record, MillisecondsOf(record.timestamp), this);
    if (error == nullptr) break;
    if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__QUEUE_FULL || deadline.passed()) {
      return Failed(Called("a record for " + record.topic), error);
    }
    rd_kafka_error_destroy(error);
    rd_kafka_poll(handle_, std::min(deadline.Slice(), 100));  // Each report makes room.
  }
  ++unreported_;
  rd_kafka_poll(handle_, 0);
  return {};
}

void Instance::OnReport(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  // Not by the configuration's opaque, which is the application's.
  static_cast<Instance*>(message->_private)->Count(*message);
}

void Instance::Count(const rd_kafka_message_t& message) {
  --unreported_;
  const std::string topic = rd_kafka_topic_name(message.rkt);
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    auto& highest = acknowledged_.try_emplace({topic, message.partition}, -1).first->second;
    highest = std::max(highest, message.offset);
  } else if (!failure_) {
    failure_ = Failed(Called("a record for " + topic + " was not delivered"), message.err);
  }
  if (options_.on_delivery) options_.on_delivery(message);
}

Status Instance::SendOffsets(const client::GroupOffsets& offsets, const Deadline& deadline) {
  if (failure_) return *failure_;
  const std::string call = Called("offsets of group " + offsets.group.id);
  if (!offsets.kafka_cluster_id.empty()) {
    char* id = rd_kafka_clusterid(handle_, deadline.Whole());
    const std::string here = id == nullptr ? "" : id;
    if (id != nullptr) rd_kafka_mem_free(handle_, id);
    if (here != offsets.kafka_cluster_id) {
      return Error{.code = Code::kWrongState,
                   .effect = Effect::kNone,
                   .message = call + ": its consumer is on Kafka cluster " +
                              offsets.kafka_cluster_id + ", this producer on " +
                              (here.empty() ? "one that does not say" : here) +
                              ": send them with Transaction::SendOffsets to the group's cluster"};
    }
  }
  // Unlike the others this call cannot be resumed: after any failure it is not known what was
  // added.
  if (rd_kafka_error_t* error = rd_kafka_send_offsets_to_transaction(
          handle_, ListOf(offsets.offsets).get(), GroupOf(offsets.group).get(), deadline.Whole())) {
    failure_ = Failed(call, error);
    return *failure_;
  }
  groups_.insert(offsets.group.id);
  return {};
}

Status Instance::Flush(const Deadline& deadline) {
  // rd_kafka_flush answers OK whatever the reports say; and it is the one call that overrides
  // linger.ms.
  while (unreported_ > 0 && !failure_ && !deadline.passed()) {
    rd_kafka_flush(handle_, deadline.Slice());
  }
  if (failure_) return *failure_;
  if (unreported_ == 0) return {};
  failure_ =
      Error{.code = Code::kDeadlineExceeded,
            .effect = Effect::kNone,
            .message = Called(std::to_string(unreported_) + " records not acknowledged yet")};
  return *failure_;
}

bool Instance::Quiesce(const Deadline& deadline) {
  // Not purged: librdkafka 2.0 aborts the process where a producer is destroyed while the broker is
  // still adding a partition to its transaction, and only a report tells that it is not.
  while (unreported_ > 0 && !deadline.passed()) rd_kafka_flush(handle_, deadline.Slice());
  return unreported_ == 0;
}

client::EnlistedWork Instance::Work() const {
  client::EnlistedWork work{.registration_id = registration_.id,
                            .partitions = {},
                            .group_ids = {groups_.begin(), groups_.end()},
                            .read_only = acknowledged_.empty() && groups_.empty()};
  for (const auto& [where, offset] : acknowledged_) {
    work.partitions.push_back({.topic = where.first, .partition = where.second, .offset = offset});
  }
  return work;
}

bool Instance::End(bool commit) {
  // After a failure librdkafka takes another epoch when it aborts, behind the registration's back.
  if (failure_) return false;
  return Resume(Called("the producer's own end"), Deadline(kOwnEnd),
                [&](int slice) {
                  return commit ? rd_kafka_commit_transaction(handle_, slice)
                                : rd_kafka_abort_transaction(handle_, slice);
                })
      .ok();
}

}  // namespace lockstep::rdkafka
