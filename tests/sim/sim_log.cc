#include "sim_log.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/planted.h"
#include "coordinator/txn_id.h"
#include "log/record_codec.h"
#include "oracle.h"

namespace lockstep::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kLogId = "00000000c0ffee00";
constexpr std::size_t kHeaderSize = 9;  // Type, length, checksum.

std::uint32_t Checksum(std::string_view bytes) {
  std::uint32_t hash = 2166136261U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

void PutInt(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>((value >> shift) & 0xffU);
}

std::uint32_t GetInt(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

template <typename T>
T MustDecode(std::string_view bytes) {
  Result<T> decoded = log::Decode<T>(bytes, "a record of the simulated log");
  if (!decoded.ok()) throw std::runtime_error(decoded.error().message);
  return std::move(decoded).value();
}

Error LogFailed() {
  return MakeError(Code::kUnavailable, "the simulated disk failed", Effect::kUnknown);
}

}  // namespace

void SimDisk::Crash(Random& random) {
  bytes.resize(synced + random.Below(bytes.size() - synced + 1));
}

SimLog::SimLog(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
               const coordinator::Clock& clock, Trace& trace, Oracle& oracle)
    : disk_(disk),
      options_(options),
      scheduler_(scheduler),
      random_(random),
      clock_(clock),
      trace_(trace),
      oracle_(oracle) {
  recovered_.log_id = LogId(kLogId);
  Recover();
}

// ---- Opening -----------------------------------------------------------------------------------

void SimLog::Recover() {
  std::size_t at = 0;
  while (disk_.bytes.size() - at >= kHeaderSize) {
    const std::string_view rest = std::string_view(disk_.bytes).substr(at);
    const std::size_t size = GetInt(rest.substr(1));
    if (rest.size() < kHeaderSize + size) break;
    const std::string_view payload = rest.substr(kHeaderSize, size);
    if (Checksum(payload) != GetInt(rest.substr(5))) break;
    ReadRecord(static_cast<Type>(rest[0]), payload);
    at += kHeaderSize + size;
  }
  disk_.bytes.resize(at);
  if (at == 0) Write(Type::kIdentity, log::Encode(log::Identity{LogId(kLogId), clock_.WallNow()}));
  recovered_.incarnation = Incarnation(recovered_.incarnation.get() + 1);
  Write(Type::kStart, log::Encode(log::Start{recovered_.incarnation, clock_.WallNow()}));
  if (options_.forgets) Forget();
  if (Planted(PlantedBug::kKeysNotRecovered)) batch_of_key_.clear();
  disk_.synced = disk_.bytes.size();
  oracle_.OnLogOpened();
  std::uint64_t next = 1;
  for (const auto& [batch, decision] : decisions_) {
    next = batch.get() + 1;
    if (!decision.complete()) {
      recovered_.incomplete.push_back(decision);
    } else if (decision.heuristic() && !decision.acknowledged) {
      recovered_.heuristic.push_back(decision);
    }
    oracle_.OnDecisionDurable(decision);
  }
  for (const auto& [id, enlistment] : std::exchange(enlisted_, {})) {
    if (!batch_of_.contains(enlistment.txn)) recovered_.enlisted.push_back(enlistment);
  }
  recovered_.next_batch = BatchId(std::max(next, recovered_.next_batch.get()));
  recovered_.horizon = horizon_;
}

void SimLog::ReadRecord(Type type, std::string_view payload) {
  switch (type) {
    case Type::kIdentity:
      if (MustDecode<log::Identity>(payload).log_id != recovered_.log_id) {
        throw std::runtime_error("the simulated log has another identity");
      }
      return;
    case Type::kStart:
      recovered_.incarnation = MustDecode<log::Start>(payload).incarnation;
      return;
    case Type::kDecision:
      return ApplyDecision(MustDecode<txn::Decision>(payload));
    case Type::kCompletion:
      return ApplyCompletion(MustDecode<log::StoredCompletion>(payload).completion);
    case Type::kAcknowledgement:
      decisions_.at(MustDecode<log::Acknowledgement>(payload).batch).acknowledged = true;
      return;
    case Type::kOrder:
      return ApplyOrder(MustDecode<coordinator::StoredOrder>(payload));
    case Type::kBinding: {
      const auto binding = MustDecode<log::Binding>(payload);
      bindings_[binding.cluster] = binding.kafka_cluster_id;
      return;
    }
    case Type::kForgotten:
      return ApplyForgotten(MustDecode<log::Forgotten>(payload));
    case Type::kEnlistment: {
      auto enlistment = MustDecode<txn::Enlistment>(payload);
      const txn::ParticipantName& name = enlistment.name;
      enlisted_[name.cluster.get() + '\0' + name.transactional_id.get()] = std::move(enlistment);
      return;
    }
    case Type::kEnlistmentEnded:
      enlisted_.erase(std::string(payload));
      return;
  }
  throw std::runtime_error("a record of unknown type in the simulated log");
}

/// Outcomes that nobody will ask for any more: all that is complete, up to a watermark.
void SimLog::Forget() {
  log::Forgotten forgotten{horizon_, BatchId(0)};
  for (const auto& [batch, decision] : decisions_) {
    const bool open = !decision.complete() || (decision.heuristic() && !decision.acknowledged);
    if (open && !Planted(PlantedBug::kForgetsPending)) break;
    if (random_.Chance(0.3)) break;
    forgotten.through = batch;
    for (const GlobalTxnId& member : decision.members) {
      forgotten.horizon = std::max(forgotten.horizon, coordinator::ParseTxnId(member)->birth);
    }
    for (const txn::MemberKey& member : decision.keys) {
      if (Planted(PlantedBug::kHorizonBelowKeys)) continue;
      forgotten.horizon = std::max(forgotten.horizon, member.key.birth);
    }
  }
  if (forgotten.through == BatchId(0)) return;
  Write(Type::kForgotten, log::Encode(forgotten));
  ApplyForgotten(forgotten);
}

// ---- Writing -----------------------------------------------------------------------------------

void SimLog::Write(Type type, const std::string& payload) {
  disk_.bytes += static_cast<char>(type);
  PutInt(disk_.bytes, static_cast<std::uint32_t>(payload.size()));
  PutInt(disk_.bytes, Checksum(payload));
  disk_.bytes += payload;
}

void SimLog::Append(Type type, const std::string& payload, std::function<void()> apply,
                    coordinator::Callback<Status> done) {
  if (failed_) {
    scheduler_.After({}, life_, [done = std::move(done)] { done(LogFailed()); });
    return;
  }
  Write(type, payload);
  waiting_.push_back({disk_.bytes.size(), std::move(apply), std::move(done)});
}

void SimLog::StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) {
  trace_([&] { return "log: decision " + std::to_string(decision.batch.get()) + " written"; });
  oracle_.OnDecisionWritten(decision);
  if (Planted(PlantedBug::kLogAcksBeforeSync)) {
    scheduler_.After({}, life_, [done] { done({}); });
    done = [](const Status&) {};
  }
  const std::string payload = log::Encode(decision);
  Append(
      Type::kDecision, payload,
      [this, payload] {
        const auto stored = MustDecode<txn::Decision>(payload);
        trace_([&] { return "log: decision " + std::to_string(stored.batch.get()) + " durable"; });
        ApplyDecision(stored);
        oracle_.OnDecisionDurable(stored);
      },
      std::move(done));
  Sync();
}

