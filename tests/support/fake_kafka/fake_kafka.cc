#include "fake_kafka/fake_kafka.h"

#include <algorithm>
#include <utility>

namespace lockstep::fake_kafka {
namespace {

using txn::KafkaTxnState;

constexpr const char* kOffsetsTopic = "__consumer_offsets";

/// Utils.abs(String.hashCode()): which partition of __consumer_offsets a group has.
std::int32_t JavaHash(const std::string& text) {
  std::uint32_t hash = 0;
  for (const char c : text) hash = hash * 31U + static_cast<unsigned char>(c);
  return static_cast<std::int32_t>(hash & 0x7fffffffU);
}

std::string OffsetRecord(const std::string& group, const txn::OffsetToCommit& offset) {
  return "offset " + group + " " + txn::ToString(offset.partition) + " " +
         std::to_string(offset.offset) + " " + offset.metadata;
}

}  // namespace

FakeKafka::FakeKafka(FakeKafkaOptions options) : options_(std::move(options)) {
  CreateTopic(kOffsetsTopic, options_.offsets_partitions);
}

void FakeKafka::AdvanceTo(std::int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  if (now_ms_ < next_scan_ms_) return;
  next_scan_ms_ = now_ms_ + options_.timeout_scan_ms;
  ScanTimeouts();
  ExpireIds();
}

void FakeKafka::CreateTopic(const std::string& topic, int partitions) {
  for (int i = 0; i < partitions; ++i) partitions_.try_emplace(txn::TopicPartition{topic, i});
}

void FakeKafka::SetLeader(const txn::TopicPartition& partition, bool has_leader) {
  if (has_leader) {
    leaderless_.erase(partition);
  } else {
    leaderless_.insert(partition);
  }
}

void FakeKafka::Restart() {
  ++coordinator_epoch_;
  for (auto& [id, t] : transactions_) {
    t.wedged = false;
    // InitProducerId stores no start time, even where it leaves the old one in memory.
    if (t.state == KafkaTxnState::kEmpty) t.start_ms = -1;
  }
}

void FakeKafka::Wipe(std::string cluster_id) {
  const std::int64_t now = now_ms_;
  options_.cluster_id = std::move(cluster_id);
  *this = FakeKafka(options_);
  now_ms_ = now;
}

void FakeKafka::SetGroup(const std::string& group, std::int32_t generation,
                         std::set<std::string> members) {
  Group& g = groups_[group];
  g.managed = true;
  g.generation = generation;
  g.members = std::move(members);
}

Appended FakeKafka::Produce(const ProduceRequest& request) {
  PartitionLog* log = Partition(request.partition);
  if (log == nullptr) return {KafkaError::kUnknownTopicOrPartition, -1};
  if (leaderless_.contains(request.partition)) return {KafkaError::kNotLeaderOrFollower, -1};
  if (!request.transactional_id.empty() && !log->IsOpen(request.producer)) {
    if (request.implicit_add) {
      const KafkaError added =
          AddPartitionsToTxn(request.transactional_id, request.producer, {request.partition}, 5);
      if (added != KafkaError::kNone) return {added, -1};
    }
    const KafkaError verified =
        VerifyPartition(request.transactional_id, request.producer, request.partition);
    if (verified != KafkaError::kNone) return {verified, -1};
  }
  return log->Append(request.producer, request.base_sequence, request.values);
}

/// KIP-890, since 3.6: before its first record a partition's leader asks the coordinator whether
/// the transaction is really open there.
KafkaError FakeKafka::VerifyPartition(const std::string& id, Producer producer,
                                      const txn::TopicPartition& partition) {
  const Transaction* t = Find(id);
  if (t == nullptr || t->producer.id != producer.id) return KafkaError::kInvalidProducerIdMapping;
  if (t->producer.epoch != producer.epoch) return KafkaError::kInvalidProducerEpoch;
  if (t->state == KafkaTxnState::kPrepareCommit || t->state == KafkaTxnState::kPrepareAbort) {
    return KafkaError::kNotEnoughReplicas;  // Retriable, for clients that do not know a better
                                            // word.
  }
  return t->partitions.contains(partition) ? KafkaError::kNone : KafkaError::kInvalidTxnState;
}

KafkaError FakeKafka::TxnOffsetCommit(const TxnOffsetCommitRequest& request) {
  const txn::TopicPartition partition = OffsetsPartition(request.group.group_id);
  if (leaderless_.contains(partition)) return KafkaError::kCoordinatorNotAvailable;
  PartitionLog& log = *Partition(partition);
  if (!log.IsOpen(request.producer)) {
    const KafkaError verified =
        VerifyPartition(request.transactional_id, request.producer, partition);
    if (verified != KafkaError::kNone) return verified;
  }
  const KafkaError valid = ValidateGroup(request.group);
  if (valid != KafkaError::kNone) return valid;
  groups_.try_emplace(request.group.group_id);
  for (const txn::OffsetToCommit& offset : request.group.offsets) {
    const Appended appended =
        log.AppendFromCoordinator(request.producer, OffsetRecord(request.group.group_id, offset));
    if (appended.error != KafkaError::kNone) return appended.error;
    pending_offsets_[request.producer.id].push_back({request.group.group_id, offset});
  }
  return KafkaError::kNone;
}

/// OffsetMetadataManager.validateTransactionalOffsetCommit: nothing is checked unless something is
/// said.
KafkaError FakeKafka::ValidateGroup(const txn::GroupOffsets& offsets) const {
  const auto it = groups_.find(offsets.group_id);
  if (it == groups_.end() || !it->second.managed) {
    if (offsets.generation < 0) return KafkaError::kNone;
    return options_.kafka_3 ? KafkaError::kUnknownMemberId : KafkaError::kIllegalGeneration;
  }
  const bool says_nothing =
      offsets.generation < 0 && offsets.member_id.empty() && !offsets.group_instance_id.has_value();
  if (says_nothing) return KafkaError::kNone;
  if (!it->second.members.contains(offsets.member_id)) return KafkaError::kUnknownMemberId;
  return offsets.generation == it->second.generation ? KafkaError::kNone
                                                     : KafkaError::kIllegalGeneration;
}

KafkaError FakeKafka::WriteTxnMarkers(Producer producer, std::int32_t coordinator_epoch,
                                      bool commit, const txn::TopicPartition& partition) {
  if (!partitions_.contains(partition)) return KafkaError::kUnknownTopicOrPartition;
  if (leaderless_.contains(partition)) return KafkaError::kNotLeaderOrFollower;
  return ApplyMarker(producer, coordinator_epoch, commit, partition);
}

KafkaError FakeKafka::ApplyMarker(Producer producer, std::int32_t coordinator_epoch, bool commit,
                                  const txn::TopicPartition& partition) {
  const KafkaError error = Partition(partition)->AppendMarker(producer, coordinator_epoch, commit);
  if (error != KafkaError::kNone || partition.topic != kOffsetsTopic) return error;
  std::vector<PendingOffsets>& pending = pending_offsets_[producer.id];
  std::erase_if(pending, [&](const PendingOffsets& entry) {
    if (OffsetsPartition(entry.group) != partition) return false;
    if (commit) groups_[entry.group].committed[entry.offset.partition] = entry.offset;
    return true;
  });
  return error;
}

txn::MarkerFound FakeKafka::FindMarker(const txn::TopicPartition& partition,
                                       std::int64_t producer_id, std::int64_t offset) const {
  const PartitionLog* log = Partition(partition);
  if (log == nullptr || offset < log->log_start()) return txn::MarkerFound::kNone;
  for (std::int64_t i = offset; i < log->high_watermark(); ++i) {
    const LogEntry& entry = log->entries()[static_cast<std::size_t>(i)];
    if (entry.producer.id != producer_id) continue;
    if (entry.kind == LogEntry::Kind::kCommitMarker) return txn::MarkerFound::kCommit;
    if (entry.kind == LogEntry::Kind::kAbortMarker) return txn::MarkerFound::kAbort;
  }
  return txn::MarkerFound::kNone;
}

txn::TopicPartition FakeKafka::OffsetsPartition(const std::string& group) const {
  return {kOffsetsTopic, JavaHash(group) % options_.offsets_partitions};
}

std::optional<txn::OffsetToCommit> FakeKafka::CommittedOffset(
    const std::string& group, const txn::TopicPartition& partition) const {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return std::nullopt;
  const auto found = it->second.committed.find(partition);
  if (found == it->second.committed.end()) return std::nullopt;
  return found->second;
}

const PartitionLog* FakeKafka::Partition(const txn::TopicPartition& partition) const {
  const auto it = partitions_.find(partition);
  return it == partitions_.end() ? nullptr : &it->second;
}

PartitionLog* FakeKafka::Partition(const txn::TopicPartition& partition) {
  const auto it = partitions_.find(partition);
  return it == partitions_.end() ? nullptr : &it->second;
}

std::vector<EndedTransaction> FakeKafka::TakeEnded() { return std::exchange(ended_, {}); }

}  // namespace lockstep::fake_kafka
