#include "real_broker.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "wire/messages.h"
#include "wire/protocol/records.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::contract {
namespace {

namespace protocol = wire::protocol;
using lockstep::testing::RawClient;

/// Both number the errors as Kafka does.
KafkaError ToFake(wire::ErrorCode code) { return static_cast<KafkaError>(code); }

/// The first requests after a start find no coordinator yet.
bool NotThereYet(KafkaError error) {
  return error == KafkaError::kCoordinatorLoadInProgress ||
         error == KafkaError::kCoordinatorNotAvailable || error == KafkaError::kNotCoordinator ||
         error == KafkaError::kNotLeaderOrFollower;
}

/// Asks until somebody is there to answer. `ask` returns an answer, `error_of` its error.
template <typename Ask, typename ErrorOf>
auto Patiently(Ask ask, ErrorOf error_of) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    auto answer = ask();
    if (!NotThereYet(error_of(answer)) || std::chrono::steady_clock::now() > give_up) {
      return answer;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

txn::KafkaTxnState ParseState(const std::string& name) {
  using enum txn::KafkaTxnState;
  for (const auto state : {kEmpty, kOngoing, kPrepareCommit, kPrepareAbort, kCompleteCommit,
                           kCompleteAbort, kDead, kPrepareEpochFence}) {
    if (Name(state) == name) return state;
  }
  return kUnknown;
}

lockstep::testing::KafkaClusterOptions OptionsFor(const std::string& kafka,
                                                  int transaction_version) {
  lockstep::testing::KafkaClusterOptions options;
  options.kafka = kafka;
  if (transaction_version > 0 || !kafka.starts_with("3.")) {
    options.transaction_version = transaction_version;
  }
  options.nodes = 2;
  options.coordinators_on = 1;
  // A stopped node 2 must stay the leader that does not answer.
  options.properties = {{"broker.session.timeout.ms", "120000"}};
  options.topics = {"held:4@2", "free:4@1"};
  return options;
}

}  // namespace

RealBroker::RealBroker(const std::string& kafka, int transaction_version)
    : name_(kafka + " TV" + std::to_string(transaction_version)),
      transaction_version_(transaction_version),
      cluster_(OptionsFor(kafka, transaction_version)) {
  const std::string& both = cluster_.bootstrap();
  const std::size_t comma = both.find(',');
  coordinator_ = std::make_unique<RawClient>(both.substr(0, comma));
  other_ = std::make_unique<RawClient>(both.substr(comma + 1));
}

RealBroker::~RealBroker() = default;

void RealBroker::HoldMarkers() { cluster_.Pause(2); }

void RealBroker::ReleaseMarkers() { cluster_.Resume(2); }

bool RealBroker::WaitFor(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TxnBroker::LiveGroup RealBroker::JoinGroup(const std::string& group) {
  consumers_.push_back(
      std::make_unique<lockstep::testing::GroupConsumer>(cluster_.bootstrap(), group, "free"));
  return {consumers_.back()->member_id(), 1};
}

ProducerAnswer RealBroker::InitProducerId(const std::string& id, std::int32_t timeout_ms) {
  protocol::InitProducerId request;
  request.transactional_id = id;
  request.timeout_ms = timeout_ms;
  const auto answer = Patiently([&] { return coordinator_->Ask(request); },
                                [](const auto& a) { return ToFake(a.error); });
  return {ToFake(answer.error), {answer.producer_id, answer.producer_epoch}};
}

KafkaError RealBroker::AddPartitionsToTxn(const std::string& id, Producer producer,
                                          const txn::TopicPartition& partition) {
  lockstep::testing::AddPartitionsToTxn request;
  request.transactional_id = id;
  request.producer_id = producer.id;
  request.producer_epoch = producer.epoch;
  request.topics = {{partition.topic, {partition.partition}}};
  return Patiently([&] { return ToFake(coordinator_->Ask(request, 0).partitions.at(0).error); },
                   [](KafkaError error) { return error; });
}

Appended RealBroker::Produce(const ProduceRequest& request) {
  lockstep::testing::RecordBatch batch;
  batch.producer_id = request.producer.id;
  batch.producer_epoch = request.producer.epoch;
  batch.base_sequence = request.base_sequence;
  batch.values = request.values;
  lockstep::testing::Produce message;
  message.transactional_id = request.transactional_id;
  message.topic = request.partition.topic;
  message.partition = request.partition.partition;
  message.records = EncodeRecordBatch(batch);
  const std::int16_t version = request.implicit_add ? 12 : 9;
  const auto answer = Patiently([&] { return LeaderOf(request.partition).Ask(message, version); },
                                [](const auto& a) { return ToFake(a.error); });
  return {ToFake(answer.error), answer.base_offset};
}

KafkaError RealBroker::AddOffsetsToTxn(const std::string& id, Producer producer,
                                       const std::string& group) {
  lockstep::testing::AddOffsetsToTxn request;
  request.transactional_id = id;
  request.producer_id = producer.id;
  request.producer_epoch = producer.epoch;
  request.group_id = group;
  return Patiently([&] { return ToFake(coordinator_->Ask(request, 0).error); },
                   [](KafkaError error) { return error; });
}

KafkaError RealBroker::TxnOffsetCommit(const TxnOffsetCommitRequest& request) {
  lockstep::testing::TxnOffsetCommit message;
  message.transactional_id = request.transactional_id;
  message.group_id = request.group.group_id;
  message.producer_id = request.producer.id;
  message.producer_epoch = request.producer.epoch;
  message.generation = request.group.generation;
  message.member_id = request.group.member_id;
  message.group_instance_id = request.group.group_instance_id;
  const txn::OffsetToCommit& offset = request.group.offsets.at(0);
  message.topic = offset.partition.topic;
  message.partition = offset.partition.partition;
  message.offset = offset.offset;
  return Patiently([&] { return ToFake(coordinator_->Ask(message, 3).error); },
                   [](KafkaError error) { return error; });
}

ProducerAnswer RealBroker::EndTxn(int version, const std::string& id, Producer producer,
                                  bool commit) {
  if (version >= 5 && transaction_version_ < 2) {
    throw std::logic_error("EndTxn v5 would wedge the id on this broker");
  }
  protocol::EndTxn request;
  request.transactional_id = id;
  request.producer_id = producer.id;
  request.producer_epoch = producer.epoch;
  request.commit = commit;
  const auto answer =
      Patiently([&] { return coordinator_->Ask(request, static_cast<std::int16_t>(version)); },
                [](const auto& a) { return ToFake(a.error); });
  return {ToFake(answer.error), {answer.producer_id, answer.producer_epoch}};
}

txn::TxnDescription RealBroker::Describe(const std::string& id) {
  protocol::DescribeTransactions request;
  request.transactional_id = id;
  const auto answer = Patiently([&] { return coordinator_->Ask(request); },
                                [](const auto& a) { return ToFake(a.error); });
  if (ToFake(answer.error) == KafkaError::kTransactionalIdNotFound) return {};
  if (ToFake(answer.error) != KafkaError::kNone) {
    throw std::runtime_error("DescribeTransactions: " + Name(ToFake(answer.error)));
  }
  txn::TxnDescription description{.exists = true,
                                  .state = ParseState(answer.state),
                                  .producer_id = ProducerId(answer.producer_id),
                                  .producer_epoch = ProducerEpoch(answer.producer_epoch),
                                  .start_time_ms = answer.start_time_ms,
                                  .timeout_ms = answer.timeout_ms};
  for (const auto& topic : answer.topics) {
    for (const std::int32_t partition : topic.partitions) {
      description.partitions.push_back({topic.topic, partition});
    }
  }
  std::sort(description.partitions.begin(), description.partitions.end());
  return description;
}

std::vector<ListedTransaction> RealBroker::List() {
  std::vector<ListedTransaction> all;
  for (const auto& t : coordinator_->Ask(protocol::ListTransactions{}).transactions) {
    all.push_back({t.transactional_id, t.producer_id, ParseState(t.state)});
  }
  return all;
}

RawClient& RealBroker::LeaderOf(const txn::TopicPartition& partition) {
  return partition.topic == "held" ? *other_ : *coordinator_;
}

std::int64_t RealBroker::LatestOffset(const txn::TopicPartition& partition, bool read_committed) {
  protocol::ListOffsets request;
  request.isolation = read_committed ? 1 : 0;
  request.topics = {{partition.topic, {partition.partition}}};
  return LeaderOf(partition).Ask(request).partitions.at(0).offset;
}

std::int64_t RealBroker::HighWatermark(const txn::TopicPartition& partition) {
  return LatestOffset(partition, false);
}

std::int64_t RealBroker::LastStableOffset(const txn::TopicPartition& partition) {
  return LatestOffset(partition, true);
}

txn::MarkerFound RealBroker::FindMarker(const txn::TopicPartition& partition,
                                        std::int64_t producer_id, std::int64_t offset) {
  const std::int64_t end = HighWatermark(partition);
  while (offset < end) {
    protocol::Fetch request;
    request.topic = partition.topic;
    request.partition = partition.partition;
    request.offset = offset;
    request.max_bytes = 1 << 20;
    const auto answer = LeaderOf(partition).Ask(request);
    const auto scanned = protocol::ScanRecords(answer.records);
    if (!scanned.ok()) throw std::runtime_error(scanned.error().message);
    for (const protocol::Marker& marker : scanned->markers) {
      if (marker.producer_id != producer_id || marker.offset < offset) continue;
      return marker.commit ? txn::MarkerFound::kCommit : txn::MarkerFound::kAbort;
    }
    if (scanned->next_offset <= offset) break;
    offset = scanned->next_offset;
  }
  return txn::MarkerFound::kNone;
}

KafkaError RealBroker::WriteTxnMarkers(Producer producer, bool commit,
                                       const txn::TopicPartition& partition) {
  protocol::WriteTxnMarkers request;
  request.producer_id = producer.id;
  request.producer_epoch = producer.epoch;
  request.commit = commit;
  request.topics = {{partition.topic, {partition.partition}}};
  return ToFake(LeaderOf(partition).Ask(request).partitions.at(0).error);
}

std::int64_t RealBroker::CommittedOffset(const std::string& group,
                                         const txn::TopicPartition& partition) {
  return lockstep::testing::CommittedOffset(cluster_.bootstrap(), group, partition,
                                            lockstep::testing::Pending::kIgnored);
}

txn::TopicPartition RealBroker::OffsetsPartition(const std::string& group) {
  return fake_kafka::FakeKafka().OffsetsPartition(group);
}

}  // namespace lockstep::contract
