#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "coordinator/batch_runner.h"
#include "coordinator/batcher.h"
#include "coordinator/enlisted_participant.h"
#include "coordinator/enlistments.h"
#include "coordinator/outcomes.h"
#include "coordinator/ports.h"
#include "coordinator/stats.h"
#include "coordinator/types.h"
#include "txn/types.h"

namespace lockstep::coordinator {

/// Global transactions from Begin to their outcome, over the ports. All public calls are
/// thread-safe, return at once and answer through their callback on the executor; a callback must
/// not block. An OK from Commit or Abort carries an outcome, also ABORTED: errors are for calls.
///
/// Errors common to all that take an id: kInvalidArgument (not an id of ours by its form),
/// kNotFound (another log's id, an outcome no longer kept, or one that a restored log does not
/// hold). After the log failed, or was found to be an older copy, every call gets kUnavailable with
/// effect Unknown: OUTCOME_UNKNOWN, ask the instance that comes after this one.
class Coordinator : private BatchRunner::Listener {
 public:
  /// Every cluster that a transaction may name. `on_fatal` is called once, on the executor, when
  /// the log failed or is an older copy: the process must exit.
  Coordinator(CoordinatorOptions options, Executor& executor, const Clock& clock, DecisionLog& log,
              std::vector<Cluster*> clusters, Callback<Error> on_fatal);
  /// Only when nothing will call back any more: executor stopped, clusters stopped.
  ~Coordinator() override;

  /// Recovery, then service: takes up every incomplete decision of the log and starts the
  /// clusters. kFailedPrecondition, and nothing started, if a pending decision names a cluster that
  /// is not configured. Call once, before any other call.
  Status Start();

  /// Takes another cluster into service, whose name is new. It outlives this.
  void AddCluster(Cluster* cluster);
  /// From now on these count. What is over a new limit already stays; nothing is added to it.
  void Reconfigure(CoordinatorOptions options);

  /// `client` is whom the buffers are charged to: see Limits. `owner` becomes part of the id: who
  /// may ask for it is for the caller of this class to judge. Nothing is written to disk.
  /// kInvalidArgument: a timeout that is not positive or above the limit. kResourceExhausted: too
  /// many open transactions. kFailedPrecondition: draining.
  void Begin(Duration timeout, std::string label, Callback<Result<TxnView>> done,
             std::string client = {}, Owner owner = {});

  /// Buffers work for one cluster. `sequence` counts the calls on this transaction from 0, so that
  /// a repeated call is applied once: one below the next is OK and changes nothing, one above it is
  /// kFailedPrecondition. `expected_cluster` is the Kafka cluster id that the caller's consumer
  /// saw: kFailedPrecondition if the named cluster has another. On any error nothing was added and
  /// the transaction goes on.
  void AddWork(GlobalTxnId id, ClusterName cluster, txn::BranchWork work, std::uint64_t sequence,
               std::optional<KafkaClusterId> expected_cluster, Callback<Status> done);

  /// Decides, unless it is decided, and answers with the outcome so far. Idempotent: any number of
  /// calls, also after a crash, get the same outcome. kInvalidArgument, and nothing happened: what
  /// an enlisted branch wrote is not told, or kDecided is asked for with one (rule M12).
  void Commit(GlobalTxnId id, CommitOptions options, Callback<Result<TxnView>> done);

  /// A client's own producer, before its initTransactions(): waits until nothing is unfinished on
  /// the id, aborts what is undecided there, and voids the registration before (rule M21). kTv2 is
  /// taken for kTv1 where the cluster's transaction.version is below 2. kUnavailable: the cluster
  /// was not reached, or the wait took longer than the prepare timeout; the registration before is
  /// void then too. For others than its owner's transactions the registration does not exist.
  void RegisterProducer(ClusterName cluster, TransactionalId id, txn::EndTxnProtocol protocol,
                        Callback<Result<Registered>> done, std::string owner = {});

