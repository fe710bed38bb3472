#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/planted.h"
#include "coordinator/txn_id.h"
#include "sim_disk.h"

namespace lockstep::sim {
namespace {

constexpr const char* kLogId = "00000000c0ffee00";
constexpr std::size_t kHeaderSize = 9;  // Type, length, checksum.

enum class Type : char {
  kIdentity = 'i',
  kStart = 's',
  kDecision = 'd',
  kCompletion = 'c',
  kAcknowledgement = 'a',
  kOrder = 'o',
  kBinding = 'b',
  kForgotten = 'f',
  kEnlistment = 'e',
  kEnlistmentEnded = 'E',  // The cluster, a zero byte, the transactional.id.
};

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

void Must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

std::string NameOf(const ClusterName& cluster, const TransactionalId& id) {
  return cluster.get() + '\0' + id.get();
}

class MemoryDisk final : public SimDisk {
 public:
  MemoryDisk(const SimOptions& options, const coordinator::Clock& clock, Random& random)
      : options_(options), clock_(clock), random_(random) {}

  void Open() override;
  const coordinator::RecoveredLog& recovered() const override { return life_.recovered; }
  void Write(Record record) override;
  std::uint64_t written() const override { return life_.ends.size(); }
  bool Sync(std::uint64_t through) override;
  std::optional<Error> Refused(std::uint64_t) const override { return std::nullopt; }
  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const override;
  std::optional<txn::Decision> Find(const GlobalTxnId& txn) const override;
  std::optional<txn::Decision> FindKey(const std::string& key) const override;
  WallTime Horizon() const override { return life_.horizon; }
  void Close() override {}
  void Crash() override { bytes_.resize(synced_ + random_.Below(bytes_.size() - synced_ + 1)); }
  void CalmDown() override { calm_ = true; }

 private:
  void Append(Type type, const std::string& payload);
  std::size_t ReadUpTo(std::size_t end);
  void Read(Type type, std::string_view payload);
  void Read(const txn::Decision& decision);
  void Read(const log::Forgotten& forgotten);
  void Forget();

  const SimOptions& options_;
  const coordinator::Clock& clock_;
  Random& random_;
  bool calm_ = false;

  std::string bytes_;
  std::size_t synced_ = 0;  // So many of them are durable.

