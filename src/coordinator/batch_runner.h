#pragma once

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "coordinator/batch_times.h"
#include "coordinator/enlisted_participant.h"
#include "coordinator/ports.h"
#include "coordinator/resolver.h"
#include "txn/batch.h"

namespace lockstep::coordinator {

/// Runs one txn::Batch: carries its effects to the log and the clusters, and their answers back as
/// events. Lives on the executor. It owns its participants; it never sees clients.
class BatchRunner : public std::enable_shared_from_this<BatchRunner> {
 public:
  /// Told on the executor. The runner is still alive during the call.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnDecided(BatchRunner& runner) = 0;
    /// After each step: what a client may see of it can have changed.
    virtual void OnChanged(BatchRunner& runner) = 0;
    /// The final outcome of every member; see txn::AnnounceOutcome.
    virtual void OnOutcome(BatchRunner& runner, txn::GlobalTxnState outcome) = 0;
    /// Nothing is left to do: forget it.
    virtual void OnDone(BatchRunner& runner) = 0;
    virtual void OnLogFailed(const Error& error) = 0;
  };

  struct Ports {
    Executor& executor;
    const Clock& clock;
    DecisionLog& log;
    Listener& listener;
    Stats& stats;
    Duration deadline_margin{};
  };

  /// One participant to be.
  struct Branch {
    Cluster* cluster = nullptr;
    txn::BatchWork work;                            ///< Managed: one entry for each member.
    std::unique_ptr<EnlistedParticipant> enlisted;  ///< Null: managed.
  };

  /// A new batch.
  BatchRunner(Ports ports, BatchId id, std::vector<GlobalTxnId> members,
              std::vector<txn::MemberKey> keys, std::vector<Branch> branches);
  /// A decision found by recovery; `branches` holds one per decided participant, without work.
  BatchRunner(Ports ports, const txn::Decision& decision, std::vector<Branch> branches);

  /// One more, while votes are missing; its index.
  std::size_t Add(Branch branch);
  /// Asks a participant to prepare before Begin: its work comes by Write, and its vote after Finish
  /// alone, unless it is NO. Once for each; not for an enlisted one.
  void Stream(std::size_t participant, MonoTime give_up);
  /// As Participant::Write; `written` is called on the executor.
  void Write(std::size_t participant, txn::BranchWork piece, Callback<> written);
  void Finish(std::size_t participant, bool want_positions);
  /// Commit was asked for: it gives up at `give_up`. Each participant that is not streamed has to
  /// be asked to prepare.
  void Begin(MonoTime give_up);
  /// Asks one participant to prepare, unless the batch aborted meanwhile. Once for each.
  void Prepare(std::size_t participant);
  /// Takes up a recovered decision.
  void Resume();
  /// Aborts it unless it is decided; `culprits` as in txn::Batch.
  void Abort(txn::Refusal why, std::vector<txn::Culprit> culprits = {});

  const txn::Batch& batch() const { return batch_; }
  const std::vector<GlobalTxnId>& members() const { return members_; }
  WallTime decided_at() const { return decided_at_; }
  bool decided() const { return decided_; }      ///< The decision is known to be durable.
  bool recovered() const { return recovered_; }  ///< Decided before this start.
  bool announced() const { return batch_.announced; }
  /// The loop that finds out what became of a participant, if one runs or ran.
  const Resolver* resolver(std::size_t participant) const;
  /// Has the missing markers of a participant written; kFailedPrecondition where none is missing.
  void RepairMarkers(std::size_t participant, Callback<Status> done);
  /// Makes an operator's order durable and has the resolution obey it; then `done`, on the
  /// executor. What speaks against it: see OrderProblem. The participant's resolver exists.
  void Obey(std::size_t participant, txn::OperatorOrder order, Callback<> done);
  /// An enlisted participant as it was bound, prepared or not; null: a managed one, or of an
  /// earlier start, which is prepared.
  const txn::ParticipantName* enlisted(std::size_t participant) const;
  /// Where a member's records were written, if its vote told that.
  txn::Positions positions(std::size_t participant, std::size_t member) const;
  /// Whether its vote is awaited still.
  bool preparing(std::size_t participant) const;
  /// The latest order about a participant.
  const txn::OperatorOrder* order(std::size_t participant) const;

 private:
  void Take(Branch branch);
  void Feed(const txn::BatchEvent& event);
  Callback<txn::Vote> OnVote(std::size_t participant);
  void Run(const txn::StoreDecision&);
  void Run(const txn::EndParticipant& effect);
  void Run(const txn::StoreCompletion& effect);
  void Run(const txn::ReleaseParticipant& effect);
  void Run(const txn::AnnounceDecided&);
  void Run(const txn::AnnounceOutcome& effect);
  void Resolve(std::size_t participant, Resolver::Known known);
  /// Wraps a port's answer: back to the executor, and only if this still lives.
  template <typename... Args>
  Callback<Args...> OnExecutor(
      std::type_identity_t<std::function<void(BatchRunner&, Args...)>> then);

  const Ports ports_;
  txn::Batch batch_;
  std::vector<GlobalTxnId> members_;
  std::vector<txn::MemberKey> keys_;
  std::vector<Cluster*> clusters_;                          // One per participant.
  std::vector<txn::BatchWork> work_;                        // The same, until Prepare.
  std::vector<std::vector<std::size_t>> records_;           // The same: how many of each member.
  std::vector<std::unique_ptr<Participant>> participants_;  // Null: a lane that recovery found.
  std::map<std::size_t, txn::ParticipantName> enlisted_;    // Of them.
  bool recovered_ = false;
  std::map<std::size_t, std::shared_ptr<Resolver>> resolvers_;
  std::map<std::size_t, txn::OperatorOrder> orders_;  // Durable.
  BatchTimes times_;
  MonoTime give_up_{};
  WallTime decided_at_;
  bool decided_ = false;
};

}  // namespace lockstep::coordinator
