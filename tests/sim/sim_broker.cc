#include "sim_broker.h"

#include <chrono>

#include "oracle.h"

namespace lockstep::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kTopic = "t";
constexpr int kTopicPartitions = 3;

fake_kafka::FakeKafkaOptions KafkaOptions(const ClusterName& name, const SimOptions& options) {
  fake_kafka::FakeKafkaOptions kafka;
  kafka.cluster_id = "id-of-" + name.get();
  kafka.loses_markers = options.loses_markers;
  kafka.kafka_3 = options.kafka_3;
  kafka.transaction_version = options.transaction_version;
  kafka.id_expiration_ms = std::chrono::duration_cast<milliseconds>(options.id_expiration).count();
  return kafka;
}

}  // namespace

bool AsksForPatience(fake_kafka::KafkaError error) {
  using fake_kafka::KafkaError;
  switch (error) {
    case KafkaError::kConcurrentTransactions:
    case KafkaError::kNotEnoughReplicas:
    case KafkaError::kNotLeaderOrFollower:
    case KafkaError::kCoordinatorNotAvailable:
      return true;
    default:
      return false;
  }
}

SimBroker::SimBroker(ClusterName name, const SimOptions& options, Scheduler& scheduler,
                     Random& random, Trace& trace, Oracle& oracle)
    : name_(std::move(name)),
      options_(options),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      oracle_(oracle),
      kafka_(KafkaOptions(name_, options)),
      clock_offset_ms_(1'600'000'000'000 + random.Between(-1'000'000, 1'000'000)) {
  kafka_.CreateTopic(kTopic, kTopicPartitions);
  kafka_.SetGroup("members", 5, {"member"});
  Tick();
}

void SimBroker::Note(const std::string& what, const std::string& how) {
  trace_([&] { return name_.get() + ": " + what + ": " + how; });
}

std::string SimBroker::Show(const fake_kafka::Appended& answer) {
  return Name(answer.error) + " at " + std::to_string(answer.base_offset);
}

std::string SimBroker::Show(const fake_kafka::ProducerAnswer& answer) {
  return Name(answer.error) + " (" + std::to_string(answer.producer.id) + ", " +
         std::to_string(answer.producer.epoch) + ")";
}

std::string SimBroker::Show(const txn::TxnDescription& d) {
  return std::string(Name(d.state)) + " (" + std::to_string(d.producer_id.get()) + ", " +
         std::to_string(d.producer_epoch.get()) + ") since " + std::to_string(d.start_time_ms);
}

Duration SimBroker::VoteDelay() {
  if (calm_ || !random_.Chance(options_.slow_vote)) return {};
  return random_.Between(Duration{}, options_.txn_timeout);
}

Duration SimBroker::Delay() { return random_.Between(microseconds(50), milliseconds(2)); }

void SimBroker::Send(Sender sender, const std::string& what, std::function<void(bool)> carry_out) {
  if (sender == Sender::kReliable) {
    return scheduler_.After(Delay(), [this, carry_out] { Arrive(carry_out); });
  }
  if (!calm_ && random_.Chance(options_.lose_request)) return Note(what, "lost");
  Duration delay = Delay();
  if (!calm_ && random_.Chance(options_.late)) {
    delay = random_.Between(milliseconds(100), seconds(20));
    Note(what, "late");
  }
  const auto arrive = [this, carry_out] { Arrive(carry_out); };
  scheduler_.After(delay, arrive);
  if (sender == Sender::kWire && !calm_ && random_.Chance(options_.duplicate)) {
    scheduler_.After(random_.Between(microseconds(50), seconds(5)), arrive);
  }
}

void SimBroker::Arrive(const std::function<void(bool)>& carry_out) {
  switch (state_) {
    case State::kUp:
      AdvanceClock();
      return carry_out(false);
    case State::kRefusing:
      return carry_out(true);
    case State::kSilent:
      return;
    case State::kPaused:
      held_.push_back([this, carry_out] { Arrive(carry_out); });
      return;
  }
}

std::int64_t SimBroker::ClockMs() const {
  return clock_offset_ms_ + std::chrono::duration_cast<milliseconds>(scheduler_.now()).count();
}

void SimBroker::AdvanceClock() { kafka_.AdvanceTo(ClockMs()); }

void SimBroker::AfterChange() {
  oracle_.OnBrokerStep(*this);
  if (marker_is_due_ || !kafka_.OwesMarkers()) return;
  marker_is_due_ = true;
  // What goes wrong when a transaction ends matters most.
  if (!calm_ && random_.Chance(options_.lose_leader * 5)) LoseLeader(SomePartition());
  scheduler_.After(random_.Between(microseconds(100), milliseconds(30)),
                   [this] { WriteSomeMarker(); });
}

