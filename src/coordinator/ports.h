#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "txn/resolve.h"
#include "txn/types.h"

/// What the coordinator needs of the world. Adapters implement these (log, kafka, server), and so
/// does the simulation. Every callback may be called on any thread, but never from inside the call
/// that took it, and exactly once unless said otherwise.
namespace lockstep::coordinator {

template <typename... Args>
using Callback = std::function<void(Args...)>;

/// Runs the coordinator: one thing at a time, in the order of Post. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(std::function<void()> task) = 0;
  using TimerId = std::uint64_t;
  /// Runs `task` after at least `delay`, unless cancelled first.
  virtual TimerId PostAfter(Duration delay, std::function<void()> task) = 0;
  /// From inside a task: a timer that is cancelled does not run. Unknown ids are ignored.
  virtual void Cancel(TimerId timer) = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// ---- The decision log --------------------------------------------------------------------------

/// A decided participant's outcome.
struct Completion {
  BatchId batch;
  std::uint32_t participant = 0;  ///< Index into the decision's participants.
  txn::ParticipantOutcome outcome = txn::ParticipantOutcome::kPending;
};

/// An operator's order about one participant of a decision.
struct StoredOrder {
  BatchId batch;
  std::uint32_t participant = 0;  ///< Index into the decision's participants.
  txn::OperatorOrder order;
};

/// How large a log is.
struct LogStats {
  std::uint64_t decisions = 0;   ///< Kept, complete ones included.
  std::uint64_t kept_bytes = 0;  ///< Their weight against the size limit.
  std::uint64_t disk_bytes = 0;  ///< What the folder takes on the disk.
  std::uint64_t syncs = 0;       ///< Of what was written, since it was opened.
  std::uint64_t queued = 0;      ///< Appends that wait to be written.
  /// What each write with its sync took, in seconds.
  Histogram sync_seconds{kSecondsBounds};
};

/// What opening the log found.
struct RecoveredLog {
  LogId log_id;
  Incarnation incarnation;                ///< This start's number: already durable.
  BatchId next_batch;                     ///< Above every batch that was ever stored.
  std::vector<txn::Decision> incomplete;  ///< Some participant is pending. Oldest first.
  std::vector<txn::Decision> heuristic;   ///< Complete, heuristic, not acknowledged.
  /// Enlisted, and covered by no decision: to be aborted. Those of a log that this one was restored
  /// from are not among them.
  std::vector<txn::Enlistment> enlisted;
  /// Outcomes of transactions begun, and of clients' keys born, up to here may have been forgotten
  /// (M19).
  WallTime horizon;
  /// The logs that this one was restored from, the latest last. It holds what they had decided by
  /// the backup; what they decided later is unknown. Their lanes are not its own: they are resolved
  /// by name, and never initialised (M22).
  std::vector<LogId> origins;
  WallTime restored_at;  ///< From the latest of them; 0: it is an original.
};

/// A copy of a log as it stood at one moment, read piece by piece. One thread, which it may block.
/// The log outlives it, and does not wait for it.
class LogBackup {
 public:
  virtual ~LogBackup() = default;
  /// The next bytes, 1 MiB at most. Empty: all was told, the mark of its end included.
  virtual Result<std::string> Next() = 0;
};

/// The durable COMMIT decisions (presumed abort: no record means abort). Thread-safe.
///
/// Each append is atomic. `done` gets OK once the record is durable: it survives the loss of power.
/// On the first failed write or sync every `done`, then and later, gets an error whose effect is
/// Unknown, and the log stays failed: the process must answer OUTCOME_UNKNOWN, exit and recover.
class DecisionLog {
 public:
  virtual ~DecisionLog() = default;

  /// Read at opening; does not change.
  virtual const RecoveredLog& recovered() const = 0;

  /// Synced at once; appends that arrive while a sync runs share the next one.
  virtual void StoreDecision(txn::Decision decision, Callback<Status> done) = 0;
  /// Durable with the next sync of anything, 50 ms later at most; synced at once if it is `urgent`.
  virtual void StoreCompletion(Completion completion, bool urgent, Callback<Status> done) = 0;
  /// Replaces what is kept for the same cluster and transactional.id (rule M14). Not synced: a
  /// crash may lose it. A decision that covers its transaction, and EndEnlistment, make it void.
  virtual void StoreEnlistment(txn::Enlistment enlistment) = 0;
  /// The enlisted participant of this id is settled, or was never decided and is aborted. Not
  /// synced.
  virtual void EndEnlistment(ClusterName cluster, TransactionalId id) = 0;
  /// An operator has seen a heuristic outcome. Synced at once.
  virtual void StoreAcknowledgement(BatchId batch, Callback<Status> done) = 0;
  /// Only for a participant that is pending. Replaces an earlier order. Synced at once.
  virtual void StoreOrder(StoredOrder order, Callback<Status> done) = 0;
  /// Binds a configured name to a Kafka cluster id. Synced at once. Replaces an older binding.
  virtual void StoreBinding(ClusterName cluster, KafkaClusterId id, Callback<Status> done) = 0;

