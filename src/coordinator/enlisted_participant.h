#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/enlistments.h"
#include "coordinator/ports.h"
#include "coordinator/types.h"
#include "txn/vote_check.h"

namespace lockstep::coordinator {

/// The Kafka transaction that a client's own producer opens and we end: by name, with wire requests
/// (docs/design/enlisted.md). Holds its transactional.id in Enlistments from its making to its
/// Release. Lives on the executor.
class EnlistedParticipant final : public Participant {
 public:
  struct Ports {
    Executor& executor;
    const Clock& clock;
    DecisionLog& log;
    Enlistments& enlistments;
    Cluster& cluster;
  };

  /// `bound`: the name without a start time. `registration` is empty if it is of an earlier start.
  EnlistedParticipant(const Ports& ports, txn::ParticipantName bound, std::string registration);
  ~EnlistedParticipant() override;

  const txn::ParticipantName& name() const { return name_; }
  const std::string& registration() const { return registration_; }
  /// Required before Prepare.
  void SetWork(EnlistedWork work) { work_ = std::move(work); }
  /// How long Abort may try; by default as long as it takes.
  void SetAbortTime(Duration time) { abort_time_ = time; }

  /// Asks the broker whether it shows what the client says. YES under the bound name only (rule
  /// M9), READ_ONLY only if the client said so; asks again until `give_up` while it has no answer.
  /// `work` is empty: see SetWork.
  void Prepare(txn::BatchWork work, MonoTime give_up, Callback<txn::Vote> vote) override;
  /// Never: the client writes itself.
  void Write(txn::BranchWork, Callback<>) override { std::abort(); }
  void Finish(MonoTime, bool) override { std::abort(); }
  /// One EndTxn. After anything but its NONE the producer must be re-created (reinit_required).
  void Commit(Callback<Status> done) override;
  /// EndTxn only to a transaction that is seen Ongoing under the bound name (rule M13).
  void Abort(Callback<bool> done) override;
  /// What it was is durably settled: its producer may be enlisted again, unless that must be
  /// re-created, and the log forgets the enlistment.
  void Release() override;

 private:
  using Ends = Result<std::vector<txn::Evidence>>;

  void Ask();
  void AskEndsAhead();
  void OnDescribed(const Result<txn::TxnDescription>& description);
  void OnEnds(const Ends& ends);
  /// Both have answered: the description, and the ends that were asked for beside it.
  void Compare();
  void CheckWritten(const txn::TxnDescription& description);
  void CheckReadOnly(const txn::TxnDescription& description);
  void FindEvidence();
  void RememberGroup();
  void VoteYes();
  void VoteNo(txn::AbortReason reason, const std::string& message, bool retriable);
  void VoteNo(txn::Refusal refusal);

  void OnCommitAnswered(const txn::EndTxnAnswer& answer);
  /// Whether it was NONE. Remembers what the end leaves behind.
  bool Take(const txn::EndTxnAnswer& answer);

  void TryAbort();
  void OnAbortDescribed(const Result<txn::TxnDescription>& description);
  void OnAbortAnswered(const txn::EndTxnAnswer& answer);
  void AbortLater();
  void Aborted();

  bool bound_to(const txn::TxnDescription& description) const;
  template <typename Answer>
  Callback<Answer> Answered(void (EnlistedParticipant::*then)(const Answer&));

  const Ports ports_;
  txn::ParticipantName name_;
  const std::string registration_;
  const EnlistedId id_;
  const MonoTime enlisted_at_;  // Before the transaction's first write.
  EnlistedWork work_;
  Duration abort_time_ = Duration::max();
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);

  MonoTime give_up_{};
  Callback<txn::Vote> vote_;  // Null once it voted, or may not any more.
  Callback<Status> committed_;
  Callback<bool> aborted_;
  int attempt_ = 0;
  std::optional<txn::TxnDescription> description_;  // As far as it has answered.
  bool awaits_ends_ = false;
  std::map<txn::TopicPartition, std::int64_t> ends_;

  // What the end of it leaves behind.
  bool uncertain_ = false;  // An EndTxn of ours without its NONE, or the producer is another one.
  std::optional<txn::ProducerInstance> next_;  // TV2: by the answer to our EndTxn.
};

}  // namespace lockstep::coordinator
