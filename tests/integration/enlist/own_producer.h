#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/v1/coordinator.grpc.pb.h"
#include "txn/types.h"

using rd_kafka_t = struct rd_kafka_s;
using rd_kafka_message_t = struct rd_kafka_message_s;
using rd_kafka_consumer_group_metadata_t = struct rd_kafka_consumer_group_metadata_s;

namespace lockstep::testing {

/// An application's own transactional producer: librdkafka (TV1), enlisted step by step, so that a
/// test can leave a step out. Everything blocks; std::runtime_error where librdkafka refuses what a
/// test takes for granted. Destroyed without an end of its transaction, as if the application died.
class OwnProducer {
 public:
  struct Options {
    std::string cluster;  ///< As lockstepd names it.
    std::string bootstrap;
    std::string transactional_id;
    std::chrono::milliseconds transaction_timeout = std::chrono::minutes(1);
    v1::ProducerProtocol protocol = v1::PRODUCER_PROTOCOL_TV1;  ///< What it says of itself.
  };

  explicit OwnProducer(Options options);
  ~OwnProducer();
  OwnProducer(const OwnProducer&) = delete;
  OwnProducer& operator=(const OwnProducer&) = delete;

  grpc::Status Register(v1::Coordinator::Stub& stub);
  void Init();
  /// Register, then Init. Throws where either fails.
  void Start(v1::Coordinator::Stub& stub);
  grpc::Status Enlist(v1::Coordinator::Stub& stub, const std::string& txn_id);
  /// Its own transaction begins, at librdkafka alone.
  void Begin();
  void Write(const std::string& topic, const std::string& value, std::int32_t partition = 0);
  /// Group offsets into its own transaction; the error's name, or "".
  std::string SendOffsets(const txn::TopicPartition& partition, std::int64_t offset,
                          const rd_kafka_consumer_group_metadata_t* group,
                          const std::string& group_id);
  /// Everything is acknowledged on return.
  void Flush();
  /// What it wrote since Begin, for Commit.
  v1::EnlistedWork work() const { return work_; }
  /// Its own commitTransaction or abortTransaction: the error's name, or "".
  std::string CommitOwn();
  std::string AbortOwn();

  const v1::RegisterProducerResponse& registration() const { return registration_; }
  const std::string& transactional_id() const { return options_.transactional_id; }

 private:
  void OnDelivery(const rd_kafka_message_t& message);

  const Options options_;
  rd_kafka_t* producer_ = nullptr;
  v1::RegisterProducerResponse registration_;
  v1::EnlistedWork work_;
  std::map<txn::TopicPartition, int> index_;  // Into work_.partitions.
  std::string failed_;                        // A delivery report.
};

}  // namespace lockstep::testing
