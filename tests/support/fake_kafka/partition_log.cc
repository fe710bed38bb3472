#include "fake_kafka/partition_log.h"

#include <algorithm>
#include <limits>

namespace lockstep::fake_kafka {
namespace {

/// Batches that a broker remembers per producer to recognise a repeated one.
constexpr std::size_t kRememberedBatches = 5;

}  // namespace

std::string Name(KafkaError error) {
  switch (error) {
#define LOCKSTEP_X(constant, code, name) \
  case KafkaError::constant:             \
    return name;
    LOCKSTEP_FAKE_KAFKA_ERRORS(LOCKSTEP_X)
#undef LOCKSTEP_X
  }
  return "error " + std::to_string(static_cast<int>(error));
}

Appended PartitionLog::Append(Producer producer, std::int32_t base_sequence,
                              const std::vector<std::string>& values) {
  const std::int64_t base_offset = high_watermark();
  if (producer.id < 0) {
    for (const std::string& value : values) entries_.push_back(LogEntry{.value = value});
    return {KafkaError::kNone, base_offset};
  }
  ProducerState& state = producers_[producer.id];
  if (producer.epoch < state.epoch) return {KafkaError::kInvalidProducerEpoch, -1};
  const auto last_sequence = base_sequence + static_cast<std::int32_t>(values.size()) - 1;
  if (producer.epoch == state.epoch) {
    for (const Batch& batch : state.batches) {
      if (batch.base_sequence == base_sequence && batch.last_sequence == last_sequence) {
        return {KafkaError::kNone, batch.base_offset};
      }
    }
    // A producer of which only markers are known may start anywhere, as an unknown one may.
    if (!state.batches.empty() && state.batches.back().last_sequence + 1 != base_sequence) {
      return {KafkaError::kOutOfOrderSequenceNumber, -1};
    }
  } else {
    if (state.epoch >= 0 && base_sequence != 0) return {KafkaError::kOutOfOrderSequenceNumber, -1};
    state.epoch = producer.epoch;
    state.batches.clear();
  }
  for (const std::string& value : values) Push(state, producer, value);
  state.batches.push_back(Batch{base_sequence, last_sequence, base_offset});
  if (state.batches.size() > kRememberedBatches) state.batches.erase(state.batches.begin());
  return {KafkaError::kNone, base_offset};
}

Appended PartitionLog::AppendFromCoordinator(Producer producer, std::string value) {
  ProducerState& state = producers_[producer.id];
  if (producer.epoch < state.epoch) return {KafkaError::kInvalidProducerEpoch, -1};
  if (producer.epoch > state.epoch) state.batches.clear();
  state.epoch = producer.epoch;
  const std::int64_t offset = high_watermark();
  Push(state, producer, std::move(value));
  return {KafkaError::kNone, offset};
}

void PartitionLog::Push(ProducerState& state, Producer producer, std::string value) {
  if (state.open.empty()) open_.insert(high_watermark());
  state.open.push_back(high_watermark());
  entries_.push_back(
      LogEntry{LogEntry::Kind::kRecord, producer, std::move(value), LogEntry::Fate::kOpen});
}

KafkaError PartitionLog::AppendMarker(Producer producer, std::int32_t coordinator_epoch,
                                      bool commit) {
  ProducerState& state = producers_[producer.id];
  if (producer.epoch < state.epoch) return KafkaError::kInvalidProducerEpoch;
  if (coordinator_epoch < state.coordinator_epoch) {
    return KafkaError::kTransactionCoordinatorFenced;
  }
  if (producer.epoch > state.epoch) state.batches.clear();
  state.epoch = producer.epoch;
  state.coordinator_epoch = coordinator_epoch;
  for (const std::int64_t offset : state.open) {
    entries_[static_cast<std::size_t>(offset)].fate =
        commit ? LogEntry::Fate::kCommitted : LogEntry::Fate::kAborted;
  }
  if (!state.open.empty()) open_.erase(state.open.front());
  state.open.clear();
  entries_.push_back(LogEntry{commit ? LogEntry::Kind::kCommitMarker : LogEntry::Kind::kAbortMarker,
                              producer, ""});
  return KafkaError::kNone;
}

bool PartitionLog::IsOpen(Producer producer) const {
  const auto it = producers_.find(producer.id);
  return it != producers_.end() && it->second.epoch == producer.epoch && !it->second.open.empty();
}

std::vector<std::string> PartitionLog::OpenValues(std::int64_t producer_id) const {
  std::vector<std::string> values;
  const auto it = producers_.find(producer_id);
  if (it == producers_.end()) return values;
  for (const std::int64_t offset : it->second.open) {
    values.push_back(entries_[static_cast<std::size_t>(offset)].value);
  }
  return values;
}

std::int64_t PartitionLog::last_stable_offset() const {
  return open_.empty() ? high_watermark() : *open_.begin();
}

void PartitionLog::DeleteBefore(std::int64_t offset) {
  log_start_ = std::clamp(offset, log_start_, last_stable_offset());
}

std::vector<std::string> PartitionLog::ReadCommitted(std::int64_t offset) const {
  std::vector<std::string> values;
  const std::int64_t end = last_stable_offset();
  for (std::int64_t i = std::max(offset, log_start_); i < end; ++i) {
    const LogEntry& entry = entries_[static_cast<std::size_t>(i)];
    if (entry.kind == LogEntry::Kind::kRecord && entry.fate == LogEntry::Fate::kCommitted) {
      values.push_back(entry.value);
    }
  }
  return values;
}

std::vector<std::string> PartitionLog::ReadUncommitted(std::int64_t offset) const {
  std::vector<std::string> values;
  for (std::int64_t i = std::max(offset, log_start_); i < high_watermark(); ++i) {
    const LogEntry& entry = entries_[static_cast<std::size_t>(i)];
    if (entry.kind == LogEntry::Kind::kRecord) values.push_back(entry.value);
  }
  return values;
}

}  // namespace lockstep::fake_kafka