  /// This log is an older copy of one that went on without it: every later opening refuses, saying
  /// `why`. Synced at once.
  virtual void StoreSuperseded(std::string why, Callback<Status> done) = 0;

  /// The binding that is durable now. Blocking, memory only.
  virtual std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const = 0;
  /// The decision that covers a transaction: completed ones too, until forgotten. Blocking: may
  /// read the disk.
  virtual Result<std::optional<txn::Decision>> Find(const GlobalTxnId& txn) const = 0;
  /// The decision one of whose members was run under this client's key; as Find.
  virtual Result<std::optional<txn::Decision>> FindKey(const std::string& key) const = 0;
  /// The horizon as it is now: see RecoveredLog.
  virtual WallTime Horizon() const = 0;
  /// Blocking: looks at the folder's files.
  virtual Result<LogStats> Stats() const = 0;
  /// As the log is now: with every append whose `done` was called. Blocking, for a moment.
  virtual Result<std::unique_ptr<LogBackup>> Backup() const = 0;
};

// ---- Clusters ----------------------------------------------------------------------------------

/// One participant: a Kafka transaction that we open on a lane of one cluster, or that a client's
/// own producer opens (EnlistedParticipant). Called by the coordinator's executor only, never
/// blocks.
///
/// The order is Prepare, then Commit or Abort once, then Release once (after a read-only vote:
/// Release alone). If the work is streamed, any number of Write and then Finish come after Prepare.
/// Abort may come while Prepare still runs, or in its place. Destroying it before
/// Release leaves its transactional.id untouched by this process from then on.
class Participant {
 public:
  virtual ~Participant() = default;

  /// Takes a lane, begins a Kafka transaction, writes the work, and votes. Gives up with a NO vote
  /// at `give_up`. Never votes twice; does not vote at all if Abort came first. A NO names the
  /// culprits among the members that it knows of.
  ///
  /// If `work.streamed`, its one member is empty, and the work comes by Write. A NO may come at any
  /// time, and so before Kafka's own timeout ends the transaction; any other vote after Finish.
  virtual void Prepare(txn::BatchWork work, MonoTime give_up, Callback<txn::Vote> vote) = 0;
  /// The next piece, of records and offsets. `written` once its records are acknowledged, before
  /// the vote: their memory is free. Never called for what is refused, or aborted first. Managed
  /// ones only.
  virtual void Write(txn::BranchWork piece, Callback<> written) = 0;
  /// That was all of it. From now on `give_up` counts.
  virtual void Finish(MonoTime give_up, bool want_positions) = 0;

  /// Ends it with COMMIT; only after a durable decision. OK: the broker durably said COMMIT. An
  /// error tells nothing (whatever its effect says): resolve it by name. The lane is then never
  /// aborted or initialised before Release (rule M17).
  virtual void Commit(Callback<Status> done) = 0;

  /// Ends it with ABORT; only if no decision was or will be written. `done` comes once the broker
  /// is known to have aborted it, or the lane was set aside to be renewed, which aborts it; true:
  /// neither, or an EndTxn of ours may be on its way still, so that its owner must have the
  /// producer's epoch raised (never told of a lane, which sees to that itself).
  virtual void Abort(Callback<bool> done) = 0;

