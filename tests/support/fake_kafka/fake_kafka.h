#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fake_kafka/kafka_error.h"
#include "fake_kafka/partition_log.h"
#include "txn/resolve.h"
#include "txn/types.h"

/// A model of what one Kafka cluster means, not of how it works: its transaction coordinator, its
/// partitions and its group offsets. No sockets, no threads, no clock: each call is a request that
/// the cluster processes at once and answers. Delay, loss, duplicates and reordering are the
/// caller's to add.
///
/// tests/contract holds it to what real brokers do; where it differs on purpose, it says so here.
namespace lockstep::fake_kafka {

struct FakeKafkaOptions {
  std::string cluster_id = "fake-cluster";
  std::int16_t transaction_version = 2;  ///< The finalized feature: 0, 1 or 2.
  /// KAFKA-20734 (4.3, 4.4): a marker whose partition has no leader is left out for good, and the
  /// coordinator says Complete. Otherwise it waits for the leader.
  bool loses_markers = false;
  /// Before 4.0 the last transaction's start time was shown after InitProducerId, until a restart,
  /// and a generation of an unknown group was an UNKNOWN_MEMBER_ID.
  bool kafka_3 = false;
  std::int32_t max_timeout_ms = 900'000;                   ///< transaction.max.timeout.ms
  std::int64_t timeout_scan_ms = 10'000;                   ///< How often time-outs are looked for.
  std::int64_t id_expiration_ms = 7LL * 24 * 3600 * 1000;  ///< transactional.id.expiration.ms
  int offsets_partitions = 4;                              ///< Of __consumer_offsets.
};

/// InitProducerId's and EndTxn's answer. The producer is meaningful with NONE only, and for EndTxn
/// from version 5 on only.
struct ProducerAnswer {
  KafkaError error = KafkaError::kNone;
  Producer producer;
};

struct ListedTransaction {
  std::string transactional_id;
  std::int64_t producer_id = -1;
  txn::KafkaTxnState state = txn::KafkaTxnState::kEmpty;
};

struct ProduceRequest {
  std::string transactional_id;
  Producer producer;
  txn::TopicPartition partition;
  std::int32_t base_sequence = 0;
  std::vector<std::string> values;
  bool implicit_add = false;  ///< Produce v12 and later on a TV2 cluster: no AddPartitionsToTxn.
};

struct TxnOffsetCommitRequest {
  std::string transactional_id;
  Producer producer;
  txn::GroupOffsets group;
};

/// A marker that the coordinator owes to a partition.
struct DueMarker {
  std::string transactional_id;
  txn::TopicPartition partition;
};

/// A marker that was left out for good (KAFKA-20734).
struct LostMarker {
  std::string transactional_id;
  Producer producer;
  txn::TopicPartition partition;
  bool commit = false;
};

/// What the coordinator decided about one transaction: for those who check on it.
struct EndedTransaction {
  enum class Cause : std::uint8_t { kEndTxn, kInitProducerId, kTimeout };
  Cause cause = Cause::kEndTxn;
  std::string transactional_id;
  Producer producer;  ///< As the transaction had it, before any bump.
  bool commit = false;
  std::int64_t start_time_ms = -1;
  /// The records it covers at the moment of the decision.
  std::map<txn::TopicPartition, std::vector<std::string>> values;
};

class FakeKafka {
 public:
  explicit FakeKafka(FakeKafkaOptions options = {});

  // ---- Time and weather ------------------------------------------------------------------------

  /// The broker's clock. Runs the time-out and expiration scans that fall due. Never steps back.
  void AdvanceTo(std::int64_t now_ms);
  std::int64_t now_ms() const { return now_ms_; }
  const std::string& cluster_id() const { return options_.cluster_id; }
  std::int32_t coordinator_epoch() const { return coordinator_epoch_; }

  void CreateTopic(const std::string& topic, int partitions);
  /// Without a leader a partition takes no records and no markers.
  void SetLeader(const txn::TopicPartition& partition, bool has_leader);
  /// Every broker was stopped and started: wedged ids and their like are well again.
  void Restart();
  /// Comes back empty, as another cluster at the same address.
  void Wipe(std::string cluster_id);
  /// The group has these members in this generation; other members and generations are fenced.
  void SetGroup(const std::string& group, std::int32_t generation, std::set<std::string> members);

  // ---- Markers: written only when told to
  // --------------------------------------------------------

  bool OwesMarkers() const { return !preparing_.empty(); }
  /// Those that could be written now, oldest transaction first.
  std::vector<DueMarker> DueMarkers() const;
  /// Writes one, or loses it; the last one of a transaction completes it.
  void WriteMarker(const DueMarker& marker);
  void WriteDueMarkers();

  const std::vector<LostMarker>& LostMarkers() const { return lost_; }

  // ---- Requests of producers
  // ---------------------------------------------------------------------

