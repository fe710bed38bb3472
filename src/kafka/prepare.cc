#include "kafka/prepare.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/planted.h"
#include "kafka/resolution_calls.h"

namespace lockstep::kafka {
namespace {

using txn::AbortReason;
using txn::Refusal;

// How long the brokers may be silent before the topics are looked at again.
constexpr Duration kSilence = std::chrono::seconds(1);

AbortReason ReasonOf(const Error& error) {
  switch (error.code) {
    case Code::kPermissionDenied:
      return AbortReason::kNotAuthorized;
    case Code::kFailedPrecondition:
      return AbortReason::kClusterMismatch;  // See wire::Client.
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
      return AbortReason::kClusterUnavailable;
    default:
      return AbortReason::kInternal;
  }
}

bool Purged(const Failure& failure) {
  return failure.code == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
         failure.code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

Preparation::Preparation(const LaneEnv& env, const txn::ProducerInstance& lane, Producer& producer,
                         Interrupt& interrupt, const txn::BatchWork& work, MonoTime give_up,
                         WorkFeed& feed)
    : env_(env),
      lane_(lane),
      producer_(producer),
      interrupt_(interrupt),
      streamed_(work.streamed),
      feed_(feed),
      give_up_(give_up) {
  TakeUp(work.members);
}

void Preparation::TakeUp(std::vector<std::shared_ptr<const txn::BranchWork>> members) {
  members_ = std::move(members);
  first_record_.clear();
  std::size_t records = acknowledged_.size();
  bool want_positions = streamed_;  // Its Commit will tell.
  for (std::size_t member = 0; member < members_.size(); ++member) {
    const txn::BranchWork& of_member = *members_[member];
    first_record_.push_back(records);
    records += of_member.records.size();
    for (const txn::Record& record : of_member.records) topics_.insert(record.topic);
    for (const txn::GroupOffsets& group : of_member.offsets) {
      for (const txn::OffsetToCommit& offset : group.offsets) {
        topics_.insert(offset.partition.topic);
      }
    }
    want_positions |= of_member.want_positions;
    MergeOffsets(member);
  }
  acknowledged_.resize(records);
  if (want_positions) positions_.resize(records);
}

void Preparation::MergeOffsets(std::size_t member) {
  for (const txn::GroupOffsets& group : members_[member]->offsets) {
    if (group.offsets.empty()) continue;
    auto shared = std::ranges::find_if(offsets_, [&](const SharedOffsets& other) {
      return other.group.group_id == group.group_id && other.group.generation == group.generation &&
             other.group.member_id == group.member_id &&
             other.group.group_instance_id == group.group_instance_id &&
             other.group.standalone == group.standalone;
    });
    if (shared == offsets_.end()) {
      shared = offsets_.insert(shared, SharedOffsets{group, {}, {}});
      shared->group.offsets.clear();
    }
    if (shared->members.empty() || shared->members.back() != member) {
      shared->members.push_back(member);
    }
    for (const txn::OffsetToCommit& offset : group.offsets) {
      const auto [at, added] =
          shared->index.try_emplace(offset.partition, shared->group.offsets.size());
      if (added) {
        shared->group.offsets.push_back(offset);
      } else {
        shared->group.offsets[at->second] = offset;
      }
    }
  }
}

std::size_t Preparation::MemberOf(std::size_t record) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_record_, record) -
                                  first_record_.begin()) -
         1;
}

void Preparation::Blame(std::size_t member, const txn::Refusal& refusal) {
  const auto same = [&](const txn::Culprit& culprit) { return culprit.member == member; };
  if (std::ranges::none_of(culprits_, same)) culprits_.push_back({member, refusal});
}

txn::Vote Preparation::Run() {
  for (const auto step :
       {&Preparation::CheckWork, &Preparation::CheckTopics, &Preparation::Begin,
        &Preparation::WriteRecords, &Preparation::WriteStream, &Preparation::AwaitReports,
        &Preparation::WriteOffsets, &Preparation::AskBroker, &Preparation::FindEvidence,
        &Preparation::CheckAnswered}) {
    if (Step refusal = (this->*step)()) {
      txn::Vote no;
      no.kind = txn::Vote::Kind::kNo;
      no.refusal = std::move(*refusal);
      no.culprits = std::move(culprits_);
      return no;
    }
  }
  return Yes();
}

