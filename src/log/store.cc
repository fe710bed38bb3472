#include "log/store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/planted.h"
#include "log/errors.h"
#include "log/keys.h"

namespace lockstep::log {
namespace {

Error Refused(BatchId batch, std::string_view why) {
  return MakeError(Code::kInternal,
                   "batch " + std::to_string(batch.get()) + ": " + std::string(why));
}

}  // namespace

bool Store::OpenBatch::pending() const {
  return std::ranges::find(outcomes, txn::ParticipantOutcome::kPending) != outcomes.end();
}

bool Store::OpenBatch::heuristic() const {
  return !pending() && !std::ranges::all_of(outcomes, [](txn::ParticipantOutcome outcome) {
    return outcome == txn::ParticipantOutcome::kCommitted;
  });
}

Status Store::Add(const txn::Decision& decision) {
  if (Status valid = Validate(decision); !valid.ok()) return valid;
  const Result<bool> stored = IsStored(decision.batch);
  if (!stored.ok()) return stored.error();
  if (*stored) return Refused(decision.batch, "a decision is stored under this number already");

  const std::string record = Encode(decision);
  batch_.Put(keys::Decision(decision.batch), record);
  for (const GlobalTxnId& member : decision.members) {
    batch_.Put(keys::Txn(member), keys::BatchValue(decision.batch));
  }
  for (const txn::MemberKey& member : decision.keys) {
    batch_.Put(keys::ClientKey(member.key.key), keys::BatchValue(decision.batch));
  }
  if (IsOpen(decision)) {
    batch_.Put(keys::Open(decision.batch), {});
    OpenBatch& open = open_[decision.batch];
    for (const auto& participant : decision.participants) {
      open.outcomes.push_back(participant.outcome);
    }
  }
  highest_batch_ = std::max(highest_batch_, decision.batch.get());
  // Decided so late that later batches are forgotten already.
  if (decision.batch <= forgotten_.through) left_behind_.emplace(decision.batch, WallTime{});
  kept_.bytes += WeightOf(decision, record.size());
  ++kept_.decisions;
  kept_changed_ = true;
  return {};
}

Status Store::Add(const coordinator::Completion& completion) {
  const auto open = open_.find(completion.batch);
  if (open == open_.end()) return Refused(completion.batch, "completed, but it is not open");
  std::vector<txn::ParticipantOutcome>& outcomes = open->second.outcomes;
  if (completion.participant >= outcomes.size() ||
      completion.outcome == txn::ParticipantOutcome::kPending) {
    return Refused(completion.batch, "a completion of no participant, or without an outcome");
  }
  txn::ParticipantOutcome& outcome = outcomes[completion.participant];
  if (outcome == completion.outcome) return {};
  if (outcome != txn::ParticipantOutcome::kPending) {
    return Refused(completion.batch, "a participant's outcome cannot change any more");
  }
  batch_.Put(keys::Completion(completion.batch, completion.participant),
             Encode(StoredCompletion{completion, clock_.WallNow()}));
  outcome = completion.outcome;
  if (!open->second.pending() && !open->second.heuristic()) {
    batch_.Delete(keys::Open(completion.batch));
    open_.erase(open);
  }
  return {};
}

Status Store::AddAcknowledgement(BatchId batch) {
  const auto open = open_.find(batch);
  if (open == open_.end() || !open->second.heuristic()) {
    return Refused(batch, "acknowledged, but there is no heuristic outcome to acknowledge");
  }
  batch_.Put(keys::Acknowledgement(batch), Encode(Acknowledgement{batch, clock_.WallNow()}));
  batch_.Delete(keys::Open(batch));
  open_.erase(open);
  return {};
}

Status Store::Add(const coordinator::StoredOrder& order) {
  const auto open = open_.find(order.batch);
  if (open == open_.end() || order.participant >= open->second.outcomes.size() ||
      open->second.outcomes[order.participant] != txn::ParticipantOutcome::kPending) {
    return Refused(order.batch, "an order about a participant that is not pending");
  }
  batch_.Put(keys::Order(order.batch, order.participant), Encode(order));
  return {};
}

Status Store::Add(const log::Binding& binding) {
  if (binding.cluster.get().empty() || binding.kafka_cluster_id.get().empty()) {
    return MakeError(Code::kInternal, "a binding needs a cluster's name and a Kafka cluster id");
  }
  batch_.Put(keys::Binding(binding.cluster), Encode(binding));
  added_bindings_.push_back(binding);
  return {};
}

Status Store::Add(const Superseded& superseded) {
  batch_.Put(keys::kStart, Encode(Start{recovered_.incarnation, clock_.WallNow(), superseded.why}));
  return {};
}

Status Store::Add(const txn::Enlistment& enlistment) {
  if (Status valid = Validate(enlistment); !valid.ok()) return valid;
  batch_.Put(keys::Enlistment(enlistment.name.cluster, enlistment.name.transactional_id),
             Encode(enlistment));
  return {};
}

void Store::EndEnlistment(const ClusterName& cluster, const TransactionalId& id) {
  batch_.Delete(keys::Enlistment(cluster, id));
}

Status Store::Write(bool sync) {
  if (batch_.Count() == 0) return {};  // All of it was durable before.
  if (kept_changed_) batch_.Put(keys::kKept, Encode(kept_));
  rocksdb::WriteOptions options;
  options.sync = sync && !Planted(PlantedBug::kSkipSync);
  const rocksdb::Status status = db_->Write(options, &batch_);
  if (!status.ok()) return WriteFailed(status);
  if (sync) ++syncs_;
  batch_.Clear();
  kept_changed_ = false;
  PublishKept();
  const std::lock_guard lock(bindings_mutex_);
  for (log::Binding& binding : added_bindings_) {
    bindings_[binding.cluster] = std::move(binding.kafka_cluster_id);
  }
  added_bindings_.clear();
  return {};
}

Result<std::optional<txn::Decision>> Store::Find(const GlobalTxnId& txn) const {
  auto decision = Follow(keys::Txn(txn));
  if (!decision.ok() || !decision->has_value()) return decision;
  const auto& members = (*decision)->members;
  if (std::ranges::find(members, txn) == members.end()) {
    return Damaged(path_, keys::Describe(keys::Txn(txn)) + ": it is not a member of that batch");
  }
  return decision;
}

Result<std::optional<txn::Decision>> Store::FindKey(const std::string& key) const {
  auto decision = Follow(keys::ClientKey(key));
  if (!decision.ok() || !decision->has_value()) return decision;
  const auto& keys = (*decision)->keys;
  if (std::ranges::find(keys, key, [](const auto& member) { return member.key.key; }) ==
      keys.end()) {
    return Damaged(path_, keys::Describe(keys::ClientKey(key)) + ": that batch did not run it");
  }
  return decision;
}

Result<std::optional<txn::Decision>> Store::Follow(const std::string& key) const {
  // One iterator for both reads: both see the same state of the database.
  const auto it = NewIterator();
  it->Seek(key);
  if (!it->Valid() || it->key() != rocksdb::Slice(key)) {
    if (Status status = ReadStatus(*it); !status.ok()) return InFolder(status.error());
    return std::optional<txn::Decision>();
  }
  const auto id = keys::ParseBatchValue(it->value().ToStringView());
  if (!id) return Damaged(path_, keys::Describe(key) + ": no batch");
  auto batch = SeekBatch(*it, *id);
  if (!batch.ok()) return InFolder(batch.error());
  if (!batch->has_value()) return Damaged(path_, keys::Describe(key) + ": its decision is missing");
  return std::optional<txn::Decision>(std::move((*batch)->decision));
}

std::optional<KafkaClusterId> Store::Binding(const ClusterName& cluster) const {
  const std::lock_guard lock(bindings_mutex_);
  const auto found = bindings_.find(cluster);
  if (found == bindings_.end()) return std::nullopt;
  return found->second;
}

void Store::PublishKept() {
  stats_bytes_ = kept_.bytes;
  stats_decisions_ = kept_.decisions;
}

Result<coordinator::LogStats> Store::Stats() const {
  coordinator::LogStats stats{
      .decisions = stats_decisions_, .kept_bytes = stats_bytes_, .syncs = syncs_};
  std::error_code failed;
  for (std::filesystem::directory_iterator file(path_, failed), end; !failed && file != end;
       file.increment(failed)) {
    std::error_code vanished;  // RocksDB removes files as it goes on.
    const auto size = file->file_size(vanished);
    if (!vanished) stats.disk_bytes += size;
  }
  if (failed) return FromErrno(path_, "measuring the folder", failed.value());
  return stats;
}

/// Batches come in ascending order, nearly always: only a lower one needs to be looked for.
Result<bool> Store::IsStored(BatchId batch) const {
  if (batch.get() > highest_batch_) return false;
  if (open_.contains(batch)) return true;
  std::string value;
  const rocksdb::Status status = db_->Get({}, keys::Decision(batch), &value);
  if (status.ok()) return true;
  if (status.IsNotFound()) return false;
  return FromRocks(path_, "reading the " + keys::Describe(keys::Decision(batch)), status);
}

std::unique_ptr<rocksdb::Iterator> Store::NewIterator() const {
  return std::unique_ptr<rocksdb::Iterator>(db_->NewIterator({}));
}

Error Store::InFolder(const Error& error) const {
  if (error.message.find(path_.string()) != std::string::npos) return error;
  if (error.code == Code::kCorrupt) return Damaged(path_, error.message);
  return MakeError(error.code, "decision log '" + path_.string() + "': " + error.message,
                   error.effect);
}

Error Store::WriteFailed(const rocksdb::Status& status) const {
  const std::string first =
      status.IsNoSpace() ? "free some space or enlarge the volume" : "check the disk";
  return MakeError(
      Code::kUnavailable,
      "decision log '" + path_.string() + "': writing failed: " + status.ToString() +
          ". Whether the last records are durable is unknown: lockstepd must stop, and "
          "find out when it starts again; before that, " +
          first,
      Effect::kUnknown);
}

}  // namespace lockstep::log
