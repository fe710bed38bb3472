#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "clusters.h"
#include "group_consumer.h"
#include "txn_broker.h"
#include "wire/raw_client.h"

namespace lockstep::contract {

/// A real cluster of two nodes: node 1 coordinates everything and leads "free", node 2 leads
/// "held" and is stopped (SIGSTOP) while markers are to hang.
class RealBroker final : public TxnBroker {
 public:
  RealBroker(const std::string& kafka, int transaction_version);
  ~RealBroker() override;

  std::string name() const override { return name_; }
  int transaction_version() const override { return transaction_version_; }
  bool kafka_3() const override { return name_.starts_with("3."); }
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
  lockstep::testing::RawClient& LeaderOf(const txn::TopicPartition& partition);
  std::int64_t LatestOffset(const txn::TopicPartition& partition, bool read_committed);

  const std::string name_;
  const int transaction_version_;
  lockstep::testing::KafkaCluster cluster_;
  std::unique_ptr<lockstep::testing::RawClient> coordinator_;  // Node 1.
  std::unique_ptr<lockstep::testing::RawClient> other_;        // Node 2.
  std::vector<std::unique_ptr<lockstep::testing::GroupConsumer>> consumers_;
};

}  // namespace lockstep::contract