  /// What is durable, as this life has read it.
  struct Life {
    coordinator::RecoveredLog recovered;
    std::size_t read = 0;           // Bytes.
    std::vector<std::size_t> ends;  // Of each record written in this life.
    std::map<std::string, txn::Enlistment> enlisted;
    std::map<BatchId, txn::Decision> decisions;
    std::map<GlobalTxnId, BatchId> batch_of;
    std::map<std::string, BatchId> batch_of_key;
    std::map<ClusterName, KafkaClusterId> bindings;
    WallTime horizon;
  };
  Life life_;
};

void MemoryDisk::Open() {
  life_ = {};
  coordinator::RecoveredLog& recovered = life_.recovered;
  recovered.log_id = LogId(kLogId);
  bytes_.resize(ReadUpTo(bytes_.size()));
  if (bytes_.empty()) {
    Append(Type::kIdentity, log::Encode(log::Identity{recovered.log_id, clock_.WallNow(), {}}));
  }
  recovered.incarnation = Incarnation(recovered.incarnation.get() + 1);
  Append(Type::kStart, log::Encode(log::Start{recovered.incarnation, clock_.WallNow(), {}}));
  if (options_.forgets) Forget();
  if (Planted(PlantedBug::kKeysNotRecovered)) life_.batch_of_key.clear();
  synced_ = life_.read = bytes_.size();
  std::uint64_t next = 1;
  for (const auto& [batch, decision] : life_.decisions) {
    next = batch.get() + 1;
    if (!decision.complete()) {
      recovered.incomplete.push_back(decision);
    } else if (decision.heuristic() && !decision.acknowledged) {
      recovered.heuristic.push_back(decision);
    }
  }
  for (const auto& [id, enlistment] : std::exchange(life_.enlisted, {})) {
    if (!life_.batch_of.contains(enlistment.txn)) recovered.enlisted.push_back(enlistment);
  }
  recovered.next_batch = BatchId(std::max(next, recovered.next_batch.get()));
  recovered.horizon = life_.horizon;
}

/// Reads on to `end`. Where it stopped: what comes then is no whole record.
std::size_t MemoryDisk::ReadUpTo(std::size_t end) {
  while (end - life_.read >= kHeaderSize) {
    const std::string_view rest = std::string_view(bytes_).substr(life_.read, end - life_.read);
    const std::size_t size = GetInt(rest.substr(1));
    if (rest.size() < kHeaderSize + size) break;
    const std::string_view payload = rest.substr(kHeaderSize, size);
    if (Checksum(payload) != GetInt(rest.substr(5))) break;
    Read(static_cast<Type>(rest[0]), payload);
    life_.read += kHeaderSize + size;
  }
  return life_.read;
}

void MemoryDisk::Read(Type type, std::string_view payload) {
  switch (type) {
    case Type::kIdentity:
      if (MustDecode<log::Identity>(payload).log_id != life_.recovered.log_id) {
        throw std::runtime_error("the simulated log has another identity");
      }
      return;
    case Type::kStart:
      life_.recovered.incarnation = MustDecode<log::Start>(payload).incarnation;
      return;
    case Type::kDecision:
      return Read(MustDecode<txn::Decision>(payload));
    case Type::kCompletion: {
      const auto completion = MustDecode<log::StoredCompletion>(payload).completion;
      return Must(log::Apply(completion, life_.decisions.at(completion.batch)));
    }
    case Type::kAcknowledgement:
      life_.decisions.at(MustDecode<log::Acknowledgement>(payload).batch).acknowledged = true;
      return;
    case Type::kOrder: {
      const auto order = MustDecode<coordinator::StoredOrder>(payload);
      return Must(log::Apply(order, life_.decisions.at(order.batch)));
    }
    case Type::kBinding: {
      const auto binding = MustDecode<log::Binding>(payload);
      life_.bindings[binding.cluster] = binding.kafka_cluster_id;
      return;
    }
    case Type::kForgotten:
      return Read(MustDecode<log::Forgotten>(payload));
    case Type::kEnlistment: {
      auto enlistment = MustDecode<txn::Enlistment>(payload);
      const txn::ParticipantName& name = enlistment.name;
      life_.enlisted[NameOf(name.cluster, name.transactional_id)] = std::move(enlistment);
      return;
    }
    case Type::kEnlistmentEnded:
      life_.enlisted.erase(std::string(payload));
      return;
  }
  throw std::runtime_error("a record of unknown type in the simulated log");
}

void MemoryDisk::Read(const txn::Decision& decision) {
  life_.decisions[decision.batch] = decision;
  for (const GlobalTxnId& member : decision.members) life_.batch_of[member] = decision.batch;
  for (const txn::MemberKey& member : decision.keys) {
    life_.batch_of_key[member.key.key] = decision.batch;
  }
}

void MemoryDisk::Read(const log::Forgotten& forgotten) {
  auto& decisions = life_.decisions;
  life_.horizon = forgotten.horizon;
  life_.recovered.next_batch = BatchId(forgotten.through.get() + 1);
  decisions.erase(decisions.begin(), decisions.upper_bound(forgotten.through));
  const auto gone = [&](const auto& entry) { return !decisions.contains(entry.second); };
  std::erase_if(life_.batch_of, gone);
  std::erase_if(life_.batch_of_key, gone);
}

/// Outcomes that nobody will ask for any more: all that is complete, up to a watermark.
void MemoryDisk::Forget() {
  log::Forgotten forgotten{life_.horizon, BatchId(0)};
  for (const auto& [batch, decision] : life_.decisions) {
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
  Append(Type::kForgotten, log::Encode(forgotten));
  Read(forgotten);
}

void MemoryDisk::Append(Type type, const std::string& payload) {
  bytes_ += static_cast<char>(type);
  PutInt(bytes_, static_cast<std::uint32_t>(payload.size()));
  PutInt(bytes_, Checksum(payload));
  bytes_ += payload;
}

void MemoryDisk::Write(Record record) {
  const WallTime now = clock_.WallNow();
  const auto append = [this](Type type, const auto& what) { Append(type, log::Encode(what)); };
  if (const auto* decision = std::get_if<txn::Decision>(&record)) {
    append(Type::kDecision, *decision);
  } else if (const auto* completion = std::get_if<coordinator::Completion>(&record)) {
    append(Type::kCompletion, log::StoredCompletion{*completion, now});
  } else if (const auto* acknowledged = std::get_if<Acknowledged>(&record)) {
    append(Type::kAcknowledgement, log::Acknowledgement{acknowledged->batch, now});
  } else if (const auto* order = std::get_if<coordinator::StoredOrder>(&record)) {
    append(Type::kOrder, *order);
  } else if (const auto* binding = std::get_if<log::Binding>(&record)) {
    append(Type::kBinding, *binding);
  } else if (const auto* enlistment = std::get_if<txn::Enlistment>(&record)) {
    append(Type::kEnlistment, *enlistment);
  } else {
    const auto& ended = std::get<EndedEnlistment>(record);
    Append(Type::kEnlistmentEnded, NameOf(ended.cluster, ended.id));
  }
  life_.ends.push_back(bytes_.size());
}

bool MemoryDisk::Sync(std::uint64_t through) {
  if (!calm_ && random_.Chance(options_.failed_sync)) return false;
  synced_ = std::max(synced_, life_.ends.at(through - 1));
  if (ReadUpTo(synced_) != synced_) throw std::runtime_error("a durable record cannot be read");
  return true;
}

std::optional<KafkaClusterId> MemoryDisk::Binding(const ClusterName& cluster) const {
  const auto found = life_.bindings.find(cluster);
  if (found == life_.bindings.end()) return std::nullopt;
  return found->second;
}

std::optional<txn::Decision> MemoryDisk::Find(const GlobalTxnId& txn) const {
  const auto found = life_.batch_of.find(txn);
  if (found == life_.batch_of.end()) return std::nullopt;
  return life_.decisions.at(found->second);
}

std::optional<txn::Decision> MemoryDisk::FindKey(const std::string& key) const {
  const auto found = life_.batch_of_key.find(key);
  if (found == life_.batch_of_key.end()) return std::nullopt;
  return life_.decisions.at(found->second);
}

}  // namespace

std::unique_ptr<SimDisk> MakeMemoryDisk(const SimOptions& options, const coordinator::Clock& clock,
                                        Random& random) {
  return std::make_unique<MemoryDisk>(options, clock, random);
}

}  // namespace lockstep::sim
