#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
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
/// A record's value and an offset's metadata are its tag, "<transaction>/<cluster>/<number>".
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

  struct Counts {
    std::uint64_t begun = 0;
    std::uint64_t committed = 0;
    std::uint64_t heuristic = 0;
  };
  Counts counts() const;
  std::uint64_t decisions() const { return decisions_; }  ///< Written so far.

 private:
  /// One participant of a decision, as the brokers know it.
  using Participant = std::pair<ClusterName, TransactionalId>;
  /// What one cluster did with one transaction's work.
  struct Branch {
    std::set<std::string> expected;
    std::set<std::string> visible;
    bool committed = false;  // By the cluster's coordinator.
    bool aborted = false;    // By the cluster's coordinator.
    bool timed_out = false;  // ... for it took too long.
  };
  struct Txn {
    std::map<ClusterName, Branch> branches;
    std::set<std::uint64_t> sequences;
    bool decided = false;  // Durably.
    bool told_committing = false;
    bool told_committed = false;
    bool told_aborted = false;
    bool told_heuristic = false;
  };

  void Fail(const std::string& what);
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
  std::map<GlobalTxnId, Txn> txns_;
  std::map<Participant, int> pending_;  // Decided durably and not durably complete.
  std::map<Participant, int> in_flight_;
  std::map<std::pair<ClusterName, txn::TopicPartition>, std::int64_t> read_up_to_;
  std::string violation_;
};

}  // namespace lockstep::sim
