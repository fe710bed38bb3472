#include "log/keys.h"

#include <cstddef>

namespace lockstep::log::keys {
namespace {

constexpr std::size_t kBatchEnd = 1 + sizeof(std::uint64_t);
constexpr std::size_t kEnlistedCluster = kEnlistments.size() + sizeof(std::uint32_t);
constexpr char kAcknowledgementMark = 'a';
constexpr char kCompletionMark = 'c';
constexpr char kOrderMark = 'o';

template <typename T>
void AppendBigEndian(T value, std::string& out) {
  for (int shift = (static_cast<int>(sizeof(T)) - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

template <typename T>
T ReadBigEndian(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8) | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

std::string BatchKey(std::string_view prefix, BatchId batch) {
  std::string key(prefix);
  AppendBigEndian(batch.get(), key);
  return key;
}

std::string ParticipantKey(BatchId batch, char mark, std::uint32_t participant) {
  std::string key = BatchKey(kDecisions, batch) + mark;
  AppendBigEndian(participant, key);
  return key;
}

}  // namespace

std::string Decision(BatchId batch) { return BatchKey(kDecisions, batch); }

std::string Acknowledgement(BatchId batch) {
  return BatchKey(kDecisions, batch) + kAcknowledgementMark;
}

std::string Completion(BatchId batch, std::uint32_t participant) {
  return ParticipantKey(batch, kCompletionMark, participant);
}

std::string Order(BatchId batch, std::uint32_t participant) {
  return ParticipantKey(batch, kOrderMark, participant);
}

std::string Binding(const ClusterName& cluster) { return std::string(kBindings) + cluster.get(); }

std::string Open(BatchId batch) { return BatchKey(kOpen, batch); }

std::string Enlistment(const ClusterName& cluster, const TransactionalId& id) {
  std::string key(kEnlistments);
  AppendBigEndian(static_cast<std::uint32_t>(cluster.get().size()), key);
  return key + cluster.get() + id.get();
}

std::string Txn(const GlobalTxnId& txn) { return std::string(kTxns) + txn.get(); }

std::string ClientKey(std::string_view key) { return std::string(kClientKeys).append(key); }

std::string BatchValue(BatchId batch) { return BatchKey({}, batch); }

std::optional<BatchId> ParseBatchValue(std::string_view value) {
  if (value.size() != sizeof(std::uint64_t)) return std::nullopt;
  return BatchId(ReadBigEndian<std::uint64_t>(value));
}

std::optional<BatchId> BatchOf(std::string_view key) {
  const bool kind = key.starts_with(kDecisions) || key.starts_with(kOpen);
  if (!kind || key.size() < kBatchEnd) return std::nullopt;
  return BatchId(ReadBigEndian<std::uint64_t>(key.substr(1)));
}

std::optional<std::uint32_t> ParticipantOf(std::string_view key) {
  if (!key.starts_with(kDecisions) || key.size() != kBatchEnd + 1 + sizeof(std::uint32_t) ||
      (key[kBatchEnd] != kCompletionMark && key[kBatchEnd] != kOrderMark)) {
    return std::nullopt;
  }
  return ReadBigEndian<std::uint32_t>(key.substr(kBatchEnd + 1));
}

bool IsOrder(std::string_view key) { return ParticipantOf(key) && key[kBatchEnd] == kOrderMark; }

bool IsDecision(std::string_view key) {
  return key.starts_with(kDecisions) && key.size() == kBatchEnd;
}

bool IsAcknowledgement(std::string_view key) {
  return key.starts_with(kDecisions) && key.size() == kBatchEnd + 1 &&
         key[kBatchEnd] == kAcknowledgementMark;
}

std::string Describe(std::string_view key) {
  const auto batch = BatchOf(key);
  const std::string of = batch ? " of batch " + std::to_string(batch->get()) : "";
  if (batch && key.starts_with(kOpen)) return "open mark" + of;
  if (IsDecision(key)) return "decision" + of;
  if (IsAcknowledgement(key)) return "acknowledgement" + of;
  if (const auto participant = ParticipantOf(key)) {
    return (IsOrder(key) ? "order about participant " : "completion of participant ") +
           std::to_string(*participant) + of;
  }
  if (key == kIdentity) return "the log's identity";
  if (key == kStart) return "the latest start";
  if (key == kForgotten) return "what was forgotten";
  if (key == kKept) return "the weight of what is kept";
  const std::string rest(key.substr(key.empty() ? 0 : 1));
  if (key.starts_with(kBindings)) return "binding of cluster '" + rest + "'";
  if (key.starts_with(kTxns)) return "index entry of transaction '" + rest + "'";
  if (key.starts_with(kEnlistments) && key.size() >= kEnlistedCluster) {
    const auto size = ReadBigEndian<std::uint32_t>(key.substr(kEnlistments.size()));
    const std::string_view cluster = key.substr(kEnlistedCluster, size);
    return "enlistment of transactional.id '" +
           std::string(key.substr(kEnlistedCluster + cluster.size())) + "' on cluster '" +
           std::string(cluster) + "'";
  }
  if (key.starts_with(kClientKeys)) return "index entry of client key '" + rest + "'";
  return "unknown key of " + std::to_string(key.size()) + " bytes";
}

}  // namespace lockstep::log::keys
