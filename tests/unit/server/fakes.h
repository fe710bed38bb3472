#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/ports.h"

/// A log and a cluster that do what the test tells them, enough to see the API from outside. What
/// commits and what does not is proved by the simulation, not here.
namespace lockstep::server {

/// Keeps decisions in memory. Thread-safe.
class FakeLog final : public coordinator::DecisionLog {
 public:
  explicit FakeLog(coordinator::Executor& executor);

  /// What recovery will find. Before the coordinator is made.
  void Recover(txn::Decision decision) {
    decisions_.emplace(decision.batch, decision);
    recovered_.incomplete.push_back(std::move(decision));
  }
  /// What recovery will find enlisted. Before the coordinator is made.
  void Recover(txn::Enlistment enlistment) { recovered_.enlisted.push_back(std::move(enlistment)); }
  /// Which start on this log it is. Before the coordinator is made.
  void SetIncarnation(std::uint64_t number) { recovered_.incarnation = Incarnation(number); }
  /// From now on every append fails, as after a failed sync.
  void Fail() { failed_ = true; }

  const coordinator::RecoveredLog& recovered() const override { return recovered_; }
  void StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) override;
  void StoreCompletion(coordinator::Completion completion, bool urgent,
                       coordinator::Callback<Status> done) override;
  void StoreEnlistment(txn::Enlistment enlistment) override;
  void EndEnlistment(ClusterName cluster, TransactionalId id) override;
  void StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) override;
  void StoreOrder(coordinator::StoredOrder order, coordinator::Callback<Status> done) override;
  void StoreBinding(ClusterName cluster, KafkaClusterId id,
                    coordinator::Callback<Status> done) override;
  void StoreSuperseded(std::string why, coordinator::Callback<Status> done) override;
  std::optional<KafkaClusterId> Binding(const ClusterName&) const override { return std::nullopt; }
  Result<std::optional<txn::Decision>> Find(const GlobalTxnId& txn) const override;
  Result<std::optional<txn::Decision>> FindKey(const std::string& key) const override;
  /// As if all that was born up to then may have been forgotten.
  void ForgetUpTo(WallTime horizon) { horizon_ms_ = horizon.ms; }
  WallTime Horizon() const override { return WallTime{horizon_ms_}; }
  Result<coordinator::LogStats> Stats() const override {
    coordinator::LogStats stats{.decisions = 7, .kept_bytes = 1000, .disk_bytes = 5000, .syncs = 9};
    for (int i = ++asked_; i > 0; --i) stats.sync_seconds.Add(sync_time_);
    return stats;
  }
  /// How long each sync takes, of which there is one for each time that Stats is asked. Before a
  /// call.
  void SetSyncTime(Duration time) { sync_time_ = time; }
  /// What the next backup will consist of. Before a call.
  void SetBackup(std::vector<Result<std::string>> pieces) { backup_ = std::move(pieces); }
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const override;
  /// Of another log. Before the coordinator is made.
  void RestoreFrom(LogId origin, WallTime at) {
    recovered_.origins.push_back(std::move(origin));
    recovered_.restored_at = at;
  }
  /// All that were stored, or recovered.
  std::vector<txn::Decision> decisions() const;
  /// Orders about a participant, in the order in which they were stored.
  std::vector<coordinator::StoredOrder> orders() const;
  /// Stored, and not ended.
  std::size_t enlistments() const;

 private:
  void Answer(coordinator::Callback<Status> done);

  coordinator::Executor& executor_;
  coordinator::RecoveredLog recovered_;
  std::atomic<bool> failed_ = false;
  std::atomic<std::int64_t> horizon_ms_ = 0;
  std::vector<Result<std::string>> backup_;
  Duration sync_time_ = std::chrono::milliseconds(1);
  mutable std::atomic<int> asked_ = 0;
  mutable std::mutex mutex_;
  std::map<BatchId, txn::Decision> decisions_;    // Guarded by mutex_.
  std::vector<coordinator::StoredOrder> orders_;  // Guarded by mutex_.
  std::vector<txn::Enlistment> enlistments_;      // Guarded by mutex_.
};

/// A cluster whose participants vote and end as `behaviour` says. Thread-safe.
class FakeCluster final : public coordinator::Cluster {
 public:
  /// What becomes of an EndTxn for a client's own producer.
  enum class Ends : std::uint8_t { kAnswered, kUnanswered, kLost };
  struct Behaviour {
    bool votes = true;      ///< False: no vote comes, not even at give_up.
    Duration vote_delay{};  ///< How long the vote takes.
    txn::Refusal refusal;   ///< With a reason: the vote is NO.
    std::string bad_topic;  ///< Not empty: a batch that writes to it gets the refusal, others not.
    bool names_culprits = true;  ///< The refusal then names who wrote to it.
    bool slow = false;           ///< ... as somebody who may commit alone, and does.
    bool commits = true;         ///< False: Commit, and every later question, is not answered OK.
    bool aborted_it = false;     ///< The broker forgot its promise: Describe shows CompleteAbort.
    std::vector<txn::TopicPartition> missing_markers;
    coordinator::ClusterState state = coordinator::ClusterState::kReady;
    bool ongoing =
        false;  ///< No commit has an effect; Describe shows Ongoing until an abort comes.
    std::vector<coordinator::Orphan> orphans;
    std::int16_t transaction_version = 2;
    Ends ends = Ends::kAnswered;
    std::vector<std::string> groups;  ///< That live here.
    bool knows_groups = true;         ///< False: KnowsGroup is never answered.
    Duration commit_delay{};          ///< How long Commit takes, if it is answered OK.
    int lanes_idle = 2;
    int lanes_busy = 0;
  };
  /// A client's own producer, as the brokers see it.
  struct Producer {
    ProducerId id{500};
    ProducerEpoch epoch{0};
    txn::KafkaTxnState state = txn::KafkaTxnState::kEmpty;
    std::int64_t start_time_ms = -1;
    std::vector<txn::TopicPartition> partitions;
  };