  /// Binds the registered producer's next Kafka transaction to the global one (rules M9, M10). OK:
  /// it may write. Idempotent. kFenced: the registration is void, of another start, or must be
  /// renewed. kFailedPrecondition: the transaction or the producer is not in the state for it.
  /// kUnavailable: the cluster does not answer, or what the producer did before takes long to end.
  /// On any error nothing was added.
  void Enlist(GlobalTxnId id, std::string registration, std::optional<ToldProducer> told,
              Callback<Status> done);

  /// Begin and Enlist in one: begins once every one of them may write, and enlists them all, or
  /// begins nothing. While a transaction with just these branches is ACTIVE, that one is the
  /// answer, so a call whose answer was lost may be repeated. Errors as Begin and Enlist, the
  /// latter's with the place in `enlisted` before them. Nothing is begun for who is gone.
  void BeginEnlisted(Beginning beginning, Callback<Result<TxnView>> done);

  /// Begins a whole transaction and has it committed, unless its key did before: then nothing is
  /// begun, and the answer names that run. Either way Commit(id) waits for the outcome. A key whose
  /// run aborted, or of which no decision was ever logged, begins anew.
  ///
  /// kNotFound: the key is not known, and older than the horizon, or than a restored log: it may
  /// have committed and be forgotten. kInvalidArgument: also a key from the future. Else as Begin
  /// and AddWork; on any error nothing was begun.
  void Submit(Submission submission, Callback<Result<Submitted>> done);

  /// Aborts unless COMMIT is decided; then the answer's state says so. Idempotent.
  void Abort(GlobalTxnId id, Callback<Result<TxnView>> done);

  void Get(GlobalTxnId id, Callback<Result<TxnView>> done);
  /// Open transactions and those that ended lately, in the order of their begin; those that began
  /// after `after`, `count` at most. Looks at all of them: a few milliseconds for some ten
  /// thousand.
  void List(ListFilter filter, std::optional<GlobalTxnId> after, std::size_t count,
            Callback<Result<TxnPage>> done);

  /// Answers once the transaction's revision is not `seen`: at once, if it is another one or the
  /// outcome is final. Exactly one answer; CancelWatch ends the wait with kAborted. `watch` is
  /// the caller's, and unique.
  void AwaitChange(WatchId watch, GlobalTxnId id, std::uint64_t seen,
                   Callback<Result<TxnChange>> done);
  void CancelWatch(WatchId watch);
  /// Whoever waits for a change, now or later, gets kUnavailable: the process is leaving.
  void EndWatches();
  /// A number that no other wait has. Thread-safe.
  WatchId NewWatch() { return next_watch_++; }

  void ListInDoubt(Callback<std::vector<InDoubtView>> done);

  /// Writes the markers that a broker lost (KAFKA-20734) for a branch whose `missing_markers` is
  /// not empty, then looks again. kFailedPrecondition where none is known to be missing.
  void RepairMarkers(GlobalTxnId id, ClusterName cluster, Callback<Status> done);

  /// An operator's order about one branch of a decided transaction whose outcome is pending. It is
  /// durable and obeyed when answered, with the transaction as it then stands; see txn::OrderKind
  /// and OrderProblem. `order.given_at` is set here. A branch whose outcome is known already
  /// answers OK if the order asks for that outcome.
  void Resolve(GlobalTxnId id, ClusterName cluster, txn::OperatorOrder order,
               Callback<Result<TxnView>> done);

  /// Whether Begin is refused, until further notice or a restart. What is under way goes on.
  /// `done` is told how many transactions are open.
  void SetAdmission(bool admit, Callback<Result<std::size_t>> done);

  /// An operator has seen the heuristic outcome; durable when answered. Idempotent.
  void AcknowledgeHeuristic(GlobalTxnId id, Callback<Status> done);

  /// What was counted, and how things stand. Answers after the log failed, too.
  void Read(Callback<Reading> done);