// Not synced: how much of it a crash leaves is the disk's affair.
void SimLog::StoreEnlistment(txn::Enlistment enlistment) {
  if (failed_) return;
  Write(Type::kEnlistment, log::Encode(enlistment));
}

void SimLog::EndEnlistment(ClusterName cluster, TransactionalId id) {
  if (failed_) return;
  Write(Type::kEnlistmentEnded, cluster.get() + '\0' + id.get());
}

void SimLog::StoreCompletion(coordinator::Completion completion, bool urgent,
                             coordinator::Callback<Status> done) {
  Append(
      Type::kCompletion, log::Encode(log::StoredCompletion{completion, clock_.WallNow()}),
      [this, completion] {
        ApplyCompletion(completion);
        oracle_.OnCompletionDurable(decisions_.at(completion.batch), completion.participant);
      },
      std::move(done));
  if (urgent) return Sync();
  if (std::exchange(lazy_sync_planned_, true)) return;
  scheduler_.After(milliseconds(50), life_, [this] {
    lazy_sync_planned_ = false;
    Sync();
  });
}

void SimLog::StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) {
  Append(
      Type::kAcknowledgement, log::Encode(log::Acknowledgement{batch, clock_.WallNow()}),
      [this, batch] { decisions_.at(batch).acknowledged = true; }, std::move(done));
  Sync();
}