  ProducerAnswer InitProducerId(const std::string& transactional_id, std::int32_t timeout_ms,
                                std::optional<Producer> expected = std::nullopt);
  /// `version` of the request: it only picks the word for "fenced".
  KafkaError AddPartitionsToTxn(const std::string& transactional_id, Producer producer,
                                const std::vector<txn::TopicPartition>& partitions,
                                int version = 0);
  KafkaError AddOffsetsToTxn(const std::string& transactional_id, Producer producer,
                             const std::string& group, int version = 0);
  Appended Produce(const ProduceRequest& request);
  KafkaError TxnOffsetCommit(const TxnOffsetCommitRequest& request);
  ProducerAnswer EndTxn(int version, const std::string& transactional_id, Producer producer,
                        bool commit);

  // ---- Requests of anybody
  // -----------------------------------------------------------------------

  /// `exists` is false for TRANSACTIONAL_ID_NOT_FOUND.
  txn::TxnDescription DescribeTransaction(const std::string& transactional_id) const;
  std::vector<ListedTransaction> ListTransactions() const;
  KafkaError WriteTxnMarkers(Producer producer, std::int32_t coordinator_epoch, bool commit,
                             const txn::TopicPartition& partition);
  /// The first marker of the producer id at or after `offset`.
  txn::MarkerFound FindMarker(const txn::TopicPartition& partition, std::int64_t producer_id,
                              std::int64_t offset) const;
  /// The partition of __consumer_offsets where the group's offsets are.
  txn::TopicPartition OffsetsPartition(const std::string& group) const;
  /// Committed offsets only. None: the group has none for it.
  std::optional<txn::OffsetToCommit> CommittedOffset(const std::string& group,
                                                     const txn::TopicPartition& partition) const;

  /// They are never moved.
  const std::map<txn::TopicPartition, PartitionLog>& partitions() const { return partitions_; }
  /// Nullptr: no such partition.
  const PartitionLog* Partition(const txn::TopicPartition& partition) const;
  PartitionLog* Partition(const txn::TopicPartition& partition);
  /// What was decided since the last call, in order.
  std::vector<EndedTransaction> TakeEnded();
  /// For tests near the roll-over: continues the id's epochs from here (it must not be Ongoing).
  void ForceEpoch(const std::string& transactional_id, std::int16_t epoch);

 private:
  struct Transaction {
    Producer producer;
    std::int64_t previous_producer_id = -1;
    std::int64_t next_producer_id = -1;  // After an epoch roll-over, until Complete.
    std::int16_t last_epoch = -1;
    std::int32_t timeout_ms = 0;
    std::int64_t start_ms = -1;
    std::int64_t updated_ms = 0;
    txn::KafkaTxnState state = txn::KafkaTxnState::kEmpty;
    std::set<txn::TopicPartition> partitions;
    bool wedged = false;  // A v5 EndTxn on a cluster below TV2: stuck until Restart.
  };
  struct PendingOffsets {
    std::string group;
    txn::OffsetToCommit offset;
  };
  struct Group {
    bool managed = false;
    std::int32_t generation = -1;
    std::set<std::string> members;
    std::map<txn::TopicPartition, txn::OffsetToCommit> committed;
  };

  Transaction* Find(const std::string& transactional_id);
  std::int64_t NewProducerId() { return next_producer_id_++; }
  void FenceOngoing(const std::string& id, Transaction& t, EndedTransaction::Cause cause);
  KafkaError BumpEpoch(Transaction& t, std::optional<Producer> expected);
  ProducerAnswer EndTxnV4(const std::string& id, Transaction& t, Producer producer, bool commit);
  ProducerAnswer EndTxnV5(const std::string& id, Transaction& t, Producer producer, bool commit);
  ProducerAnswer AnswerComplete(const std::string& id, Transaction& t, bool commit, bool is_retry);
  ProducerAnswer EndWithBump(const std::string& id, Transaction& t, bool commit);
  void Prepare(const std::string& id, Transaction& t, bool commit, Producer was,
               EndedTransaction::Cause cause = EndedTransaction::Cause::kEndTxn);
  void CompleteIfMarked(const std::string& id, Transaction& t);
  KafkaError ApplyMarker(Producer producer, std::int32_t coordinator_epoch, bool commit,
                         const txn::TopicPartition& partition);
  KafkaError VerifyPartition(const std::string& id, Producer producer,
                             const txn::TopicPartition& partition);
  KafkaError ValidateGroup(const txn::GroupOffsets& offsets) const;
  void ScanTimeouts();
  void ExpireIds();

  FakeKafkaOptions options_;
  std::int64_t now_ms_ = 1'000'000;
  std::int64_t next_scan_ms_ = 0;
  std::int64_t next_producer_id_ = 0;
  std::int32_t coordinator_epoch_ = 0;
  std::map<std::string, Transaction> transactions_;
  std::vector<std::string> preparing_;  // Ids that owe markers, oldest first.
  std::map<txn::TopicPartition, PartitionLog> partitions_;
  std::set<txn::TopicPartition> leaderless_;
  std::map<std::string, Group> groups_;
  std::map<std::int64_t, std::vector<PendingOffsets>> pending_offsets_;  // By producer id.
  std::vector<EndedTransaction> ended_;
  std::vector<LostMarker> lost_;
};

}  // namespace lockstep::fake_kafka