Preparation::Step Preparation::CheckEach(
    const std::function<Step(const txn::BranchWork& work)>& check) {
  Step first;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    Step refusal = check(*members_[member]);
    if (!refusal) continue;
    Blame(member, *refusal);
    if (!first) first = std::move(refusal);
  }
  return first;
}

Preparation::Step Preparation::CheckWork() {
  return CheckEach([this](const txn::BranchWork& work) { return CheckMember(work); });
}

// Things that librdkafka would pass over in silence.
Preparation::Step Preparation::CheckMember(const txn::BranchWork& work) const {
  for (std::size_t i = 0; i < work.records.size(); ++i) {
    const auto& timestamp = work.records[i].timestamp_ms;
    if (timestamp && *timestamp <= 0) {  // It reads 0 as "now".
      const std::size_t before = streamed_ ? first_record_.front() : 0;
      return Refuse(AbortReason::kInvalidRecord, "record " + std::to_string(before + i + 1) +
                                                     ": timestamp " + std::to_string(*timestamp) +
                                                     " is not after the epoch");
    }
  }
  for (const txn::GroupOffsets& group : work.offsets) {
    const bool named = group.generation >= 0 && !group.member_id.empty();
    if (!group.standalone && !named) {
      return Refuse(AbortReason::kGroupFenced,
                    "group " + Quoted(group.group_id) +
                        ": generation and member id are missing; pass them, or say standalone");
    }
    for (const txn::OffsetToCommit& offset : group.offsets) {
      if (offset.offset >= 0) continue;  // It leaves negative ones out.
      return Refuse(AbortReason::kInvalidRecord, "group " + Quoted(group.group_id) + ": offset " +
                                                     std::to_string(offset.offset) + " for " +
                                                     ToString(offset.partition));
    }
  }
  return std::nullopt;
}

// A record for a topic or partition that is not there would fail only after minutes, and take the
// whole transaction with it.
Preparation::Step Preparation::CheckTopics() {
  if (Step expired = Expired("topics were looked up")) return expired;
  if (topics_.empty()) return std::nullopt;
  const std::vector<std::string> topics(topics_.begin(), topics_.end());
  for (int look = 1;; ++look) {
    const auto found = env_.topics.Look(topics, AnswerTime(), interrupt_);
    if (!found.ok()) return Refuse(found.error(), "looking up topics");
    bool stale = false;
    culprits_.clear();
    Step refusal = CheckPartitions(*found, stale);
    if (!refusal) {
      if (const auto failure = producer_.Warm(*found, AnswerTime())) {
        return Refuse(*failure, "fetching metadata");
      }
      return std::nullopt;
    }
    // Partitions may have been added since the topic was looked up.
    if (!stale || look == 2) return refusal;
    env_.topics.Forget(topics);
  }
}

Refusal Preparation::RefuseTopic(const std::string& name, const Topic& topic) const {
  Failure failure;
  failure.code = static_cast<rd_kafka_resp_err_t>(topic.error);
  failure.message = topic.error == wire::ErrorCode::kUnknownTopicOrPartition
                        ? "it does not exist; Lockstep never creates one"
                        : wire::Name(topic.error);
  return Refuse(failure, "topic " + Quoted(name));
}

Preparation::Step Preparation::CheckPartitions(const TopicCatalog::Topics& topics, bool& stale) {
  const auto check = [&](const std::string& name, std::optional<std::int32_t> partition) -> Step {
    const auto topic = topics.find(name);
    if (topic != topics.end() && topic->second.error != wire::ErrorCode::kNone) {
      return RefuseTopic(name, topic->second);
    }
    const std::int32_t count = topic == topics.end() ? 0 : topic->second.partitions;
    if (!partition || (*partition >= 0 && *partition < count)) return std::nullopt;
    stale = true;
    return Refuse(AbortReason::kUnknownPartition, "topic " + Quoted(name) + " has no partition " +
                                                      std::to_string(*partition) + "; it has " +
                                                      std::to_string(count));
  };
  return CheckEach([&](const txn::BranchWork& work) -> Step {
    for (const txn::Record& record : work.records) {
      if (Step refusal = check(record.topic, record.partition)) return refusal;
    }
    for (const txn::GroupOffsets& group : work.offsets) {
      for (const txn::OffsetToCommit& offset : group.offsets) {
        if (Step refusal = check(offset.partition.topic, offset.partition.partition)) {
          return refusal;
        }
      }
    }
    return std::nullopt;
  });
}

