#include "coordinator/enlisted_participant.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::coordinator {
namespace {

using std::chrono::milliseconds;
using txn::AbortReason;
using txn::KafkaTxnState;

Duration Backoff(int attempt) {
  return std::min(milliseconds(5) * (1 << std::min(attempt, 8)), milliseconds(1'000));
}

}  // namespace

EnlistedParticipant::EnlistedParticipant(const Ports& ports, txn::ParticipantName bound,
                                         std::string registration)
    : ports_(ports),
      name_(std::move(bound)),
      registration_(std::move(registration)),
      id_{name_.cluster, name_.transactional_id},
      enlisted_at_(ports.clock.Now()) {
  ports_.enlistments.Hold(id_);
}

EnlistedParticipant::~EnlistedParticipant() = default;

template <typename Answer>
Callback<Answer> EnlistedParticipant::Answered(void (EnlistedParticipant::*then)(const Answer&)) {
  return [this, life = std::weak_ptr(life_), &executor = ports_.executor, then](Answer answer) {
    executor.Post([this, life, then, answer = std::move(answer)] {
      if (!life.expired()) (this->*then)(answer);
    });
  };
}

bool EnlistedParticipant::bound_to(const txn::TxnDescription& description) const {
  return description.exists && description.producer_id == name_.producer_id &&
         description.producer_epoch == name_.producer_epoch;
}

// ---- Prepare ------------------------------------------------------------------------------------

void EnlistedParticipant::Prepare(txn::BranchWork, MonoTime give_up, Callback<txn::Vote> vote) {
  give_up_ = give_up;
  vote_ = std::move(vote);
  Ask();
}

void EnlistedParticipant::Ask() {
  const std::int16_t version = ports_.cluster.status().transaction_version;
  if (name_.protocol == txn::EndTxnProtocol::kTv2 && version < 2) {
    return VoteNo(AbortReason::kVoteMismatch,
                  "its producer was registered while the cluster's transaction.version was 2 or "
                  "more, and it is " +
                      std::to_string(version) + " now: register and re-create the producer",
                  true);
  }
  ports_.cluster.Describe(name_, Answered(&EnlistedParticipant::OnDescribed));
}

void EnlistedParticipant::OnDescribed(const Result<txn::TxnDescription>& description) {
  if (vote_ == nullptr) return;
  if (!description.ok()) {
    const Duration delay = Backoff(attempt_++);
    if (ports_.clock.Now() + delay >= give_up_) {
      return VoteNo(AbortReason::kClusterUnavailable,
                    "asking for the transaction's state: " + description.error().message, true);
    }
    ports_.executor.PostAfter(delay, [this, life = std::weak_ptr(life_)] {
      if (!life.expired() && vote_ != nullptr) Ask();
    });
    return;
  }
  if (work_.read_only) return CheckReadOnly(*description);
  CheckWritten(*description);
}

void EnlistedParticipant::CheckReadOnly(const txn::TxnDescription& description) {
  if (!bound_to(description)) {
    return VoteNo(AbortReason::kProducerFenced,
                  ToString(id_) + " is another producer's by now, or its broker fenced it", true);
  }
  if (description.state == KafkaTxnState::kOngoing) {
    return VoteNo(AbortReason::kVoteMismatch,
                  "the client says that it wrote nothing, and the broker shows a transaction",
                  false);
  }
  txn::Vote vote;
  vote.kind = txn::Vote::Kind::kReadOnly;
  std::exchange(vote_, nullptr)(std::move(vote));
}

void EnlistedParticipant::CheckWritten(const txn::TxnDescription& description) {
  if (auto refusal =
          txn::CheckDescription({name_.transactional_id, name_.producer_id, name_.producer_epoch},
                                {work_.partitions, work_.group_ids.size()}, description)) {
    return VoteNo(*std::move(refusal));
  }
  name_.start_time_ms = description.start_time_ms;
  timeout_ms_ = description.timeout_ms;
  // The broker's clock started after ours did: this is the earlier end.
  deadline_ = enlisted_at_ + milliseconds(description.timeout_ms);
  FindEvidence(description);
}

void EnlistedParticipant::FindEvidence(const txn::TxnDescription& description) {
  std::vector<txn::TopicPartition> unknown = txn::OffsetsPartitions(description);
  for (const auto& [partition, offset] : work_.partitions) {
    if (offset >= 0) {
      evidence_.push_back({partition, offset});
    } else {
      unknown.push_back(partition);
    }
  }
  if (unknown.empty()) return VoteYes();
  // All is acknowledged and the marker is not written: the end of the partition lies between.
  const auto found = [this,
                      life = std::weak_ptr(life_)](const Result<std::vector<txn::Evidence>>& ends) {
    if (life.expired() || vote_ == nullptr) return;
    if (!ends.ok()) {
      return VoteNo(AbortReason::kClusterUnavailable,
                    "asking for the ends of partitions: " + ends.error().message, true);
    }
    evidence_.insert(evidence_.end(), ends->begin(), ends->end());
    VoteYes();
  };
  ports_.cluster.LogEnds(std::move(unknown), [&executor = ports_.executor, found](auto ends) {
    executor.Post([found, ends = std::move(ends)] { found(ends); });
  });
}

void EnlistedParticipant::VoteYes() {
  txn::Vote vote;
  vote.kind = txn::Vote::Kind::kYes;
  vote.prepared.name = name_;
  vote.prepared.evidence = std::move(evidence_);
  vote.prepared.deadline = WallTime{name_.start_time_ms + timeout_ms_};
  vote.prepared.enlisted = true;
  vote.deadline = deadline_;
  std::exchange(vote_, nullptr)(std::move(vote));
}

void EnlistedParticipant::VoteNo(AbortReason reason, const std::string& message, bool retriable) {
  VoteNo({reason, {}, message, retriable});
}

void EnlistedParticipant::VoteNo(txn::Refusal refusal) {
  refusal.cluster = name_.cluster;
  txn::Vote vote;
  vote.refusal = std::move(refusal);
  std::exchange(vote_, nullptr)(std::move(vote));
}

// ---- The end ------------------------------------------------------------------------------------

void EnlistedParticipant::Commit(Callback<Status> done) {
  uncertain_ = true;  // Until its NONE.
  ports_.cluster.EndTxn(
      name_, txn::Direction::kCommit,
      [this, life = std::weak_ptr(life_), &executor = ports_.executor,
       done = std::move(done)](txn::EndTxnAnswer answer) {
        executor.Post([this, life, done, answer = std::move(answer)] {
          if (life.expired()) return;
          if (answer.kind != txn::EndTxnAnswer::Kind::kDone) {
            return done(MakeError(Code::kUnavailable, answer.problem, Effect::kUnknown));
          }
          uncertain_ = false;
          next_ = {name_.transactional_id, answer.producer_id, answer.producer_epoch};
          done({});
        });
      });
}

void EnlistedParticipant::Abort(Callback<bool> done) {
  vote_ = nullptr;
  attempt_ = 0;
  aborted_ = std::move(done);
  give_up_ = abort_time_ == Duration::max() ? MonoTime::max() : ports_.clock.Now() + abort_time_;
  TryAbort();
}

void EnlistedParticipant::TryAbort() {
  ports_.cluster.Describe(name_, Answered(&EnlistedParticipant::OnAbortDescribed));
}

void EnlistedParticipant::AbortLater() {
  const Duration delay = Backoff(attempt_++);
  if (ports_.clock.Now() >= give_up_) {
    uncertain_ = true;  // Its end is left to its owner, and to Kafka's time-out.
    return Aborted();
  }
  ports_.executor.PostAfter(delay, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) TryAbort();
  });
}

