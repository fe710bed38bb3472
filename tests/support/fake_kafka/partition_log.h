#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fake_kafka/kafka_error.h"

namespace lockstep::fake_kafka {

/// A producer id with its epoch, as a request names them.
struct Producer {
  std::int64_t id = -1;
  std::int16_t epoch = -1;
  friend bool operator==(const Producer&, const Producer&) = default;
};

/// One record or one end-of-transaction marker; its offset is its place in the log.
struct LogEntry {
  enum class Kind : std::uint8_t { kRecord, kCommitMarker, kAbortMarker };
  /// What became of the transaction that wrote it.
  enum class Fate : std::uint8_t { kOpen, kCommitted, kAborted };

  Kind kind = Kind::kRecord;
  Producer producer;
  std::string value;
  Fate fate = Fate::kCommitted;  ///< Markers and records outside of transactions: kCommitted.
};

struct Appended {
  KafkaError error = KafkaError::kNone;
  std::int64_t base_offset = -1;
};

/// One partition: its log, the producers' state (ProducerStateManager.java) and the last stable
/// offset. One offset per record and per marker.
class PartitionLog {
 public:
  /// Appends a batch of a producer; a producer id of -1 is a plain, unfenced write. The checks of
  /// ProducerAppendInfo.java: epoch, sequence, and a repeated batch is answered as the first was.
  Appended Append(Producer producer, std::int32_t base_sequence,
                  const std::vector<std::string>& values);
  /// A transactional write of a group or transaction coordinator: the epoch is checked, there are
  /// no sequence numbers.
  Appended AppendFromCoordinator(Producer producer, std::string value);
  /// Ends the producer's open transaction here, if any; the marker is written either way.
  KafkaError AppendMarker(Producer producer, std::int32_t coordinator_epoch, bool commit);

  /// Whether this producer, in this epoch, has a transaction open here.
  bool IsOpen(Producer producer) const;
  /// Records of the producer id's open transaction here.
  std::vector<std::string> OpenValues(std::int64_t producer_id) const;
  std::int64_t high_watermark() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t last_stable_offset() const;
  std::int64_t log_start() const { return log_start_; }
  /// Retention or DeleteRecords: reads below `offset` are OFFSET_OUT_OF_RANGE from now on.
  void DeleteBefore(std::int64_t offset);

  /// The whole log; the index is the offset.
  const std::vector<LogEntry>& entries() const { return entries_; }
  /// Values that a read_committed consumer gets from `offset` on.
  std::vector<std::string> ReadCommitted(std::int64_t offset = 0) const;
  /// Values that a read_uncommitted consumer gets: markers are never shown.
  std::vector<std::string> ReadUncommitted(std::int64_t offset = 0) const;

 private:
  struct Batch {
    std::int32_t base_sequence = 0;
    std::int32_t last_sequence = 0;
    std::int64_t base_offset = 0;
  };
  struct ProducerState {
    std::int16_t epoch = -1;
    std::int32_t coordinator_epoch = -1;
    std::vector<Batch> batches;      // The latest few, for repeated ones.
    std::vector<std::int64_t> open;  // Offsets of the open transaction's records.
  };

  void Push(ProducerState& state, Producer producer, std::string value);

  std::vector<LogEntry> entries_;
  std::map<std::int64_t, ProducerState> producers_;
  std::set<std::int64_t> open_;  // First offset of each open transaction.
  std::int64_t log_start_ = 0;
};

}  // namespace lockstep::fake_kafka
