// The transaction coordinator: TransactionCoordinator.scala and TransactionMetadata as of 4.x,
// which for version 0 to 4 requests is what 3.9 does too.

#include <algorithm>
#include <limits>
#include <utility>

#include "fake_kafka/fake_kafka.h"

namespace lockstep::fake_kafka {
namespace {

using txn::KafkaTxnState;

/// The last epoch that a client may have: one more is kept to fence it with.
constexpr std::int16_t kLastEpoch = std::numeric_limits<std::int16_t>::max() - 1;

bool IsComplete(KafkaTxnState state) {
  return state == KafkaTxnState::kCompleteCommit || state == KafkaTxnState::kCompleteAbort;
}

bool IsPrepare(KafkaTxnState state) {
  return state == KafkaTxnState::kPrepareCommit || state == KafkaTxnState::kPrepareAbort;
}

/// The state's own direction.
bool IsCommit(KafkaTxnState state) {
  return state == KafkaTxnState::kPrepareCommit || state == KafkaTxnState::kCompleteCommit;
}

std::int16_t Next(std::int16_t epoch) { return static_cast<std::int16_t>(epoch + 1); }

/// KafkaApis.scala: requests before version 2 do not know PRODUCER_FENCED.
KafkaError Fenced(int version) {
  return version < 2 ? KafkaError::kInvalidProducerEpoch : KafkaError::kProducerFenced;
}

ProducerAnswer Refuse(KafkaError error) { return {error, Producer{}}; }

}  // namespace

FakeKafka::Transaction* FakeKafka::Find(const std::string& transactional_id) {
  const auto it = transactions_.find(transactional_id);
  return it == transactions_.end() ? nullptr : &it->second;
}

ProducerAnswer FakeKafka::InitProducerId(const std::string& transactional_id,
                                         std::int32_t timeout_ms,
                                         std::optional<Producer> expected) {
  if (transactional_id.empty()) return Refuse(KafkaError::kInvalidRequest);
  if (timeout_ms <= 0 || timeout_ms > options_.max_timeout_ms) {
    return Refuse(KafkaError::kInvalidTransactionTimeout);
  }
  auto [it, is_new] = transactions_.try_emplace(transactional_id);
  Transaction& t = it->second;
  if (is_new) t.producer.id = NewProducerId();
  if (t.wedged || IsPrepare(t.state)) return Refuse(KafkaError::kConcurrentTransactions);
  if (expected && t.producer.epoch >= 0 && expected->id != t.producer.id &&
      !(expected->id == t.previous_producer_id && expected->epoch >= kLastEpoch)) {
    return Refuse(KafkaError::kProducerFenced);
  }
  if (t.state == KafkaTxnState::kOngoing) {
    FenceOngoing(transactional_id, t, EndedTransaction::Cause::kInitProducerId);
    return Refuse(KafkaError::kConcurrentTransactions);
  }
  const KafkaError error = BumpEpoch(t, expected);
  if (error != KafkaError::kNone) return Refuse(error);
  t.timeout_ms = timeout_ms;
  t.state = KafkaTxnState::kEmpty;
  if (!options_.kafka_3) t.start_ms = -1;
  t.updated_ms = now_ms_;
  return {KafkaError::kNone, t.producer};
}

KafkaError FakeKafka::BumpEpoch(Transaction& t, std::optional<Producer> expected) {
  const bool exhausted = t.producer.epoch >= kLastEpoch;
  if (exhausted && (!expected || expected->epoch == t.producer.epoch)) {
    t.previous_producer_id = t.producer.id;
    t.last_epoch = expected ? t.producer.epoch : std::int16_t{-1};
    t.producer = Producer{NewProducerId(), 0};
    return KafkaError::kNone;
  }
  if (!expected) {
    t.last_epoch = -1;
  } else if (t.producer.epoch < 0 || expected->epoch == t.producer.epoch) {
    t.last_epoch = t.producer.epoch;
  } else if (expected->epoch == t.last_epoch) {
    return KafkaError::kNone;  // A retry of one that succeeded.
  } else {
    return KafkaError::kProducerFenced;
  }
  t.producer.epoch = Next(t.producer.epoch);
  return KafkaError::kNone;
}

/// A time-out, or an InitProducerId that found it open. The bumped epoch is given to nobody.
void FakeKafka::FenceOngoing(const std::string& id, Transaction& t, EndedTransaction::Cause cause) {
  const Producer was = t.producer;
  t.producer.epoch = Next(t.producer.epoch);
  t.last_epoch = -1;
  Prepare(id, t, false, was, cause);
}

KafkaError FakeKafka::AddPartitionsToTxn(const std::string& transactional_id, Producer producer,
                                         const std::vector<txn::TopicPartition>& partitions,
                                         int version) {
  for (const txn::TopicPartition& partition : partitions) {
    if (!partitions_.contains(partition)) return KafkaError::kUnknownTopicOrPartition;
  }
  Transaction* t = Find(transactional_id);
  if (t == nullptr || t->producer.id != producer.id) return KafkaError::kInvalidProducerIdMapping;
  if (t->producer.epoch != producer.epoch) return Fenced(version);
  if (t->wedged || IsPrepare(t->state)) return KafkaError::kConcurrentTransactions;
  if (t->state != KafkaTxnState::kOngoing) t->start_ms = now_ms_;
  t->state = KafkaTxnState::kOngoing;
  t->partitions.insert(partitions.begin(), partitions.end());
  t->updated_ms = now_ms_;
  return KafkaError::kNone;
}

KafkaError FakeKafka::AddOffsetsToTxn(const std::string& transactional_id, Producer producer,
                                      const std::string& group, int version) {
  return AddPartitionsToTxn(transactional_id, producer, {OffsetsPartition(group)}, version);
}

ProducerAnswer FakeKafka::EndTxn(int version, const std::string& transactional_id,
                                 Producer producer, bool commit) {
  Transaction* t = Find(transactional_id);
  if (t == nullptr) return Refuse(KafkaError::kInvalidProducerIdMapping);
  if (t->wedged) return Refuse(KafkaError::kConcurrentTransactions);
  if (version >= 5 && options_.transaction_version < 2) {
    t->wedged = true;
    return Refuse(KafkaError::kUnknownServerError);
  }
  ProducerAnswer answer = version >= 5 ? EndTxnV5(transactional_id, *t, producer, commit)
                                       : EndTxnV4(transactional_id, *t, producer, commit);
  if (answer.error == KafkaError::kProducerFenced) answer.error = Fenced(version);
  return answer;
}

ProducerAnswer FakeKafka::EndTxnV4(const std::string& id, Transaction& t, Producer producer,
                                   bool commit) {
  if (t.producer.id != producer.id) return Refuse(KafkaError::kInvalidProducerIdMapping);
  if (t.producer.epoch != producer.epoch) return Refuse(KafkaError::kProducerFenced);
  if (t.state == KafkaTxnState::kOngoing) {
    Prepare(id, t, commit, producer);
    return {KafkaError::kNone, Producer{}};
  }
  if (IsPrepare(t.state)) return Refuse(KafkaError::kConcurrentTransactions);
  if (t.state == KafkaTxnState::kEmpty || IsCommit(t.state) != commit) {
    return Refuse(KafkaError::kInvalidTxnState);
  }
  return {KafkaError::kNone, Producer{}};
}

ProducerAnswer FakeKafka::EndTxnV5(const std::string& id, Transaction& t, Producer producer,
                                   bool commit) {
  const bool same_epoch = t.producer.epoch == producer.epoch;
  const bool rolled_over = t.previous_producer_id == producer.id && producer.epoch == kLastEpoch &&
                           t.producer.epoch == 0;
  const bool is_retry = t.producer.epoch == producer.epoch + 1 || rolled_over;
  if (t.producer.id != producer.id && !rolled_over) {
    return Refuse(KafkaError::kInvalidProducerIdMapping);
  }
  const bool ended = IsPrepare(t.state) || IsComplete(t.state);
  if (!same_epoch && !(ended && is_retry)) return Refuse(KafkaError::kProducerFenced);
  if (IsPrepare(t.state)) return Refuse(KafkaError::kConcurrentTransactions);
  if (t.state == KafkaTxnState::kOngoing) return EndWithBump(id, t, commit);
  if (t.state == KafkaTxnState::kEmpty) {
    return commit ? Refuse(KafkaError::kInvalidTxnState) : EndWithBump(id, t, false);
  }
  return AnswerComplete(id, t, commit, is_retry);
}

/// What makes v5 lie about a transaction that v0-4 ended: under the same epoch it takes the request
/// for the end of a next, empty transaction.
ProducerAnswer FakeKafka::AnswerComplete(const std::string& id, Transaction& t, bool commit,
                                         bool is_retry) {
  if (is_retry) {
    return IsCommit(t.state) == commit ? ProducerAnswer{KafkaError::kNone, t.producer}
                                       : Refuse(KafkaError::kInvalidTxnState);
  }
  return commit ? Refuse(KafkaError::kInvalidTxnState) : EndWithBump(id, t, false);
}

ProducerAnswer FakeKafka::EndWithBump(const std::string& id, Transaction& t, bool commit) {
  const Producer was = t.producer;
  if (t.state != KafkaTxnState::kOngoing) t.start_ms = now_ms_;
  t.last_epoch = t.producer.epoch;
  if (t.producer.epoch >= kLastEpoch) t.next_producer_id = NewProducerId();
  t.producer.epoch = Next(t.producer.epoch);
  const Producer told = t.next_producer_id >= 0 ? Producer{t.next_producer_id, 0} : t.producer;
  Prepare(id, t, commit, was);
  return {KafkaError::kNone, told};
}

void FakeKafka::Prepare(const std::string& id, Transaction& t, bool commit, Producer was,
                        EndedTransaction::Cause cause) {
  EndedTransaction ended{cause, id, was, commit, t.start_ms, {}};
  for (const txn::TopicPartition& partition : t.partitions) {
    ended.values[partition] = partitions_.at(partition).OpenValues(was.id);
  }
  ended_.push_back(std::move(ended));
  t.state = commit ? KafkaTxnState::kPrepareCommit : KafkaTxnState::kPrepareAbort;
  t.updated_ms = now_ms_;
  preparing_.push_back(id);
  CompleteIfMarked(id, t);
}

void FakeKafka::CompleteIfMarked(const std::string& id, Transaction& t) {
  if (!t.partitions.empty()) return;
  t.state = IsCommit(t.state) ? KafkaTxnState::kCompleteCommit : KafkaTxnState::kCompleteAbort;
  t.updated_ms = now_ms_;
  t.previous_producer_id = t.producer.id;
  if (t.next_producer_id >= 0) t.producer = Producer{std::exchange(t.next_producer_id, -1), 0};
  std::erase(preparing_, id);
}

std::vector<DueMarker> FakeKafka::DueMarkers() const {
  std::vector<DueMarker> due;
  for (const std::string& id : preparing_) {
    for (const txn::TopicPartition& partition : transactions_.at(id).partitions) {
      if (leaderless_.contains(partition) && !options_.loses_markers) continue;
      due.push_back(DueMarker{id, partition});
    }
  }
  return due;
}

void FakeKafka::WriteMarker(const DueMarker& marker) {
  Transaction* t = Find(marker.transactional_id);
  if (t == nullptr || !IsPrepare(t->state) || !t->partitions.contains(marker.partition)) return;
  if (!leaderless_.contains(marker.partition)) {
    ApplyMarker(t->producer, coordinator_epoch_, IsCommit(t->state), marker.partition);
  } else if (options_.loses_markers) {
    lost_.push_back({marker.transactional_id, t->producer, marker.partition, IsCommit(t->state)});
  } else {
    return;
  }
  t->partitions.erase(marker.partition);
  CompleteIfMarked(marker.transactional_id, *t);
}

void FakeKafka::WriteDueMarkers() {
  for (const DueMarker& marker : DueMarkers()) WriteMarker(marker);
}

txn::TxnDescription FakeKafka::DescribeTransaction(const std::string& transactional_id) const {
  const auto it = transactions_.find(transactional_id);
  if (it == transactions_.end()) return {};
  const Transaction& t = it->second;
  return {.exists = true,
          .state = t.state,
          .producer_id = ProducerId{t.producer.id},
          .producer_epoch = ProducerEpoch{t.producer.epoch},
          .start_time_ms = t.start_ms,
          .timeout_ms = t.timeout_ms,
          .partitions = {t.partitions.begin(), t.partitions.end()}};
}

std::vector<ListedTransaction> FakeKafka::ListTransactions() const {
  std::vector<ListedTransaction> all;
  for (const auto& [id, t] : transactions_) all.push_back({id, t.producer.id, t.state});
  return all;
}

void FakeKafka::ScanTimeouts() {
  for (auto& [id, t] : transactions_) {
    if (t.state != KafkaTxnState::kOngoing || t.wedged) continue;
    if (t.start_ms + t.timeout_ms < now_ms_) {
      FenceOngoing(id, t, EndedTransaction::Cause::kTimeout);
    }
  }
}

void FakeKafka::ExpireIds() {
  std::erase_if(transactions_, [&](const auto& entry) {
    const Transaction& t = entry.second;
    const bool idle = t.state == KafkaTxnState::kEmpty || IsComplete(t.state);
    return idle && t.updated_ms <= now_ms_ - options_.id_expiration_ms;
  });
}

void FakeKafka::ForceEpoch(const std::string& transactional_id, std::int16_t epoch) {
  transactions_.at(transactional_id).producer.epoch = epoch;
}

}  // namespace lockstep::fake_kafka