void EnlistedParticipant::OnAbortDescribed(const Result<txn::TxnDescription>& description) {
  if (!description.ok()) return AbortLater();
  if (!bound_to(*description)) {
    uncertain_ = true;  // Timed out, fenced, or ended by our own EndTxn whose answer was lost.
    return Aborted();
  }
  switch (description->state) {
    case KafkaTxnState::kOngoing:
      break;
    case KafkaTxnState::kEmpty:
    case KafkaTxnState::kCompleteCommit:  // Under TV1, the transaction before.
    case KafkaTxnState::kCompleteAbort:
      return Aborted();
    case KafkaTxnState::kPrepareCommit:
    case KafkaTxnState::kPrepareAbort:
    case KafkaTxnState::kPrepareEpochFence:
    case KafkaTxnState::kDead:
    case KafkaTxnState::kUnknown:
      return AbortLater();
  }
  ports_.cluster.EndTxn(
      name_, txn::Direction::kAbort,
      [this, life = std::weak_ptr(life_), &executor = ports_.executor](txn::EndTxnAnswer answer) {
        executor.Post([this, life, answer = std::move(answer)] {
          if (life.expired()) return;
          if (answer.kind == txn::EndTxnAnswer::Kind::kDone) {
            next_ = {name_.transactional_id, answer.producer_id, answer.producer_epoch};
            return Aborted();
          }
          uncertain_ = true;
          AbortLater();
        });
      });
}

void EnlistedParticipant::Aborted() { std::exchange(aborted_, nullptr)(uncertain_); }

void EnlistedParticipant::Release() {
  ports_.log.EndEnlistment(name_.cluster, name_.transactional_id);
  Enlistments::Registration* registration = ports_.enlistments.FindProducer(id_);
  if (registration != nullptr && registration->id == registration_) {
    registration->txn = {};
    registration->reinit_required |= uncertain_;
    if (next_) registration->bound = next_;
  }
  ports_.enlistments.LetGo(id_);
}

}  // namespace lockstep::coordinator
