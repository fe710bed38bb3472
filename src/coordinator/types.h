#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "txn/types.h"

/// What goes into the coordinator's calls, and what comes out.
namespace lockstep::coordinator {

/// Bounds on everything that clients can make grow. Full means kResourceExhausted.
struct Limits {
  std::size_t open_txns = 10'000;
  std::size_t txn_bytes = 16u << 20;             ///< Buffered work of one transaction.
  std::size_t txn_records = 100'000;             ///< Records and offsets of one transaction.
  std::size_t client_buffer_bytes = 128u << 20;  ///< Buffered work of all that one client began.
  std::size_t buffer_bytes = 256u << 20;         ///< Buffered work of all transactions.
  Duration max_txn_timeout = std::chrono::minutes(15);
  std::size_t recent_outcomes = 10'000;     ///< Finished transactions kept in memory with reasons.
  std::size_t recent_positions = 1u << 20;  ///< Records of those whose positions are kept.
  std::size_t registrations = 100'000;      ///< Of clients' own producers; then the oldest go.
  std::size_t batch_txns = 1'000;           ///< That commit together.
  /// Buffered work of those together; a transaction of more does not share a batch.
  std::size_t batch_bytes = 1u << 20;
};

struct CoordinatorOptions {
  Limits limits;
  /// A batch that is not prepared on every cluster by then is aborted.
  Duration prepare_timeout = std::chrono::seconds(30);
  /// COMMIT is not decided unless this much remains before Kafka may abort a participant.
  Duration deadline_margin = std::chrono::seconds(10);
};

struct BranchView {
  ClusterName cluster;
  txn::ParticipantOutcome outcome = txn::ParticipantOutcome::kPending;
  std::optional<txn::ParticipantName> participant;  ///< Once prepared, if it wrote anything.
  bool enlisted = false;         ///< The client's own producer's; `participant` from Enlist on.
  bool reinit_required = false;  ///< Enlisted: see txn::BatchParticipant.
  std::string problem;           ///< Why it is still in doubt, or what went wrong; for people.
  std::vector<txn::TopicPartition> missing_markers;  ///< See Coordinator::RepairMarkers.
  txn::Positions positions;  ///< Once prepared, if whoever committed wanted them; memory only.
};

/// What a client may know of a transaction.
struct TxnView {
  GlobalTxnId id;
  txn::GlobalTxnState state = txn::GlobalTxnState::kActive;
  std::string label;
  std::string key;  ///< Of Submit; empty: begun by Begin.
  WallTime began_at;
  WallTime expires_at;
  WallTime decided_at;              ///< 0: not decided.
  WallTime ended_at;                ///< 0: not final, or not known any more.
  std::uint64_t next_sequence = 0;  ///< What the next AddWork must carry; kActive only.
  std::uint64_t revision = 1;       ///< Counts what changed, within one start.
  txn::Refusal refusal;             ///< kAborted, kAborting: why. Reason kNone if no longer known.
  std::vector<BranchView> branches;
};

/// A decided batch with a participant that is not known complete, or a heuristic one that nobody
/// acknowledged.
struct InDoubtView {
  BatchId batch;
  WallTime decided_at;
  std::vector<GlobalTxnId> members;
  txn::GlobalTxnState state = txn::GlobalTxnState::kCommitting;
  std::vector<BranchView> branches;
};

enum class WaitFor : std::uint8_t {
  kComplete,  ///< Every participant is known to be committed (OUTCOME_COMMITTED in txn.proto).
  kDecided,   ///< COMMIT is durable: it will be completed, whatever crashes.
};

/// Whose transactions they are. Nobody's where nobody is authenticated.
struct Owner {
  std::string name;                                                 ///< IsOwnerName, or empty.
  std::size_t open_txns = std::numeric_limits<std::size_t>::max();  ///< The most of his.
};

/// What a client says that its own producer wrote, flushed and acknowledged.
struct EnlistedWork {
  /// The highest acknowledged offset; -1: not told, the broker is asked.
  std::map<txn::TopicPartition, std::int64_t> partitions;
  std::set<std::string> group_ids;  ///< Whose offsets were sent in the transaction.
  bool read_only = false;           ///< Nothing at all: the two above are empty.
};

struct CommitOptions {
  WaitFor wait = WaitFor::kComplete;
  /// How long to wait, once decided, for kComplete; after it the answer is kCommitting. Time before
  /// the decision is bounded by the prepare timeout and the transaction's own.
  std::optional<Duration> max_wait;
  /// The views of who commits shall tell where each record was written.
  bool want_positions = false;
  /// By registration id: one for each enlisted branch, unless the transaction is decided.
  std::map<std::string, EnlistedWork> enlisted;
};

/// A producer of a client's own.
struct Registered {
  std::string id;                                            ///< Opaque.
  txn::EndTxnProtocol protocol = txn::EndTxnProtocol::kTv1;  ///< What its transactions end with.
};

/// What the client's library says of the producer.
struct ToldProducer {
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
};

/// A registered producer, to be enlisted.
struct Enlistee {
  std::string registration;
  std::optional<ToldProducer> told;
};

/// A transaction to begin together with its enlisted branches.
struct Beginning {
  Duration timeout{};
  std::string label;
  std::string client;              ///< As in Begin.
  Owner owner;                     ///< As in Begin, and of the registrations.
  std::vector<Enlistee> enlisted;  ///< At least one; each registration once.
  /// Nobody waits for the answer any more. Called on the executor until `done` is.
  std::function<bool()> gone;
};

/// A whole transaction, under a client's key.
struct Submission {
  std::string client;  ///< As in Begin.
  Owner owner;         ///< As in Begin; the same key of another owner is another key.
  struct Part {
    ClusterName cluster;
    txn::BranchWork work;
    std::optional<KafkaClusterId> expected_cluster;  ///< As in AddWork.
  };
  txn::ClientKey key;
  Duration timeout{};
  std::string label;
  std::vector<Part> parts;
  bool want_positions = false;
};

struct Submitted {
  GlobalTxnId id;         ///< Of the run that the key stands for.
  bool repeated = false;  ///< It had committed, or was running, before.
  /// The key stands for other work: nothing was done, and the id is not this caller's to know.
  bool other_work = false;
};

/// Which transactions to list.
struct ListFilter {
  std::vector<txn::GlobalTxnState> states;  ///< None: all.
  std::string label_prefix;
  std::optional<std::string> owner;  ///< None: everybody's.
};

struct TxnPage {
  std::vector<TxnView> txns;
  bool more = false;
};

/// Names one wait for a change, so that it can be given up.
using WatchId = std::uint64_t;

struct TxnChange {
  TxnView view;
  bool final = false;   ///< It will not change any more.
  bool waited = false;  ///< It changed just now.
};

}  // namespace lockstep::coordinator