Preparation::Step Preparation::Begin() {
  if (Step expired = Expired("the transaction began")) return expired;
  begun_at_ = Now();
  if (const auto failure = producer_.BeginTransaction()) return Refuse(*failure, "begin");
  begun_ = true;
  return AtFailpoint(Failpoint::kLaneBeforeProduce);
}

Preparation::Step Preparation::WriteRecords() {
  for (const auto& member : members_) {
    for (const txn::Record& record : member->records) {
      if (Step refusal = Enqueue(record, enqueued_)) return refusal;
      if (failed_) return RefuseDelivery(*failed_);
    }
  }
  last_news_ = Now();
  return std::nullopt;
}

Preparation::Step Preparation::WriteStream() {
  if (!streamed_) return std::nullopt;
  const MonoTime broker_gives_up = begun_at_ + env_.transaction_timeout;
  for (;;) {
    if (Now() >= broker_gives_up) {
      return Refuse(AbortReason::kDeadlineTooClose,
                    "Kafka's transaction timeout passed before Commit, counted from when more than "
                    "limits.batch_bytes was there; raise the cluster's transaction_timeout",
                    true);
    }
    if (Step expired = Expired("Commit")) return expired;
    if (auto piece = feed_.Take()) {
      if (Step refusal = WritePiece(std::move(*piece))) return refusal;
    } else if (const auto end = feed_.end()) {
      give_up_ = end->give_up;
      if (!end->want_positions) positions_.clear();
      return std::nullopt;
    } else if (Step refusal = TakeNews()) {
      return refusal;
    }
  }
}

Preparation::Step Preparation::WritePiece(WorkFeed::Piece piece) {
  const std::size_t records = piece.work.records.size();
  TakeUp({std::make_shared<const txn::BranchWork>(std::move(piece.work))});
  if (Step refusal = CheckWork()) return refusal;
  if (Step refusal = CheckTopics()) return refusal;
  sent_.push_back({acknowledged_.size(), records, std::move(piece.written)});
  if (Step refusal = WriteRecords()) return refusal;
  if (records == 0) std::exchange(sent_.back().written, nullptr)();
  return std::nullopt;
}

void Preparation::NoteAcknowledged(std::size_t record) {
  const auto piece = std::ranges::upper_bound(sent_, record, {}, &SentPiece::end);
  if (piece == sent_.end() || --piece->left > 0) return;
  std::exchange(piece->written, nullptr)();
  while (!sent_.empty() && sent_.front().left == 0) sent_.pop_front();
}

Preparation::Step Preparation::Enqueue(const txn::Record& record, std::size_t index) {
  for (;;) {
    const auto failure = producer_.Produce(record, index);
    if (!failure) {
      ++enqueued_;
      return std::nullopt;
    }
    if (failure->code != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      return RefuseRecord(index, "topic " + Quoted(record.topic), *failure);
    }
    if (Step expired = Expired("all records were sent")) return expired;
    TakeReports(std::chrono::milliseconds(100));
    if (failed_) return RefuseDelivery(*failed_);
  }
}

Preparation::Step Preparation::AwaitReports() {
  while (reported_ < enqueued_) {
    if (Step expired = Expired("all records were delivered")) return expired;
    if (Step refusal = TakeNews()) return refusal;
  }
  return AtFailpoint(Failpoint::kLaneAfterFlush);
}

Preparation::Step Preparation::TakeNews() {
  const std::size_t before = reported_;
  TakeReports(std::min<Duration>(Left(), kSilence));
  if (failed_) return RefuseDelivery(*failed_);
  if (reported_ == before && reported_ < enqueued_) {
    if (Now() - last_news_ < kSilence) return std::nullopt;
    if (Step refusal = CheckStillThere()) return refusal;
    if (Step refusal = LeaveOutSlow()) return refusal;
  }
  last_news_ = Now();
  return std::nullopt;
}