  /// Refuses Begin from now on, aborts what is undecided, and calls `done` once nothing is in
  /// flight (heuristics and clusters that are down do not end: bound it by a timer of your own).
  void Drain(Callback<> done);

 private:
  struct Waiter {
    WaitFor wait = WaitFor::kComplete;
    std::optional<Duration> max_wait;
    Callback<Result<TxnView>> done;
    std::optional<Executor::TimerId> timer;  // Runs once decided, if max_wait was given.
  };

  /// A transaction whose outcome is not final.
  struct OpenTxn {
    TxnView view;
    /// Until the decision: what another member of its batch spoils is tried again. Not changed any
    /// more from Commit on.
    std::map<ClusterName, std::shared_ptr<txn::BranchWork>> work;
    std::map<ClusterName, std::unique_ptr<EnlistedParticipant>> enlisted;  // Until it ends.
    bool has_enlisted() const;
    bool streams_to(const ClusterName& cluster) const {
      return std::ranges::find(streams, cluster) != streams.end();
    }
    std::string client;
    std::string owner;
    std::size_t bytes = 0;
    std::size_t records = 0;
    MonoTime expires{};
    std::optional<Executor::TimerId> expiry;
    std::shared_ptr<BatchRunner> runner;  // From Commit on, unless it waits for a batch.
    std::size_t member = 0;               // Of the runner's members.
    std::optional<MonoTime> commit_asked;
    MonoTime in_line_since{};
    bool waits_for_batch() const {
      return view.state == txn::GlobalTxnState::kPreparing && runner == nullptr;
    }
    std::list<Waiter> waiters;
    /// Where it is written before Commit: in the order of the runner's first participants.
    std::vector<ClusterName> streams;
    std::size_t on_their_way = 0;          // Of `bytes`: written, and not acknowledged.
    std::vector<Callback<Status>> paused;  // Work that was taken, answered once less is on its way.
    std::optional<txn::ClientKey> key;
    bool want_positions = false;
  };

  // BatchRunner::Listener.
  void OnDecided(BatchRunner& runner) override;
  void OnChanged(BatchRunner& runner) override;
  void OnOutcome(BatchRunner& runner, txn::GlobalTxnState outcome) override;
  void OnDone(BatchRunner& runner) override;
  void OnLogFailed(const Error& error) override;

  /// A cluster found that the log is an older copy: see Cluster::Start.
  void OnSuperseded(const std::string& why);
  /// From now on every call, and everyone who waits, gets this.
  void RefuseAll(Error error);

  /// Runs `task` on the executor, or `refuse` with the error if the log failed.
  void Post(std::function<void()> task, std::function<void(const Error&)> refuse);
  Cluster* FindCluster(const ClusterName& name) const;
  BatchRunner::Ports RunnerPorts();

