#include "log/stored_batch.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "log/keys.h"
#include "log/record_codec.h"

namespace lockstep::log {
namespace {

Error Misplaced(std::string_view key) {
  return MakeError(Code::kCorrupt, keys::Describe(key) + ": the record belongs to another key");
}

/// Applies what stands under a key of the batch besides the decision.
Status ApplyDetail(std::string_view key, std::string_view value, StoredBatch& batch) {
  const std::string where = keys::Describe(key);
  if (keys::IsAcknowledgement(key)) {
    const auto acknowledgement = Decode<Acknowledgement>(value, where);
    if (!acknowledgement.ok()) return acknowledgement.error();
    if (acknowledgement->batch != batch.decision.batch) return Misplaced(key);
    batch.decision.acknowledged = true;
    batch.settled_at = std::max(batch.settled_at, acknowledgement->stored_at);
    return {};
  }
  const auto participant = keys::ParticipantOf(key);
  if (!participant) return Misplaced(key);
  const auto completion = Decode<StoredCompletion>(value, where);
  if (!completion.ok()) return completion.error();
  if (completion->completion.participant != *participant) return Misplaced(key);
  batch.settled_at = std::max(batch.settled_at, completion->stored_at);
  return Apply(completion->completion, batch.decision);
}

}  // namespace

std::uint64_t WeightOf(const txn::Decision& decision, std::size_t record_bytes) {
  constexpr std::uint64_t kPerKey = 24;          // RocksDB's own words, the batch in the index.
  constexpr std::uint64_t kPerParticipant = 64;  // Its completion.
  std::uint64_t weight = record_bytes + kPerKey + kPerParticipant * decision.participants.size();
  for (const GlobalTxnId& member : decision.members) weight += member.get().size() + kPerKey;
  for (const txn::MemberKey& member : decision.keys) weight += member.key.key.size() + kPerKey;
  return weight;
}

bool IsOpen(const txn::Decision& decision) {
  return !decision.complete() || (decision.heuristic() && !decision.acknowledged);
}

Status ReadStatus(const rocksdb::Iterator& it) {
  const rocksdb::Status status = it.status();
  if (status.ok()) return {};
  return MakeError(status.IsCorruption() ? Code::kCorrupt : Code::kUnavailable,
                   "reading the database: " + status.ToString());
}

Result<StoredBatch> ReadBatch(rocksdb::Iterator& it) {
  const std::string key = it.key().ToString();
  auto decision = Decode<txn::Decision>(it.value().ToStringView(), keys::Describe(key));
  if (!decision.ok()) return decision.error();
  if (keys::BatchOf(key) != decision->batch) return Misplaced(key);
  StoredBatch batch;
  batch.weight = WeightOf(*decision, it.value().size());
  batch.settled_at = decision->decided_at;
  batch.decision = *std::move(decision);
  batch.keys.push_back(key);
  for (it.Next(); it.Valid() && it.key().starts_with(key); it.Next()) {
    const Status applied = ApplyDetail(it.key().ToStringView(), it.value().ToStringView(), batch);
    if (!applied.ok()) return applied.error();
    batch.keys.push_back(it.key().ToString());
  }
  if (Status status = ReadStatus(it); !status.ok()) return status.error();
  return batch;
}

Result<std::optional<StoredBatch>> SeekBatch(rocksdb::Iterator& it, BatchId batch) {
  const std::string key = keys::Decision(batch);
  it.Seek(key);
  if (!it.Valid() || it.key() != rocksdb::Slice(key)) {
    if (Status status = ReadStatus(it); !status.ok()) return status.error();
    return std::optional<StoredBatch>();
  }
  Result<StoredBatch> read = ReadBatch(it);
  if (!read.ok()) return read.error();
  return std::optional<StoredBatch>(*std::move(read));
}

}  // namespace lockstep::log