// librdkafka asks for ever for a topic that was deleted after we had looked.
Preparation::Step Preparation::CheckStillThere() {
  const std::vector<std::string> topics(topics_.begin(), topics_.end());
  env_.topics.Forget(topics);
  const auto found = env_.topics.Look(topics, AnswerTime(), interrupt_);
  if (!found.ok()) return std::nullopt;  // Silence is what we know already.
  bool stale = false;
  if (Step refusal = CheckPartitions(*found, stale)) return refusal;
  for (const auto& [name, topic] : *found) {  // Of a stream's earlier pieces, too.
    if (topic.error != wire::ErrorCode::kNone) return RefuseTopic(name, topic);
  }
  return std::nullopt;
}

// One partition has no leader, say: whoever writes to it may wait, but not keep the others waiting.
Preparation::Step Preparation::LeaveOutSlow() {
  std::set<std::size_t> slow;
  if (members_.size() == 1) return std::nullopt;
  for (std::size_t i = 0; i < acknowledged_.size(); ++i) {
    if (!acknowledged_[i]) slow.insert(MemberOf(i));
  }
  if (slow.size() == members_.size()) return std::nullopt;
  Refusal refusal = Refuse(AbortReason::kClusterUnavailable,
                           "records were not acknowledged while others of the batch were", true);
  for (const std::size_t member : slow) culprits_.push_back({member, refusal, true});
  return refusal;
}

void Preparation::TakeReports(Duration slice) {
  producer_.TakeReports(slice, [this](const DeliveryReport& report) {
    ++reported_;
    if (report.failure) {
      if (!failed_) failed_ = report;
      if (!Purged(*report.failure)) {
        RefuseRecord(report.record, ToString(report.partition), *report.failure);
      }
      return;
    }
    acknowledged_[report.record] = true;
    if (!positions_.empty()) {
      positions_[report.record] = {report.partition.partition, report.offset};
    }
    auto& offset = written_.partitions.try_emplace(report.partition, -1).first->second;
    offset = std::max(offset, report.offset);
    if (streamed_) NoteAcknowledged(report.record);
  });
}

Preparation::Step Preparation::WriteOffsets() {
  std::set<std::string> groups;
  for (const SharedOffsets& shared : offsets_) {
    const std::string& group = shared.group.group_id;
    if (Step expired = Expired("the offsets were sent")) return expired;
    if (const auto failure = producer_.SendOffsets(shared.group, AnswerTime())) {
      Refusal refusal = Refuse(*failure, "offsets of group " + Quoted(group));
      if (txn::LiesInWork(refusal.reason)) {
        for (const std::size_t member : shared.members) Blame(member, refusal);
      }
      return refusal;
    }
    groups.insert(group);
  }
  written_.groups = groups.size();
  return AtFailpoint(Failpoint::kLaneAfterOffsets);
}

Preparation::Step Preparation::AskBroker() {
  auto described = interrupt_.Await<txn::TxnDescription>([&](auto done) {
    env_.wire.DescribeTransaction(lane_.transactional_id, AnswerTime(), std::move(done));
  });
  if (!described.ok()) return Refuse(described.error(), "asking for the transaction's state");
  description_ = std::move(*described);
  Step refusal = txn::CheckDescription(lane_, written_, description_);
  if (refusal) refusal->cluster = env_.config.name;
  return refusal;
}

Preparation::Step Preparation::FindEvidence() {
  std::vector<txn::TopicPartition> unknown = txn::OffsetsPartitions(description_);
  for (const auto& [partition, offset] : written_.partitions) {
    if (offset >= 0) {
      evidence_.push_back({partition, offset});
    } else {
      unknown.push_back(partition);
    }
  }
  if (!unknown.empty()) {
    // All writes are answered and the marker is not written: the end of the partition lies between.
    const auto ends = interrupt_.Await<std::vector<txn::Evidence>>(
        [&](auto done) { LogEnds(env_.wire, unknown, AnswerTime(), std::move(done)); });
    if (!ends.ok()) return Refuse(ends.error(), "asking for the ends of partitions");
    evidence_.insert(evidence_.end(), ends->begin(), ends->end());
  }
  return std::nullopt;
}