  Status CheckWork(const OpenTxn& txn, const ClusterName& cluster, const txn::BranchWork& work,
                   const std::optional<KafkaClusterId>& expected) const;
  Status CheckRoom(const OpenTxn& txn, std::size_t bytes, std::size_t records) const;
  void Charge(OpenTxn& txn, std::size_t bytes, std::size_t records);
  void GiveBack(OpenTxn& txn) { GiveBack(txn, txn.bytes); }  ///< What was charged for it.
  void GiveBack(OpenTxn& txn, std::size_t bytes);
  Status TakeWork(OpenTxn& txn, const ClusterName& cluster, txn::BranchWork work,
                  std::uint64_t sequence, const std::optional<KafkaClusterId>& expected);
  // Large transactions are written before Commit: streaming.cc.
  /// Writes what is buffered once it is enough, where it may.
  void Stream(OpenTxn& txn);
  void WriteBuffered(OpenTxn& txn);
  bool MayStream(const ClusterName& cluster) const;
  void StartStream(OpenTxn& txn, const ClusterName& cluster);
  /// So much is on its way that its client has to wait.
  bool IsFull(const OpenTxn& txn) const;
  void WritePiece(OpenTxn& txn, std::size_t stream, txn::BranchWork piece);
  /// Answers what was taken, now or once less of it is on its way.
  void AnswerTaken(OpenTxn& txn, Callback<Status> done);
  void CommitStreamed(OpenTxn& txn);
  /// Its lanes are not held for its client any more.
  void EndStreams(OpenTxn& txn, const Status& paused);
  Status CheckAdmission() const;
  Result<OpenTxn*> Open(Duration timeout, std::string label, std::string client,
                        const Owner& owner);
  /// It counts among its owner's open ones, and no longer.
  void CountIn(OpenTxn& txn, std::string owner);
  void CountOut(const OpenTxn& txn);
  void Expire(const GlobalTxnId& id);
  void Discard(const GlobalTxnId& id);  ///< Of an open one that nobody was told of.
  Result<Submitted> TakeSubmission(Submission submission);
  /// The run that the key stands for; none: it may run.
  Result<std::optional<Submitted>> FindRun(const txn::ClientKey& key) const;
  void StartCommit(OpenTxn& txn);
  /// Has the batches begin that may: see Batcher.
  void FormBatches();
  void FormBatchesAt(std::optional<MonoTime> time);  ///< Or sooner.
  void PrepareInTurn(const Batcher::Turn& turn);
  /// Its turns where it does not write any more, and its line once it has ended.
  void LeaveTurns(const BatchRunner& runner);
  /// In a batch of its own, beside the others.
  void CommitAlone(OpenTxn& txn);
  /// The runner takes over what is enlisted; it gets the work only if it is to prepare.
  std::shared_ptr<BatchRunner> StartRunner(const std::vector<GlobalTxnId>& members, bool prepare);
  /// Of a new batch, which is its members' from now on.
  std::shared_ptr<BatchRunner> NewRunner(const std::vector<GlobalTxnId>& members,
                                         std::vector<txn::MemberKey> keys,
                                         std::vector<BatchRunner::Branch> branches);
  /// Who spoiled it is told so; the others are tried again.
  void OnAborted(const BatchRunner& runner);
  void TryAgain(const BatchRunner& runner, const std::vector<std::size_t>& members);
  Status CheckEnlistedWork(const OpenTxn& txn, const CommitOptions& options) const;

  // Clients' own producers: enlisting.cc.
  struct Enlisting;
  void Register(const EnlistedId& producer, txn::EndTxnProtocol protocol, const std::string& owner,
                const Callback<Result<Registered>>& done);
  void TryEnlist(const std::shared_ptr<Enlisting>& enlisting);
  Status CheckEnlist(const OpenTxn& txn, const Enlistments::Registration& registration) const;
  /// Its producer may begin another transaction, once nothing is held on the id.
  Status CheckFree(const Enlistments::Registration& registration) const;
  /// Asks the broker for what the registration is to be bound to. OK: that is known, or the
  /// registration is void by now.
  void AskBound(const Enlistments::Registration& registration, Callback<Status> done);
  Status TakeBound(const std::string& registration, const std::string& owner,
                   const Result<txn::TxnDescription>& description);
  struct BeginningEnlisted;
  void TryBeginEnlisted(const std::shared_ptr<BeginningEnlisted>& beginning);
  Result<TxnView> BeginWith(const Beginning& beginning,
                            const std::vector<Enlistments::Registration*>& registrations);
  /// The transaction that an earlier call with the same words began.
  const OpenTxn* FindBegun(const Beginning& beginning,
                           const std::vector<Enlistments::Registration*>& registrations) const;
  void Bind(OpenTxn& txn, Enlistments::Registration& registration,
            const txn::ProducerInstance& producer);
  /// Runs `then` once nothing is held on the id, or `late` at `give_up`.
  void WhenFree(const EnlistedId& producer, MonoTime give_up, std::function<void()> then,
                std::function<void()> late);
  EnlistedParticipant::Ports EnlistedPorts(Cluster& cluster);
  static std::string RegistrationPrefix(const RecoveredLog& log);
  /// Aborts what an earlier start enlisted and did not decide.
  void AbortEnlisted(const txn::Enlistment& enlistment);
  void AbortOpen(OpenTxn& txn, txn::Refusal why);
  void Finish(const GlobalTxnId& id, txn::GlobalTxnState state, const txn::Refusal& why);
  /// Where a group was fenced, together with where it lives, if another cluster knows it.
  void FinishAborted(const GlobalTxnId& id, txn::Refusal why);
  void TakeUp(const txn::Decision& decision);  ///< A decision found by recovery.
  /// From the decision on, a waiter waits for its max_wait at most.
  void BoundWait(const GlobalTxnId& id, std::list<Waiter>::iterator waiter);

