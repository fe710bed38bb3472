#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What transactions are made of, and how they end: plain values. Kafka's words for Kafka's things.
namespace lockstep::client {

using WallTime = std::chrono::system_clock::time_point;

// ---- Work ---------------------------------------------------------------------------------------

struct Header {
  std::string key;
  std::optional<std::string> value;  ///< Null and empty are different in Kafka.
};

struct Record {
  std::string topic;
  std::optional<std::string> key;         ///< None is null, which is not empty.
  std::optional<std::string> value;       ///< None is null: a tombstone.
  std::optional<std::int32_t> partition;  ///< None: as the Java client's partitioner chooses.
  std::vector<Header> headers;
  std::optional<WallTime> timestamp;  ///< Kafka keeps milliseconds. None: the time of sending.
};

/// Who commits consumer offsets (Java's ConsumerGroupMetadata, KIP-447). The broker fences a stale
/// member only by what it is told here.
struct ConsumerGroup {
  std::string id;
  std::int32_t generation = -1;  ///< The member epoch in a KIP-848 group.
  std::string member_id;
  std::optional<std::string> instance_id;
  /// The caller vouches that nobody else commits for this group: no generation, no member id, and
  /// so no fencing by the broker.
  bool standalone = false;
};

struct Offset {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;  ///< The next one to read: last processed + 1.
  std::optional<std::int32_t> leader_epoch;
  std::string metadata;
};

struct GroupOffsets {
  ConsumerGroup group;
  std::vector<Offset> offsets;  ///< At least one; each partition once.
  /// The Kafka cluster id that the consumer saw. If set, the server refuses the offsets
  /// (kWrongState) unless the named cluster has it.
  std::string kafka_cluster_id;
};

/// What a whole transaction does on one cluster; see Client::Execute.
struct Work {
  std::string cluster;
  std::vector<Record> records;
  std::optional<GroupOffsets> offsets;
};

// ---- Outcomes -----------------------------------------------------------------------------------

enum class Outcome {
  kCommitted,   ///< On every cluster, and visible to read_committed consumers there.
  kAborted,     ///< On no cluster, now and later.
  kCommitting,  ///< COMMIT is durable and under way. It will not abort; ask again for its end.
  kHeuristic,   ///< Clusters disagree, or one cannot be known: see the branches.
};
std::string_view Name(Outcome outcome);  ///< "COMMITTED".

enum class BranchOutcome {
  kPending,  ///< Not known yet: being asked.
  kCommitted,
  kAborted,
  kUnknown,  ///< Cannot be known any more: no evidence is left.
};
std::string_view Name(BranchOutcome outcome);

/// What a transaction did on one cluster.
struct Branch {
  std::string cluster;
  BranchOutcome outcome = BranchOutcome::kPending;
  std::string problem;           ///< Why it is still pending, or what went wrong; for people.
  std::string transactional_id;  ///< As the brokers know it. Empty: nothing was written there.
  /// Of an enlisted producer: it must be closed without ending anything, registered anew and
  /// re-created. Whatever the outcome is.
  bool reinit_required = false;
};

/// Why a transaction aborted.
struct Abort {
  /// As in lockstep/v1/txn.proto without its prefix: "UNKNOWN_TOPIC", "TXN_TIMEOUT" ... More will
  /// come. Empty: no longer kept.
  std::string reason;
  std::string cluster;     ///< Empty where no cluster is to blame.
  std::string message;     ///< For people.
  bool retryable = false;  ///< The same work, begun anew, may well succeed.
};

struct TxnResult {
  Outcome outcome = Outcome::kAborted;
  std::vector<Branch> branches;
  Abort abort;  ///< kAborted only.
};

enum class TxnState {
  kActive,     ///< Takes work.
  kPreparing,  ///< Commit was called; not decided. It may still abort.
  kCommitting,
  kCommitted,
  kAborting,  ///< It will never commit; some cluster may not have been told yet.
  kAborted,
  kHeuristic,
};
std::string_view Name(TxnState state);

struct TxnInfo {
  std::string id;
  std::string label;
  TxnState state = TxnState::kAborted;
  WallTime began_at;    ///< The server's clock.
  WallTime expires_at;  ///< The server's clock.
  std::vector<Branch> branches;
  Abort abort;  ///< kAborting and kAborted only.
};

}  // namespace lockstep::client