void SimBroker::WriteSomeMarker() {
  marker_is_due_ = false;
  if (state_ != State::kUp) return;  // EndOutage goes on with it.
  AdvanceClock();
  const auto due = kafka_.DueMarkers();
  if (due.empty()) return;
  const fake_kafka::DueMarker& marker = due[random_.Below(due.size())];
  trace_([&] {
    return name_.get() + ": marker of " + marker.transactional_id + " on " +
           ToString(marker.partition);
  });
  kafka_.WriteMarker(marker);
  AfterChange();
}

void SimBroker::Tick() {
  if (state_ == State::kUp) {
    AdvanceClock();
    AfterChange();
  }
  scheduler_.After(milliseconds(500), [this] { Tick(); });
}

void SimBroker::MaybeTrouble() {
  if (calm_ || state_ != State::kUp) return;
  if (random_.Chance(options_.outage)) return StartOutage();
  if (random_.Chance(options_.lose_leader)) LoseLeader(SomePartition());
  if (random_.Chance(options_.foreign)) OpenForeign(SomePartition());
  if (random_.Chance(options_.delete_records)) {
    fake_kafka::PartitionLog& log = *kafka_.Partition(SomePartition());
    log.DeleteBefore(log.last_stable_offset());
  }
}

txn::TopicPartition SimBroker::SomePartition() {
  return {kTopic, static_cast<std::int32_t>(random_.Below(kTopicPartitions))};
}

void SimBroker::LoseLeader(const txn::TopicPartition& partition) {
  trace_([&] { return name_.get() + ": " + ToString(partition) + " has no leader"; });
  kafka_.SetLeader(partition, false);
  const Duration takes = random_.Between(milliseconds(10), options_.longest_without_leader);
  scheduler_.After(takes, [this, partition] {
    kafka_.SetLeader(partition, true);
    AfterChange();
  });
}

/// Another application's transaction: it holds back readers, and is none of our business.
void SimBroker::OpenForeign(const txn::TopicPartition& partition) {
  const std::string id = "foreign-" + std::to_string(++foreign_);
  AdvanceClock();
  const fake_kafka::Producer producer = kafka_.InitProducerId(id, 60'000).producer;
  kafka_.AddPartitionsToTxn(id, producer, {partition});
  kafka_.Produce({id, producer, partition, 0, {Oracle::kForeign}});
  scheduler_.After(random_.Between(milliseconds(1), seconds(5)),
                   [this, id, producer, commit = random_.Chance(0.5)] {
                     kafka_.EndTxn(1, id, producer, commit);
                     AfterChange();
                   });
}

void SimBroker::StartOutage() {
  if (calm_ || state_ != State::kUp) return;
  constexpr State kKinds[] = {State::kRefusing, State::kSilent, State::kPaused};
  constexpr const char* kNames[] = {"refuses connections", "is silent", "is paused"};
  const std::uint64_t kind = random_.Below(3);
  state_ = kKinds[kind];
  trace_([&] { return name_.get() + ": " + kNames[kind]; });
  scheduler_.After(random_.Between(Duration(milliseconds(10)), options_.longest_outage),
                   [this] { EndOutage(); });
}

void SimBroker::EndOutage() {
  if (state_ == State::kUp) return;
  trace_([&] { return name_.get() + ": is back"; });
  const bool was_paused = state_ == State::kPaused;
  state_ = State::kUp;
  AdvanceClock();
  if (!was_paused && random_.Chance(0.5)) kafka_.Restart();
  for (auto& request : std::exchange(held_, {})) {
    scheduler_.After(Delay(), std::move(request));
  }
  AfterChange();
}

void SimBroker::CalmDown() {
  calm_ = true;
  EndOutage();
  for (int i = 0; i < kTopicPartitions; ++i) kafka_.SetLeader({kTopic, i}, true);
  // What people do with Kafka's own tool. Lost COMMIT markers of ours are Lockstep's to find.
  for (const fake_kafka::LostMarker& lost : kafka_.LostMarkers()) {
    if (lost.commit && lost.transactional_id.starts_with("lockstep-")) continue;
    kafka_.WriteTxnMarkers(lost.producer, kafka_.coordinator_epoch(), lost.commit, lost.partition);
  }
  AfterChange();
}

}  // namespace lockstep::sim
