#include "fake_broker.h"

namespace lockstep::contract {
namespace {

constexpr int kPartitions = 4;

fake_kafka::FakeKafkaOptions OptionsFor(std::int16_t transaction_version) {
  fake_kafka::FakeKafkaOptions options;
  options.transaction_version = transaction_version;
  options.kafka_3 = transaction_version == 0;
  options.timeout_scan_ms = 500;  // As scripts/clusters sets it.
  return options;
}

}  // namespace

FakeBroker::FakeBroker(std::int16_t transaction_version)
    : transaction_version_(transaction_version), kafka_(OptionsFor(transaction_version)) {
  kafka_.CreateTopic("held", kPartitions);
  kafka_.CreateTopic("free", kPartitions);
}

std::string FakeBroker::name() const { return "fake TV" + std::to_string(transaction_version_); }

void FakeBroker::Tick() {
  kafka_.AdvanceTo(kafka_.now_ms() + 1);
  kafka_.WriteDueMarkers();
}

void FakeBroker::HoldMarkers() {
  for (int i = 0; i < kPartitions; ++i) kafka_.SetLeader({"held", i}, false);
}

void FakeBroker::ReleaseMarkers() {
  for (int i = 0; i < kPartitions; ++i) kafka_.SetLeader({"held", i}, true);
  kafka_.WriteDueMarkers();
}

bool FakeBroker::WaitFor(const std::function<bool()>& condition) {
  for (int i = 0; i < 200; ++i) {
    if (condition()) return true;
    kafka_.AdvanceTo(kafka_.now_ms() + 100);
    kafka_.WriteDueMarkers();
  }
  return false;
}

TxnBroker::LiveGroup FakeBroker::JoinGroup(const std::string& group) {
  kafka_.SetGroup(group, 1, {"member-1"});
  return {"member-1", 1};
}

ProducerAnswer FakeBroker::InitProducerId(const std::string& id, std::int32_t timeout_ms) {
  Tick();
  const ProducerAnswer answer = kafka_.InitProducerId(id, timeout_ms);
  kafka_.WriteDueMarkers();
  return answer;
}

KafkaError FakeBroker::AddPartitionsToTxn(const std::string& id, Producer producer,
                                          const txn::TopicPartition& partition) {
  Tick();
  return kafka_.AddPartitionsToTxn(id, producer, {partition});
}

Appended FakeBroker::Produce(const ProduceRequest& request) {
  Tick();
  return kafka_.Produce(request);
}

KafkaError FakeBroker::AddOffsetsToTxn(const std::string& id, Producer producer,
                                       const std::string& group) {
  Tick();
  return kafka_.AddOffsetsToTxn(id, producer, group);
}

KafkaError FakeBroker::TxnOffsetCommit(const TxnOffsetCommitRequest& request) {
  Tick();
  return kafka_.TxnOffsetCommit(request);
}

ProducerAnswer FakeBroker::EndTxn(int version, const std::string& id, Producer producer,
                                  bool commit) {
  Tick();
  const ProducerAnswer answer = kafka_.EndTxn(version, id, producer, commit);
  kafka_.WriteDueMarkers();
  return answer;
}

txn::TxnDescription FakeBroker::Describe(const std::string& id) {
  return kafka_.DescribeTransaction(id);
}

std::vector<ListedTransaction> FakeBroker::List() { return kafka_.ListTransactions(); }

std::int64_t FakeBroker::HighWatermark(const txn::TopicPartition& partition) {
  return kafka_.Partition(partition)->high_watermark();
}

std::int64_t FakeBroker::LastStableOffset(const txn::TopicPartition& partition) {
  return kafka_.Partition(partition)->last_stable_offset();
}

txn::MarkerFound FakeBroker::FindMarker(const txn::TopicPartition& partition,
                                        std::int64_t producer_id, std::int64_t offset) {
  return kafka_.FindMarker(partition, producer_id, offset);
}

KafkaError FakeBroker::WriteTxnMarkers(Producer producer, bool commit,
                                       const txn::TopicPartition& partition) {
  return kafka_.WriteTxnMarkers(producer, 0, commit, partition);
}

std::int64_t FakeBroker::CommittedOffset(const std::string& group,
                                         const txn::TopicPartition& partition) {
  const auto offset = kafka_.CommittedOffset(group, partition);
  return offset ? offset->offset : -1;
}

txn::TopicPartition FakeBroker::OffsetsPartition(const std::string& group) {
  return kafka_.OffsetsPartition(group);
}

}  // namespace lockstep::contract