  void ResolveOpen(const OpenTxn& txn, const ClusterName& cluster, txn::OperatorOrder order,
                   Callback<Result<TxnView>> done);

  TxnView ViewOf(const OpenTxn& txn) const;
  /// The view of a transaction that is not open: from memory, from the log, or by presumption.
  Result<TxnView> ClosedView(const GlobalTxnId& id) const;
  /// Why a call that needs an ACTIVE one is refused: it is not open, or not known.
  Error NotOpen(const GlobalTxnId& id) const;
  /// Its revision rises, and whoever watches it is told.
  void Touch(OpenTxn& txn);
  void TellWatchers(const TxnView& view, bool final);
  void CheckDrained();
  void CountEnd(const OpenTxn& txn, txn::GlobalTxnState state, txn::AbortReason reason);
  void ReadInDoubt(Reading& reading) const;
  void StartCluster(Cluster* cluster, std::vector<TransactionalId> pending);

  std::atomic<WatchId> next_watch_{1};
  Executor& executor_;
  const Clock& clock_;
  DecisionLog& log_;
  Callback<Error> on_fatal_;

  // All below is touched on the executor only.
  CoordinatorOptions options_;
  std::map<ClusterName, Cluster*> clusters_;
  std::unordered_map<GlobalTxnId, OpenTxn> open_;
  std::unordered_map<std::string, std::size_t> open_of_owner_;  // None at 0.
  Enlistments enlistments_;
  std::map<BatchId, std::shared_ptr<BatchRunner>> runners_;
  std::map<ClusterName, int> streams_;  // Lanes that are held for open transactions.
  Batcher batcher_;
  std::optional<std::pair<MonoTime, Executor::TimerId>> forming_;  ///< When FormBatches is called.
  std::list<std::unique_ptr<EnlistedParticipant>> aborting_;       // Of earlier starts.
  std::unordered_map<std::string, GlobalTxnId> running_keys_;  // Of the open ones that have one.
  Outcomes recent_;
  struct Watcher {
    GlobalTxnId id;
    Callback<Result<TxnChange>> done;
  };
  std::unordered_map<WatchId, Watcher> watchers_;
  std::unordered_multimap<GlobalTxnId, WatchId> watches_of_;
  bool watches_ended_ = false;
  std::map<BatchId, InDoubtView> heuristic_;  // Not acknowledged.
  std::size_t buffered_bytes_ = 0;
  std::unordered_map<std::string, std::size_t> buffered_of_client_;  // None at 0.
  std::uint64_t next_batch_ = 0;
  std::uint64_t next_txn_ = 1;
  std::int64_t last_birth_ms_ = 0;
  std::optional<Error> failed_;
  bool draining_ = false;
  bool admitting_ = true;  // An operator's word.
  Callback<> drained_;
  Stats stats_;
  const MonoTime started_;
  std::size_t recovering_;             // Recovered decisions that are not settled.
  std::optional<MonoTime> recovered_;  // None is left.
};

}  // namespace lockstep::coordinator
