#include "own_producer.h"

#include <grpcpp/grpcpp.h>
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "call_context.h"

namespace lockstep::testing {
namespace {

constexpr int kTimeoutMs = 30'000;

std::string NameAndFree(rd_kafka_error_t* error) {
  if (error == nullptr) return {};
  const std::string name = rd_kafka_error_name(error);
  rd_kafka_error_destroy(error);
  return name;
}

void Require(const std::string& error, const std::string& what) {
  if (!error.empty()) throw std::runtime_error(what + ": " + error);
}

}  // namespace

OwnProducer::OwnProducer(Options options) : options_(std::move(options)) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  const std::map<std::string, std::string> settings = {
      {"bootstrap.servers", options_.bootstrap},
      {"transactional.id", options_.transactional_id},
      {"transaction.timeout.ms", std::to_string(options_.transaction_timeout.count())},
      {"message.timeout.ms", std::to_string(options_.transaction_timeout.count())},
      {"linger.ms", "0"},
      {"log_level", "0"},  // Being fenced is what half of the tests are about.
  };
  std::array<char, 512> message{};
  for (const auto& [key, value] : settings) {
    if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), message.data(), message.size()) !=
        RD_KAFKA_CONF_OK) {
      throw std::runtime_error(message.data());
    }
  }
  rd_kafka_conf_set_opaque(conf, this);
  rd_kafka_conf_set_dr_msg_cb(conf,
                              [](rd_kafka_t*, const rd_kafka_message_t* delivered, void* opaque) {
                                static_cast<OwnProducer*>(opaque)->OnDelivery(*delivered);
                              });
  producer_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, message.data(), message.size());
  if (producer_ == nullptr) throw std::runtime_error(message.data());
}

OwnProducer::~OwnProducer() { rd_kafka_destroy(producer_); }

grpc::Status OwnProducer::Register(v1::Coordinator::Stub& stub) {
  CallContext context;
  v1::RegisterProducerRequest request;
  request.set_cluster(options_.cluster);
  request.set_transactional_id(options_.transactional_id);
  request.set_protocol(options_.protocol);
  return stub.RegisterProducer(&context, request, &registration_);
}

void OwnProducer::Init() {
  Require(NameAndFree(rd_kafka_init_transactions(producer_, kTimeoutMs)), "init_transactions");
}

void OwnProducer::Start(v1::Coordinator::Stub& stub) {
  const grpc::Status status = Register(stub);
  if (!status.ok()) throw std::runtime_error("RegisterProducer: " + status.error_message());
  Init();
}

grpc::Status OwnProducer::Enlist(v1::Coordinator::Stub& stub, const std::string& txn_id) {
  CallContext context;
  v1::EnlistRequest request;
  request.set_txn_id(txn_id);
  request.set_registration_id(registration_.registration_id());
  v1::EnlistResponse response;
  return stub.Enlist(&context, request, &response);
}

void OwnProducer::Begin() {
  work_.Clear();
  work_.set_registration_id(registration_.registration_id());
  index_.clear();
  failed_.clear();
  Require(NameAndFree(rd_kafka_begin_transaction(producer_)), "begin_transaction");
}

void OwnProducer::Write(const std::string& topic, const std::string& value,
                        std::int32_t partition) {
  // NOLINTBEGIN(cppcoreguidelines-pro-type-const-cast): RD_KAFKA_MSG_F_COPY only reads.
  const rd_kafka_resp_err_t error =
      rd_kafka_producev(producer_, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_PARTITION(partition),
                        RD_KAFKA_V_VALUE(const_cast<char*>(value.data()), value.size()),
                        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
  // NOLINTEND(cppcoreguidelines-pro-type-const-cast)
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2name(error));
}

std::string OwnProducer::SendOffsets(const txn::TopicPartition& partition, std::int64_t offset,
                                     const rd_kafka_consumer_group_metadata_t* group,
                                     const std::string& group_id) {
  rd_kafka_topic_partition_list_t* offsets = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(offsets, partition.topic.c_str(), partition.partition)->offset =
      offset;
  const std::string error =
      NameAndFree(rd_kafka_send_offsets_to_transaction(producer_, offsets, group, kTimeoutMs));
  rd_kafka_topic_partition_list_destroy(offsets);
  if (error.empty()) work_.add_group_ids(group_id);
  return error;
}

void OwnProducer::Flush() {
  const rd_kafka_resp_err_t error = rd_kafka_flush(producer_, kTimeoutMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2name(error));
  Require(failed_, "a record was not delivered");
  if (work_.partitions().empty() && work_.group_ids().empty()) work_.set_read_only(true);
}

void OwnProducer::OnDelivery(const rd_kafka_message_t& message) {
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    failed_ = rd_kafka_err2name(message.err);
    return;
  }
  const txn::TopicPartition partition{rd_kafka_topic_name(message.rkt), message.partition};
  const auto [entry, is_new] = index_.emplace(partition, work_.partitions_size());
  auto& written = is_new ? *work_.add_partitions() : *work_.mutable_partitions(entry->second);
  written.set_topic(partition.topic);
  written.set_partition(partition.partition);
  written.set_offset(std::max(written.offset(), message.offset));
}

std::string OwnProducer::CommitOwn() {
  return NameAndFree(rd_kafka_commit_transaction(producer_, kTimeoutMs));
}

std::string OwnProducer::AbortOwn() {
  return NameAndFree(rd_kafka_abort_transaction(producer_, kTimeoutMs));
}

}  // namespace lockstep::testing