  FakeCluster(std::string name, coordinator::Executor& executor)
      : name_(std::move(name)), executor_(executor) {}

  void Set(Behaviour behaviour);
  /// Pieces of streamed work are acknowledged at once, or wait for LetHeldPieces.
  void HoldPieces(bool hold) { holds_pieces_ = hold; }
  void LetHeldPieces();
  /// The values of the records of each piece, from the first.
  std::vector<std::string> pieces() const;
  /// The work of the last Prepare, of all its members.
  txn::BranchWork prepared_work() const;
  /// The values of all records of each Prepare; those of one member are separated by a comma.
  std::vector<std::string> batches() const;
  /// Votes that come from now on wait for LetHeldVotes, or do not.
  void HoldVotes(bool hold) { holds_votes_ = hold; }
  void LetHeldVotes();
  std::size_t held_votes() const;
  /// As if lanes were found that only a newer copy of the log can have made. Once started.
  void Supersede(std::string why) {
    executor_.Post([this, why = std::move(why)] { superseded_(why); });
  }
  /// How many transactions were to be prepared; one that was tried again counts again.
  int prepares() const { return prepares_; }
  /// The producer's initTransactions(): aborts what the id left open, and raises the epoch.
  void Initialise(const std::string& id);
  /// Its writes; the first of a transaction begins it.
  void Write(const std::string& id, const std::vector<txn::TopicPartition>& partitions);
  Producer producer(const std::string& id) const;
  bool repaired() const { return repaired_; }

  const ClusterName& name() const override { return name_; }
  coordinator::ClusterStatus status() const override;
  void Start(std::vector<TransactionalId>, coordinator::Callback<std::string> superseded) override {
    superseded_ = std::move(superseded);
  }
  void FencePending(TransactionalId) override {}
  std::unique_ptr<coordinator::Participant> NewParticipant() override;
  void Describe(const txn::ParticipantName& name,
                coordinator::Callback<Result<txn::TxnDescription>> done) override;
  void EndTxn(const txn::ParticipantName& name, txn::Direction direction,
              coordinator::Callback<txn::EndTxnAnswer> done) override;
  void LogEnds(std::vector<txn::TopicPartition> partitions,
               coordinator::Callback<Result<std::vector<txn::Evidence>>> done) override;
  void KnowsGroup(std::string group_id, coordinator::Callback<Result<bool>> done) override;
  void ReadMarkers(const txn::PreparedParticipant& participant,
                   coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done) override;
  void CheckMarkers(const txn::PreparedParticipant& participant,
                    coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) override;
  void RepairMarkers(const txn::PreparedParticipant& participant,
                     std::vector<txn::TopicPartition> partitions,
                     coordinator::Callback<Status> done) override;
  void ListOrphans(coordinator::Callback<Result<coordinator::OrphanListing>> done) override;
  void EndOrphan(coordinator::Orphan orphan, txn::Direction direction,
                 coordinator::Callback<Result<txn::TxnDescription>> done) override;

 private:
  class FakeParticipant;
  Behaviour behaviour() const;
  void Note(const txn::BatchWork& work);
  void NotePiece(const txn::BranchWork& piece, coordinator::Callback<> written);
  txn::EndTxnAnswer End(Producer& producer, const txn::ParticipantName& name,
                        txn::Direction direction);

  const ClusterName name_;
  coordinator::Executor& executor_;
  coordinator::Callback<std::string> superseded_;
  std::atomic<bool> repaired_ = false;
  std::atomic<int> prepares_ = 0;
  mutable std::mutex mutex_;
  Behaviour behaviour_;                             // Guarded by mutex_.
  txn::BranchWork work_;                            // Guarded by mutex_.
  std::vector<std::string> batches_;                // Guarded by mutex_.
  std::vector<std::function<void()>> held_;         // Guarded by mutex_.
  std::vector<std::string> pieces_;                 // Guarded by mutex_.
  std::vector<std::function<void()>> held_pieces_;  // Guarded by mutex_.
  std::atomic<bool> holds_votes_ = false;
  std::atomic<bool> holds_pieces_ = false;
  std::map<TransactionalId, Producer> producers_;  // Guarded by mutex_.
  std::int64_t next_start_ms_ = 1000;              // Guarded by mutex_.
};

}  // namespace lockstep::server