void SimLog::StoreOrder(coordinator::StoredOrder order, coordinator::Callback<Status> done) {
  const std::string payload = log::Encode(order);
  Append(
      Type::kOrder, payload, [this, order] { ApplyOrder(order); }, std::move(done));
  Sync();
}

void SimLog::StoreBinding(ClusterName cluster, KafkaClusterId id,
                          coordinator::Callback<Status> done) {
  Append(
      Type::kBinding, log::Encode(log::Binding{cluster, id}),
      [this, cluster, id] { bindings_[cluster] = id; }, std::move(done));
  Sync();
}

void SimLog::StoreSuperseded(std::string, coordinator::Callback<Status>) { std::abort(); }

void SimLog::Sync() {
  if (failed_ || waiting_.empty()) return;
  if (sync_runs_) {
    sync_wanted_ = true;
    return;
  }
  sync_runs_ = true;
  Duration takes = random_.Between(microseconds(100), milliseconds(4));
  if (!calm_ && random_.Chance(options_.slow_sync)) {
    takes = random_.Between(milliseconds(100), seconds(20));
  }
  scheduler_.After(takes, life_, [this, end = disk_.bytes.size()] { SyncDone(end); });
}

void SimLog::SyncDone(std::size_t end) {
  sync_runs_ = false;
  if (!calm_ && random_.Chance(options_.failed_sync)) return Fail();
  disk_.synced = end;
  std::vector<Waiting> durable;
  while (!waiting_.empty() && waiting_.front().end <= end) {
    durable.push_back(std::move(waiting_.front()));
    waiting_.erase(waiting_.begin());
  }
  for (Waiting& entry : durable) {
    entry.apply();
    entry.done({});
  }
  if (std::exchange(sync_wanted_, false)) Sync();
}

void SimLog::Fail() {
  trace_([] { return std::string("log: the sync failed"); });
  failed_ = true;
  for (Waiting& entry : std::exchange(waiting_, {})) entry.done(LogFailed());
}

// ---- What is durable ----------------------------------------------------------------------------

void SimLog::ApplyDecision(const txn::Decision& decision) {
  decisions_[decision.batch] = decision;
  for (const GlobalTxnId& member : decision.members) batch_of_[member] = decision.batch;
  for (const txn::MemberKey& member : decision.keys) {
    batch_of_key_[member.key.key] = decision.batch;
  }
}

void SimLog::ApplyCompletion(const coordinator::Completion& completion) {
  const Status status = log::Apply(completion, decisions_.at(completion.batch));
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

void SimLog::ApplyOrder(const coordinator::StoredOrder& order) {
  const Status status = log::Apply(order, decisions_.at(order.batch));
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

void SimLog::ApplyForgotten(const log::Forgotten& forgotten) {
  horizon_ = forgotten.horizon;
  recovered_.next_batch = BatchId(forgotten.through.get() + 1);
  decisions_.erase(decisions_.begin(), decisions_.upper_bound(forgotten.through));
  const auto gone = [&](const auto& entry) { return !decisions_.contains(entry.second); };
  std::erase_if(batch_of_, gone);
  std::erase_if(batch_of_key_, gone);
}

std::optional<KafkaClusterId> SimLog::Binding(const ClusterName& cluster) const {
  const auto found = bindings_.find(cluster);
  if (found == bindings_.end()) return std::nullopt;
  return found->second;
}

Result<std::optional<txn::Decision>> SimLog::Find(const GlobalTxnId& txn) const {
  const auto found = batch_of_.find(txn);
  if (found == batch_of_.end()) return std::optional<txn::Decision>();
  return std::optional<txn::Decision>(decisions_.at(found->second));
}

Result<std::optional<txn::Decision>> SimLog::FindKey(const std::string& key) const {
  const auto found = batch_of_key_.find(key);
  if (found == batch_of_key_.end()) return std::optional<txn::Decision>();
  return std::optional<txn::Decision>(decisions_.at(found->second));
}

}  // namespace lockstep::sim
