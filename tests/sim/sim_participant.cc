#include "sim_participant.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/planted.h"

namespace lockstep::sim {
namespace {

using fake_kafka::Appended;
using fake_kafka::KafkaError;
using fake_kafka::ProducerAnswer;
using std::chrono::milliseconds;
using txn::AbortReason;

constexpr milliseconds kRequestTimeout{1'000};
constexpr milliseconds kRetry{20};

AbortReason ReasonFor(KafkaError error) {
  switch (error) {
    case KafkaError::kUnknownTopicOrPartition:
      return AbortReason::kUnknownTopic;
    case KafkaError::kIllegalGeneration:
    case KafkaError::kUnknownMemberId:
      return AbortReason::kGroupFenced;
    default:
      return AbortReason::kProducerFenced;
  }
}

}  // namespace

SimParticipant::~SimParticipant() { cluster_.NoLongerWantsLane(this); }

void SimParticipant::Prepare(txn::BatchWork work, MonoTime give_up,
                             coordinator::Callback<txn::Vote> vote) {
  work_ = std::move(work);
  finished_ = !work_.streamed;
  vote_ = std::move(vote);
  if (Planted(PlantedBug::kMemberLeftOut) && work_.members.size() > 1) work_.members.pop_back();
  for (const auto& member : work_.members) TakeUp(*member);
  if (finished_ && records_.empty() && offsets_.empty()) {
    cluster_.world().scheduler.After({}, life(), [this] {
      if (preparing()) TellVote({.kind = txn::Vote::Kind::kReadOnly});
    });
    return;
  }
  GiveUpAt(give_up);
  // Never from inside the call: the lane is asked for in a step of its own.
  cluster_.world().scheduler.After({}, life(), [this] {
    if (preparing()) cluster_.WantLane(this);
  });
}

void SimParticipant::GiveUpAt(MonoTime time) {
  cluster_.world().scheduler.After(time - cluster_.world().clock.Now(), life(), [this] {
    if (preparing()) Refuse(AbortReason::kClusterUnavailable, "not prepared in time");
  });
}

void SimParticipant::TakeUp(const txn::BranchWork& work) {
  for (const txn::Record& record : work.records) {
    records_[{record.topic, record.partition.value_or(0)}].push_back(record.value.value_or(""));
  }
  offsets_.insert(offsets_.end(), work.offsets.begin(), work.offsets.end());
}

void SimParticipant::Write(txn::BranchWork piece, coordinator::Callback<> written) {
  pieces_.push_back({std::move(piece), std::move(written)});
  if (Planted(PlantedBug::kPieceLeftOut) && pieces_.size() > 1) {
    pieces_.back().work = {};
  }
  if (std::exchange(waits_for_piece_, false)) NextPiece();
}

void SimParticipant::Finish(MonoTime give_up, bool /*want_positions*/) {
  finished_ = true;
  GiveUpAt(give_up);
  if (std::exchange(waits_for_piece_, false)) NextPiece();
}

/// Never from inside Write or Finish, and not while one is being written.
void SimParticipant::NextPiece() {
  cluster_.world().scheduler.After({}, life(), [this] {
    if (!preparing()) return;
    records_.clear();
    if (!pieces_.empty()) {
      TakeUp(pieces_.front().work);
      return AddPartitions();
    }
    if (finished_) return SendOffsets(0);
    waits_for_piece_ = true;
  });
}

void SimParticipant::Delivered() {
  if (!work_.streamed) return SendOffsets(0);
  const coordinator::Callback<> written = std::move(pieces_.front().written);
  pieces_.pop_front();
  written();
  NextPiece();
}

void SimParticipant::TakeLane(Lane* lane) {
  lane_ = lane;
  begun_ = cluster_.world().clock.Now();
  if (work_.streamed) return NextPiece();
  AddPartitions();
}

/// One request of this lane. Its answer is dropped once the preparation has stopped; a request
/// without an answer is sent again, as librdkafka does, and leaves the lane unclean.
template <typename R>
void SimParticipant::Ask(const std::string& what, std::function<R(FakeKafka&)> request,
                         std::function<void(R)> answered) {
  ++in_flight_;
  cluster_.broker().Call<R>(SimBroker::Sender::kLane, what + "(" + lane_->id + ")", life(),
                            kRequestTimeout, request,
                            [this, what, request, answered](std::optional<R> answer) {
                              --in_flight_;
                              if (lane_ == nullptr)
                                return;  // Given back, and renewed for this very request.
                              if (!answer) Unanswered();
                              if (!preparing()) return;
                              if (answer) return answered(*answer);
                              Ask<R>(what, request, answered);
                            });
}

/// It may arrive at any time, also in the lane's next transaction.
void SimParticipant::Unanswered() {
  unanswered_ = true;
  if (!Planted(PlantedBug::kUncleanLaneReused)) lane_->clean = false;
}

bool SimParticipant::Failed(KafkaError error, std::function<void()> again) {
  if (error == KafkaError::kNone) return false;
  if (AsksForPatience(error)) {
    cluster_.world().scheduler.After(kRetry, life(), [this, again = std::move(again)] {
      if (preparing()) again();
    });
  } else {
    Refuse(ReasonFor(error), fake_kafka::Name(error));
  }
  return true;
}

void SimParticipant::AddPartitions() {
  if (records_.empty()) return Delivered();
  std::vector<txn::TopicPartition> partitions;
  for (const auto& [partition, values] : records_) partitions.push_back(partition);
  Ask<KafkaError>(
      "AddPartitionsToTxn",
      [id = lane_->id, producer = lane_->producer, partitions](FakeKafka& kafka) {
        return kafka.AddPartitionsToTxn(id, producer, partitions);
      },
      [this](KafkaError error) {
        if (Failed(error, [this] { AddPartitions(); })) return;
        in_transaction_ = true;
        Produce();
      });
}

void SimParticipant::Produce() {
  undelivered_ = records_.size();
  for (const auto& [partition, values] : records_) {
    evidence_.try_emplace(partition, -1);
    ProduceTo(partition, values);
  }
  if (VotesUnflushed()) SendOffsets(0);
}

bool SimParticipant::VotesUnflushed() const {
  return Planted(PlantedBug::kVoteUnflushed) && !work_.streamed;
}

void SimParticipant::ProduceTo(const txn::TopicPartition& partition,
                               const std::vector<std::string>& values) {
  const std::int32_t sequence = lane_->next_sequence[partition];
  Ask<Appended>(
      "Produce",
      [id = lane_->id, producer = lane_->producer, partition, sequence, values](FakeKafka& kafka) {
        return kafka.Produce({id, producer, partition, sequence, values});
      },
      [this, partition, values](const Appended& appended) {
        if (Failed(appended.error, [=, this] { ProduceTo(partition, values); })) return;
        const auto count = static_cast<std::int32_t>(values.size());
        lane_->next_sequence[partition] += count;
        evidence_[partition] = appended.base_offset + count - 1;
        if (--undelivered_ > 0) return;
        if (!VotesUnflushed()) Delivered();
      });
}

void SimParticipant::SendOffsets(std::size_t group) {
  if (group == offsets_.size()) return FindOffsetsEvidence();
  Ask<KafkaError>(
      "AddOffsetsToTxn",
      [id = lane_->id, producer = lane_->producer, name = offsets_[group].group_id](
          FakeKafka& kafka) { return kafka.AddOffsetsToTxn(id, producer, name); },
      [this, group](KafkaError error) {
        if (Failed(error, [=, this] { SendOffsets(group); })) return;
        in_transaction_ = true;
        CommitOffsets(group);
      });
}

void SimParticipant::CommitOffsets(std::size_t group) {
  Ask<KafkaError>(
      "TxnOffsetCommit",
      [id = lane_->id, producer = lane_->producer, offsets = offsets_[group]](FakeKafka& kafka) {
        return kafka.TxnOffsetCommit({id, producer, offsets});
      },
      [this, group](KafkaError error) {
        if (Failed(error, [=, this] { CommitOffsets(group); })) return;
        SendOffsets(group + 1);
      });
}

/// No report tells where the offsets went: the marker will be at or after the end of the partition
/// as it is now.
void SimParticipant::FindOffsetsEvidence() {
  if (offsets_.empty()) return DescribeAndVote();
  using Ends = std::map<txn::TopicPartition, std::int64_t>;
  cluster_.broker().Call<Ends>(
      SimBroker::Sender::kWire, "ListOffsets (evidence)", life(), kRequestTimeout,
      [groups = offsets_](FakeKafka& kafka) {
        Ends ends;
        for (const txn::GroupOffsets& group : groups) {
          const txn::TopicPartition partition = kafka.OffsetsPartition(group.group_id);
          ends[partition] = kafka.Partition(partition)->high_watermark();
        }
        return ends;
      },
      [this](const std::optional<Ends>& ends) {
        if (!preparing()) return;
        if (!ends) return FindOffsetsEvidence();
        evidence_.insert(ends->begin(), ends->end());
        DescribeAndVote();
      });
}

void SimParticipant::DescribeAndVote() {
  if (unanswered_ && !Planted(PlantedBug::kVoteWhileUnanswered)) {
    return Refuse(AbortReason::kClusterUnavailable, "a request was not answered");
  }
  if (Planted(PlantedBug::kVoteUnchecked)) {
    const std::string& id = lane_->id;
    return VoteYes(cluster_.broker().kafka().DescribeTransaction(id).start_time_ms);
  }
  cluster_.DescribeId(lane_->id, life(),
                      [this](const std::optional<txn::TxnDescription>& description) {
                        if (!preparing()) return;
                        if (!description) return DescribeAndVote();
                        Judge(*description);
                      });
}

void SimParticipant::Judge(const txn::TxnDescription& description) {
  const bool ours = description.exists && description.state == txn::KafkaTxnState::kOngoing &&
                    description.producer_id.get() == lane_->producer.id &&
                    description.producer_epoch.get() == lane_->producer.epoch;
  std::set<txn::TopicPartition> wrote;
  for (const auto& [partition, offset] : evidence_) wrote.insert(partition);
  const bool all = std::includes(description.partitions.begin(), description.partitions.end(),
                                 wrote.begin(), wrote.end());
  if (!ours || !all) {
    return Refuse(AbortReason::kVoteMismatch, "the broker has another transaction");
  }
  VoteYes(description.start_time_ms);
}

void SimParticipant::VoteYes(std::int64_t start_time_ms) {
  const auto& world = cluster_.world();
  txn::Vote vote{.kind = txn::Vote::Kind::kYes};
  txn::ParticipantName& name = vote.prepared.name;
  name.cluster = cluster_.name();
  name.kafka_cluster_id = cluster_.status().kafka_cluster_id;
  name.transactional_id = TransactionalId(lane_->id);
  name.producer_id = ProducerId(lane_->producer.id);
  name.producer_epoch = ProducerEpoch(lane_->producer.epoch);
  name.start_time_ms = start_time_ms;
  for (const auto& [partition, offset] : evidence_) {
    vote.prepared.evidence.push_back({partition, std::max<std::int64_t>(offset, 0)});
  }
  const Duration timeout = world.options.txn_timeout;
  vote.prepared.deadline = WallTime{world.clock.WallNow().ms +
                                    std::chrono::duration_cast<milliseconds>(timeout).count()};
  vote.deadline = begun_ + timeout;
  if (Planted(PlantedBug::kDeadlineTooLate) || Planted(PlantedBug::kVoteUnchecked)) {
    vote.deadline += std::chrono::hours(1);
  }
  const Duration delay = cluster_.broker().VoteDelay();
  if (delay == Duration{}) return TellVote(std::move(vote));
  world.scheduler.After(delay, life(), [this, vote] {
    if (preparing()) TellVote(vote);
  });
}

void SimParticipant::Refuse(AbortReason reason, const std::string& message) {
  stopped_ = true;
  cluster_.NoLongerWantsLane(this);
  // A refused request leaves librdkafka's producer in a state that only a new one gets out of.
  if (lane_ != nullptr && reason != AbortReason::kGroupFenced) lane_->clean = false;
  txn::Vote vote{.kind = txn::Vote::Kind::kNo};
  vote.refusal = {reason, cluster_.name(), message, true};
  vote.culprits = Culprits(vote.refusal);
  std::exchange(vote_, nullptr)(std::move(vote));
}

std::vector<txn::Culprit> SimParticipant::Culprits(const txn::Refusal& refusal) const {
  std::vector<txn::Culprit> culprits;
  if (!LiesInWork(refusal.reason) || cluster_.world().random.Chance(0.5)) return culprits;
  for (std::size_t i = 0; i < work_.members.size(); ++i) {
    const txn::BranchWork& member = *work_.members[i];
    const bool lost = std::ranges::any_of(
        member.records, [](const txn::Record& record) { return record.topic != "t"; });
    const bool stale = std::ranges::any_of(member.offsets, [](const txn::GroupOffsets& group) {
      return !group.standalone && group.generation != 5;
    });
    if (refusal.reason == AbortReason::kGroupFenced ? stale : lost) {
      culprits.push_back({i, refusal});
    }
  }
  return culprits;
}

void SimParticipant::TellVote(txn::Vote vote) { std::exchange(vote_, nullptr)(std::move(vote)); }

// ---- Ending ------------------------------------------------------------------------------------

void SimParticipant::Commit(coordinator::Callback<Status> done) { SendCommit(3, std::move(done)); }

void SimParticipant::SendCommit(int attempts_left, coordinator::Callback<Status> done) {
  cluster_.broker().Call<ProducerAnswer>(
      SimBroker::Sender::kLane, "EndTxn(" + lane_->id + ") v1 commit", life(), kRequestTimeout,
      [id = lane_->id, producer = lane_->producer](FakeKafka& kafka) {
        return kafka.EndTxn(1, id, producer, true);
      },
      [this, attempts_left, done](std::optional<ProducerAnswer> answer) {
        if (answer && answer->error == KafkaError::kNone) return done({});
        if (answer) lane_->clean = false;
        if (!answer) Unanswered();
        const bool retry = !answer || answer->error == KafkaError::kConcurrentTransactions;
        if (retry && attempts_left > 1) {
          cluster_.world().scheduler.After(kRetry, life(),
                                           [=, this] { SendCommit(attempts_left - 1, done); });
          return;
        }
        lane_->aborted = true;  // By the broker, for all that this lane knows.
        if (Planted(PlantedBug::kErrorIsOutcome)) return done({});
        done(MakeError(Code::kUnavailable, answer ? Name(answer->error) : "no answer",
                       Effect::kUnknown));
      });
}

void SimParticipant::Abort(coordinator::Callback<bool> aborted) {
  auto done = [aborted = std::move(aborted)] { aborted(false); };
  vote_ = nullptr;
  stopped_ = true;
  cluster_.NoLongerWantsLane(this);
  if (lane_ != nullptr) lane_->aborted = true;
  if (lane_ != nullptr && in_flight_ > 0) Unanswered();
  const bool skip = Planted(PlantedBug::kSpoiledNotAborted);
  if (lane_ != nullptr && lane_->clean && in_transaction_ && !skip) {
    return SendAbort(std::move(done));
  }
  // Nothing was begun, or the lane's next InitProducerId aborts it.
  cluster_.world().scheduler.After({}, life(), std::move(done));
}

void SimParticipant::SendAbort(coordinator::Callback<> done) {
  cluster_.broker().Call<ProducerAnswer>(
      SimBroker::Sender::kLane, "EndTxn(" + lane_->id + ") v1 abort", life(), kRequestTimeout,
      [id = lane_->id, producer = lane_->producer](FakeKafka& kafka) {
        return kafka.EndTxn(1, id, producer, false);
      },
      [this, done = std::move(done)](std::optional<ProducerAnswer> answer) {
        if (!answer) Unanswered();
        if (answer && answer->error != KafkaError::kNone) lane_->clean = false;
        done();
      });
}

void SimParticipant::Release() {
  if (lane_ != nullptr) cluster_.ReturnLane(std::exchange(lane_, nullptr));
}

}  // namespace lockstep::sim