  /// Whatever it was is durably settled. A clean lane returns to the pool; any other gets a new
  /// producer epoch first (InitProducerId).
  virtual void Release() = 0;
};

enum class ClusterState : std::uint8_t {
  kConnecting,   ///< Not reached since the start.
  kReady,        ///< Reached, identified, earlier incarnations fenced, lanes available.
  kUnreachable,  ///< Was ready; no broker answers now.
  kMismatch,     ///< Answers as another Kafka cluster than the one bound: refused.
  kRefused,      ///< Not usable for another reason that an operator must mend (in `problem`).
};
std::string_view Name(ClusterState state);

struct ClusterStatus {
  ClusterState state = ClusterState::kConnecting;
  KafkaClusterId kafka_cluster_id;  ///< Empty until reached.
  std::string problem;              ///< For people: what is wrong and the way out.
  /// Its brokers may complete without markers (KAFKA-20734), as far as is known: true until
  /// reached.
  bool check_markers = true;
  std::int16_t transaction_version = 0;  ///< The finalized feature; 0 until reached.
  int lanes_max = 0;                     ///< As configured.
  int lanes_idle = 0;
  int lanes_busy = 0;
  int lanes_renewing = 0;
  std::uint64_t kafka_requests = 0;  ///< Sent to its brokers so far.
};

/// An open transaction of a lane of another decision log.
struct Orphan {
  TransactionalId transactional_id;
  LogId log_id;  ///< Whose lane it is; not needed to end it.
  txn::TxnDescription description;
};
struct OrphanListing {
  std::vector<Orphan> orphans;
  std::vector<std::string> problems;  ///< What could not be asked; for people.
};

/// One cluster, as the coordinator uses it. Its calls never block. Every `Callback` is bounded in
/// time: a cluster that does not answer yields kUnavailable or kDeadlineExceeded.
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual const ClusterName& name() const = 0;
  virtual ClusterStatus status() const = 0;  ///< Thread-safe.

  /// Connects, checks the Kafka cluster id against the log's binding (binding it at first sight),
  /// fences the lanes of earlier incarnations except the ids in `pending` (their decisions come
  /// first), then opens its own lanes. Goes on in the background for as long as it lives.
  ///
  /// `superseded` is called, in words for people, if the cluster holds lanes of this log that this
  /// start has not opened and no earlier one can have: the log is an older copy. What others
  /// decided is unknown to it, so nothing may be fenced, and nothing more decided, by this process.
  virtual void Start(std::vector<TransactionalId> pending, Callback<std::string> superseded) = 0;
  /// A pending id of an earlier incarnation is durably settled: fence it too (InitProducerId).
  virtual void FencePending(TransactionalId id) = 0;

  /// A new managed participant. Cheap: takes no lane before Prepare.
  virtual std::unique_ptr<Participant> NewParticipant() = 0;

  // Resolution by name, from any process, after any crash. Retried by the caller. Each refuses with
  // kFailedPrecondition while the cluster's id is not the participant's.

  virtual void Describe(const txn::ParticipantName& name,
                        Callback<Result<txn::TxnDescription>> done) = 0;
  /// One EndTxn with the participant's own version, not retried. A managed participant gets kAbort
  /// only on an operator's order: one that was never decided is aborted by its lane.
  virtual void EndTxn(const txn::ParticipantName& name, txn::Direction direction,
                      Callback<txn::EndTxnAnswer> done) = 0;
  /// Where the next record of each partition will be written, in their order: behind all that was
  /// acknowledged by now, before any marker that is not written yet. Fails if one is not told.
  virtual void LogEnds(std::vector<txn::TopicPartition> partitions,
                       Callback<Result<std::vector<txn::Evidence>>> done) = 0;
  /// Whether a consumer group of this name lives here, of either kind (classic, KIP-848).
  virtual void KnowsGroup(std::string group_id, Callback<Result<bool>> done) = 0;
  /// For each piece of evidence, the first marker of the producer at or after it.
  virtual void ReadMarkers(const txn::PreparedParticipant& participant,
                           Callback<Result<std::vector<txn::MarkerFound>>> done) = 0;
  /// The partitions on which no COMMIT marker stands after the evidence.
  virtual void CheckMarkers(const txn::PreparedParticipant& participant,
                            Callback<Result<std::vector<txn::TopicPartition>>> done) = 0;
  /// Writes the missing COMMIT markers (raw WriteTxnMarkers). Needs ClusterAction or Alter.
  virtual void RepairMarkers(const txn::PreparedParticipant& participant,
                             std::vector<txn::TopicPartition> partitions,
                             Callback<Status> done) = 0;

  // Orphans: open transactions of lanes of other decision logs. An operator's business alone. Each
  // is refused with kUnavailable before the cluster was reached.

  /// What the brokers show now. Lanes of a lockstepd that lives are among them: nothing tells the
  /// two apart but the operator's knowledge.
  virtual void ListOrphans(Callback<Result<OrphanListing>> done) = 0;
  /// Ends one that still is what `orphan` says (producer id, epoch, start time); OK: the broker
  /// shows it ended, as in the answer. kFailedPrecondition: it is another one by now, or is not
  /// open; kInvalidArgument: not the id of a lane, or one of our own log.
  virtual void EndOrphan(Orphan orphan, txn::Direction direction,
                         Callback<Result<txn::TxnDescription>> done) = 0;
};

}  // namespace lockstep::coordinator
