#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "fake_kafka/fake_kafka.h"
#include "sim_options.h"
#include "txn/types.h"

namespace lockstep::sim {

class SimBroker;

/// A promise was broken.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sees everything, from outside: what clients asked for and were told, what the disk and the
/// brokers hold. After every step it compares them with what Lockstep promises.
///
/// A record's value and an offset's metadata are its tag, "<transaction>/<cluster>/<number>"; under
/// a key the name of the call that brought it stands for the transaction.
class Oracle {
 public:
  /// The value of records of other applications' transactions.
  static constexpr const char* kForeign = "foreign";

  explicit Oracle(const SimOptions& options) : options_(options) {}
  void Watch(SimBroker& broker);

  // ---- What clients do and hear: called on the coordinator's executor
  // ----------------------------

  void OnBegan(const GlobalTxnId& id);
  /// Work was accepted.
  void OnAdded(const GlobalTxnId& id, const ClusterName& cluster, std::uint64_t sequence,
               const std::vector<std::string>& tags);
  /// What an application's own producer wrote: all of it, acknowledged.
  void OnWritten(const GlobalTxnId& id, const ClusterName& cluster,
                 const std::vector<std::string>& tags);
  /// What one call of Submit brought for each cluster.
  using Work = std::map<ClusterName, std::set<std::string>>;
  /// The call `call` of Submit was answered.
  void OnSubmitted(const txn::ClientKey& key, const std::string& call, const Work& work,
                   const Result<coordinator::Submitted>& answer);
  /// An answer that carries an outcome, or the lack of one.
  void OnAnswer(const GlobalTxnId& id, const Result<coordinator::TxnView>& answer);

  // ---- What the disk does
  // ------------------------------------------------------------------------

  void OnDecisionWritten(const txn::Decision& decision);
  void OnDecisionDurable(const txn::Decision& decision);
  void OnCompletionDurable(const txn::Decision& decision, std::uint32_t participant);
  /// A new process: what was written and not found by it is gone. The decisions follow.
  void OnLogOpened();

  // ---- What the brokers do
  // -----------------------------------------------------------------------

  void OnInitProducerId(const SimBroker& broker, const std::string& transactional_id);
  void OnBrokerStep(SimBroker& broker);

  /// Throws the first Violation that was found, if any.
  void Check() const;

  /// With the environment quiet: everything is as it must be in the end. `final_views` holds the
  /// coordinator's answer for every transaction in `Begun()`.
  void CheckQuiet(const std::map<GlobalTxnId, Result<coordinator::TxnView>>& final_views);
  std::vector<GlobalTxnId> Begun() const;
  /// Keys of which a run is decided, as that run had them.
  std::vector<txn::ClientKey> KeysWithEffect() const;

  struct Counts {
    std::uint64_t begun = 0;
    std::uint64_t committed = 0;
    std::uint64_t heuristic = 0;
    std::uint64_t keys = 0;                     ///< That ran.
    std::uint64_t run_again = 0;                ///< Of these: an earlier run had no effect.
    std::uint64_t answered_by_earlier_run = 0;  ///< Calls.
    std::uint64_t enlisted_committed = 0;       ///< With a producer of the application's own.
    std::uint64_t enlisted_aborted = 0;
    std::uint64_t decided = 0;  ///< Transactions of which a decision was written.
    std::uint64_t shared = 0;   ///< Of these: together with others.
    Counts& operator+=(const Counts& more);
  };
  Counts counts() const;
  std::uint64_t decisions() const { return decisions_; }  ///< Written so far.

 private:
  /// One participant of a decision, as the brokers know it.
  using Participant = std::pair<ClusterName, TransactionalId>;
  /// One Kafka transaction, as its broker tells them apart.
  struct Attempt {
    std::string transactional_id;
    std::int64_t producer_id = -1;
    std::int16_t producer_epoch = -1;
    std::int64_t start_time_ms = -1;
    friend auto operator<=>(const Attempt&, const Attempt&) = default;
  };
  /// What one cluster did with one transaction's work.
  struct Branch {
    std::set<std::string> expected;
    std::set<std::string> visible;
    bool committed = false;  // By the cluster's coordinator.
    /// By the cluster's coordinator; true: for it took too long. Where another member spoiled a
    /// batch there is more than one.
    std::map<Attempt, bool> aborted;
    std::optional<Attempt> decided;  // The one that a durable decision covers.
    bool decided_is_aborted() const { return decided && aborted.contains(*decided); }
  };
  struct Txn {
    std::map<ClusterName, Branch> branches;
    std::set<std::uint64_t> sequences;
    bool decided = false;  // Durably.
    bool told_committing = false;
    bool told_committed = false;
    bool told_aborted = false;
    bool told_heuristic = false;
    bool enlisted = false;
  };

  /// A client's key.
  struct Key {
    std::map<GlobalTxnId, txn::ClientKey> runs;  // With the digest and birth that each had.
    std::optional<GlobalTxnId> effect;           // The run that is decided, durably.
  };

  void Fail(const std::string& what);
  static Attempt AttemptOf(const txn::ParticipantName& name);
  static Attempt AttemptOf(const fake_kafka::EndedTransaction& ended);
  std::map<GlobalTxnId, std::set<std::string>> ByTxn(const std::set<std::string>& tags) const;
  GlobalTxnId TxnOfTag(const std::string& tag) const;
  void OnRun(const txn::ClientKey& key, const std::string& call, const Work& work,
             const GlobalTxnId& id);
  void OnMemberDecided(const txn::Decision& decision, std::uint32_t member);
  /// A decision may only cover what is open now, and will be for a while.
  void CheckOpen(const txn::PreparedParticipant& participant);
  void OnEnded(const SimBroker& broker, const fake_kafka::EndedTransaction& ended);
  void OnCommitted(const SimBroker& broker, const fake_kafka::EndedTransaction& ended,
                   const std::set<std::string>& tags);
  void OnAborted(const SimBroker& broker, const fake_kafka::EndedTransaction& ended,
                 const std::set<std::string>& tags);
  void OnVisible(const SimBroker& broker, const std::string& tag);
  void CheckTold(const GlobalTxnId& id, Txn& txn, const coordinator::TxnView& view);
  void CheckCommittedView(const GlobalTxnId& id, const Txn& txn);
  void CheckHeuristicView(const GlobalTxnId& id, const Txn& txn, const coordinator::TxnView& view);
  void CheckQuietTxn(const GlobalTxnId& id, const Txn& txn,
                     const Result<coordinator::TxnView>& view);
  void CheckQuietBroker(SimBroker& broker);

  const SimOptions& options_;
  std::map<ClusterName, SimBroker*> brokers_;
  std::uint64_t decisions_ = 0;
  std::uint64_t decided_ = 0;
  std::uint64_t shared_ = 0;
  std::map<GlobalTxnId, Txn> txns_;
  std::map<std::string, Key> keys_;
  std::map<GlobalTxnId, std::string> key_of_run_;
  std::map<std::string, GlobalTxnId> run_of_call_;
  std::uint64_t answered_by_earlier_run_ = 0;
  std::map<Participant, int> pending_;  // Decided durably and not durably complete.
  std::map<Participant, int> in_flight_;
  std::unordered_map<const fake_kafka::PartitionLog*, std::int64_t> read_up_to_;
  std::string violation_;
};

}  // namespace lockstep::sim
