#pragma once

#include <map>
#include <string>
#include <vector>

#include "fake_kafka/fake_kafka.h"
#include "txn_broker.h"

namespace lockstep::contract {

/// FakeKafka, with markers that are written at once unless held. TV0 stands for a 3.x broker.
class FakeBroker final : public TxnBroker {
 public:
  explicit FakeBroker(std::int16_t transaction_version);

  std::string name() const override;
  int transaction_version() const override { return transaction_version_; }
  bool kafka_3() const override { return transaction_version_ == 0; }
  void HoldMarkers() override;
  void ReleaseMarkers() override;
  bool WaitFor(const std::function<bool()>& condition) override;
  LiveGroup JoinGroup(const std::string& group) override;

  ProducerAnswer InitProducerId(const std::string& id, std::int32_t timeout_ms) override;
  KafkaError AddPartitionsToTxn(const std::string& id, Producer producer,
                                const txn::TopicPartition& partition) override;
  Appended Produce(const ProduceRequest& request) override;
  KafkaError AddOffsetsToTxn(const std::string& id, Producer producer,
                             const std::string& group) override;
  KafkaError TxnOffsetCommit(const TxnOffsetCommitRequest& request) override;
  ProducerAnswer EndTxn(int version, const std::string& id, Producer producer,
                        bool commit) override;
  txn::TxnDescription Describe(const std::string& id) override;
  std::vector<ListedTransaction> List() override;
  std::int64_t HighWatermark(const txn::TopicPartition& partition) override;
  std::int64_t LastStableOffset(const txn::TopicPartition& partition) override;
  txn::MarkerFound FindMarker(const txn::TopicPartition& partition, std::int64_t producer_id,
                              std::int64_t offset) override;
  KafkaError WriteTxnMarkers(Producer producer, bool commit,
                             const txn::TopicPartition& partition) override;
  std::int64_t CommittedOffset(const std::string& group,
                               const txn::TopicPartition& partition) override;
  txn::TopicPartition OffsetsPartition(const std::string& group) override;

 private:
  /// Some time passes with each request, so that start times differ.
  void Tick();

  std::int16_t transaction_version_;
  fake_kafka::FakeKafka kafka_;
};

}  // namespace lockstep::contract
