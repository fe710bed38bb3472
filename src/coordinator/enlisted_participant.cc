#include "coordinator/enlisted_participant.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/planted.h"

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
  const bool same = description.producer_id == name_.producer_id &&
                    description.producer_epoch == name_.producer_epoch;
  return description.exists && (same || Planted(PlantedBug::kEpochUnchecked));
}

// ---- Prepare ------------------------------------------------------------------------------------

void EnlistedParticipant::Prepare(txn::BatchWork, MonoTime give_up, Callback<txn::Vote> vote) {
  give_up_ = give_up;
  vote_ = std::move(vote);
  if (!work_.read_only) AskEndsAhead();
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

/// What the client does not tell is asked for beside the description, not after it.
void EnlistedParticipant::AskEndsAhead() {
  std::vector<txn::TopicPartition> unknown;
  for (const auto& [partition, offset] : work_.partitions) {
    if (offset < 0) unknown.push_back(partition);
  }
  if (const auto* registration = ports_.enlistments.FindProducer(id_)) {
    for (const std::string& group : work_.group_ids) {
      const auto known = registration->group_partitions.find(group);
      if (known != registration->group_partitions.end()) unknown.push_back(known->second);
    }
  }
  if (unknown.empty()) return;
  awaits_ends_ = true;
  ports_.cluster.LogEnds(std::move(unknown), Answered(&EnlistedParticipant::OnEnds));
}

void EnlistedParticipant::OnEnds(const Ends& ends) {
  awaits_ends_ = false;
  if (vote_ == nullptr) return;
  if (!ends.ok()) {
    return VoteNo(AbortReason::kClusterUnavailable,
                  "asking for the ends of partitions: " + ends.error().message, true);
  }
  for (const txn::Evidence& end : *ends) ends_[end.partition] = end.offset;
  Compare();
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
  description_ = *description;
  Compare();
}

void EnlistedParticipant::Compare() {
  if (!description_ || awaits_ends_) return;
  work_.read_only ? CheckReadOnly(*description_) : CheckWritten(*description_);
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
  FindEvidence();
}

/// All is acknowledged and the marker is not written: where the client tells no offset, the
/// partition's end lies between the two.
void EnlistedParticipant::FindEvidence() {
  std::vector<txn::TopicPartition> unknown;
  for (const txn::TopicPartition& partition : description_->partitions) {
    const auto told = work_.partitions.find(partition);
    if (told != work_.partitions.end() && told->second >= 0) continue;
    if (!ends_.contains(partition)) unknown.push_back(partition);
  }
  if (unknown.empty()) return VoteYes();
  awaits_ends_ = true;
  ports_.cluster.LogEnds(std::move(unknown), Answered(&EnlistedParticipant::OnEnds));
}

void EnlistedParticipant::RememberGroup() {
  const auto partitions = txn::OffsetsPartitions(*description_);
  auto* registration = ports_.enlistments.FindProducer(id_);
  // With several it cannot be told which is whose.
  if (registration == nullptr || work_.group_ids.size() != 1 || partitions.size() != 1) return;
  registration->group_partitions[*work_.group_ids.begin()] = partitions.front();
}

void EnlistedParticipant::VoteYes() {
  RememberGroup();
  txn::Vote vote;
  vote.kind = txn::Vote::Kind::kYes;
  vote.prepared.name = name_;
  for (const txn::TopicPartition& partition : description_->partitions) {
    const auto told = work_.partitions.find(partition);
    const bool is_told = told != work_.partitions.end() && told->second >= 0;
    vote.prepared.evidence.push_back({partition, is_told ? told->second : ends_.at(partition)});
  }
  vote.prepared.deadline = WallTime{name_.start_time_ms + description_->timeout_ms};
  vote.prepared.enlisted = true;
  // The broker's clock started after ours did: this is the earlier end.
  vote.deadline = enlisted_at_ + milliseconds(description_->timeout_ms);
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
  committed_ = std::move(done);
  ports_.cluster.EndTxn(name_, txn::Direction::kCommit,
                        Answered(&EnlistedParticipant::OnCommitAnswered));
}

void EnlistedParticipant::OnCommitAnswered(const txn::EndTxnAnswer& answer) {
  const auto done = std::exchange(committed_, nullptr);
  if (Take(answer)) return done({});
  done(MakeError(Code::kUnavailable, answer.problem, Effect::kUnknown));
}

bool EnlistedParticipant::Take(const txn::EndTxnAnswer& answer) {
  if (answer.kind != txn::EndTxnAnswer::Kind::kDone) {
    uncertain_ = true;
    return false;
  }
  next_ = {name_.transactional_id, answer.producer_id, answer.producer_epoch};
  return true;
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
  ports_.cluster.EndTxn(name_, txn::Direction::kAbort,
                        Answered(&EnlistedParticipant::OnAbortAnswered));
}

void EnlistedParticipant::OnAbortAnswered(const txn::EndTxnAnswer& answer) {
  Take(answer) ? Aborted() : AbortLater();
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
