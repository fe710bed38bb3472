#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fake_kafka/fake_kafka.h"
#include "txn/resolve.h"
#include "txn/types.h"

namespace lockstep::contract {

using fake_kafka::Appended;
using fake_kafka::KafkaError;
using fake_kafka::ListedTransaction;
using fake_kafka::Producer;
using fake_kafka::ProducerAnswer;
using fake_kafka::ProduceRequest;
using fake_kafka::TxnOffsetCommitRequest;

/// A Kafka cluster as the contract suite asks it: each call is one request, sent once, with the
/// version that it names, and returns the broker's answer as it came. Only answers that mean "not
/// yet reached the right broker" are asked again inside. Blocking, one thread.
class TxnBroker {
 public:
  virtual ~TxnBroker() = default;

  virtual std::string name() const = 0;  ///< E.g. "4.4.0 TV2": a column of the report.
  virtual int transaction_version() const = 0;
  /// Before 4.0, where DescribeTransactions shows the last start time after InitProducerId, and the
  /// group coordinator has other words for a group that it does not know.
  virtual bool kafka_3() const = 0;

  /// Topic "held" has four partitions whose markers HoldMarkers stops; topic "free" has four of
  /// which nothing is stopped.
  virtual void HoldMarkers() = 0;
  virtual void ReleaseMarkers() = 0;
  /// Returns once the condition holds, or false if it does not within 20 s of the broker's time.
  virtual bool WaitFor(const std::function<bool()>& condition) = 0;
  /// A consumer group with one member; its generation.
  struct LiveGroup {
    std::string member_id;
    std::int32_t generation = -1;
  };
  virtual LiveGroup JoinGroup(const std::string& group) = 0;

  virtual ProducerAnswer InitProducerId(const std::string& id, std::int32_t timeout_ms) = 0;
  virtual KafkaError AddPartitionsToTxn(const std::string& id, Producer producer,
                                        const txn::TopicPartition& partition) = 0;
  virtual Appended Produce(const ProduceRequest& request) = 0;
  virtual KafkaError AddOffsetsToTxn(const std::string& id, Producer producer,
                                     const std::string& group) = 0;
  virtual KafkaError TxnOffsetCommit(const TxnOffsetCommitRequest& request) = 0;
  virtual ProducerAnswer EndTxn(int version, const std::string& id, Producer producer,
                                bool commit) = 0;
  virtual txn::TxnDescription Describe(const std::string& id) = 0;
  virtual std::vector<ListedTransaction> List() = 0;
  virtual std::int64_t HighWatermark(const txn::TopicPartition& partition) = 0;
  virtual std::int64_t LastStableOffset(const txn::TopicPartition& partition) = 0;
  virtual txn::MarkerFound FindMarker(const txn::TopicPartition& partition,
                                      std::int64_t producer_id, std::int64_t offset) = 0;
  virtual KafkaError WriteTxnMarkers(Producer producer, bool commit,
                                     const txn::TopicPartition& partition) = 0;
  /// The group's committed offset, -1 for none.
  virtual std::int64_t CommittedOffset(const std::string& group,
                                       const txn::TopicPartition& partition) = 0;
  /// The partition of __consumer_offsets that holds the group.
  virtual txn::TopicPartition OffsetsPartition(const std::string& group) = 0;
};

}  // namespace lockstep::contract