// A request that was sent again because its first copy had no answer: that copy may arrive after
// the transaction's end, and open another one under the same name, which nobody could tell from
// ours being lost. So what is not settled does not get a YES.
Preparation::Step Preparation::CheckAnswered() {
  const RequestLedger::Counts counts = producer_.ledger().All();
  const bool answered =
      std::all_of(counts.begin(), counts.end(), [](const auto& c) { return c.settled(); });
  if (!answered && !Planted(PlantedBug::kVoteWhileUnanswered)) {
    return Refuse(AbortReason::kClusterUnavailable,
                  "a request of this transaction was not answered, and may still arrive", true);
  }
  if (Step failed = AtFailpoint(Failpoint::kLaneBeforeVote)) return failed;
  return Expired("the vote was given");
}

txn::Vote Preparation::Yes() {
  // The broker's clock started when our first request arrived, so this is the earlier end.
  const auto timeout =
      std::min(env_.transaction_timeout, std::chrono::milliseconds(description_.timeout_ms));
  txn::Vote yes;
  yes.kind = txn::Vote::Kind::kYes;
  yes.deadline = begun_at_ + timeout;
  yes.prepared.name = {env_.config.name,          env_.cluster_id,      lane_.transactional_id,
                       lane_.producer_id,         lane_.producer_epoch, txn::EndTxnProtocol::kTv1,
                       description_.start_time_ms};
  yes.prepared.evidence = evidence_;
  if (!positions_.empty()) {
    yes.positions = std::make_shared<const std::vector<txn::RecordPosition>>(std::move(positions_));
  }
  yes.prepared.deadline = WallTime{description_.start_time_ms + timeout.count()};
  return yes;
}

Preparation::Step Preparation::Expired(const char* what) {
  if (interrupt_.raised()) {
    return Refuse(AbortReason::kShutdown, "given up before " + std::string(what), true);
  }
  if (Left() > Duration::zero()) return std::nullopt;
  std::string message = "time was up before " + std::string(what);
  if (enqueued_ > reported_) {
    message += "; " + std::to_string(enqueued_ - reported_) + " of " +
               std::to_string(acknowledged_.size()) + " records are not acknowledged";
  }
  return Refuse(AbortReason::kClusterUnavailable, std::move(message), true);
}

Preparation::Step Preparation::AtFailpoint(Failpoint point) {
  if (!FailpointHit(point, env_.tag())) return std::nullopt;
  return Refuse(AbortReason::kInternal, "a failpoint says so", true);
}

Refusal Preparation::Refuse(AbortReason reason, std::string message, bool retriable) const {
  return {reason, env_.config.name, std::move(message), retriable};
}

Refusal Preparation::Refuse(const Failure& failure, const std::string& what) const {
  const ErrorFacts facts = FactsOf(failure.code);
  return Refuse(facts.reason, what + ": " + failure.message, facts.retriable);
}

Refusal Preparation::Refuse(const Error& error, const std::string& what) const {
  const AbortReason reason = ReasonOf(error);
  return Refuse(reason, what + ": " + error.message, reason == AbortReason::kClusterUnavailable);
}

Refusal Preparation::RefuseDelivery(const DeliveryReport& report) {
  // A purged record is not to blame: something before it spoiled the transaction.
  if (Purged(*report.failure)) {
    if (const auto cause = producer_.TransactionFailure()) return Refuse(*cause, "writing");
  }
  return RefuseRecord(report.record, ToString(report.partition), *report.failure);
}

Refusal Preparation::RefuseRecord(std::size_t index, const std::string& topic,
                                  const Failure& failure) {
  // A stream's total is not known yet.
  const std::size_t member = streamed_ ? 0 : MemberOf(index);
  const std::string which = streamed_ ? std::to_string(index + 1)
                                      : std::to_string(index - first_record_[member] + 1) + " of " +
                                            std::to_string(members_[member]->records.size());
  Refusal refusal = Refuse(failure, "record " + which + ", " + topic);
  // Else the producer failed, and with it everybody's records.
  if (txn::LiesInWork(refusal.reason) || refusal.reason == AbortReason::kClusterUnavailable) {
    Blame(member, refusal);
  }
  return refusal;
}

Duration Preparation::Left() const {
  return std::max<Duration>(give_up_ - Now(), Duration::zero());
}

Duration Preparation::AnswerTime() const { return std::min(Left(), env_.config.request_timeout); }

}  // namespace lockstep::kafka
