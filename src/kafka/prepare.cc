#include "kafka/prepare.h"

#include <algorithm>
#include <set>
#include <utility>

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

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

Preparation::Preparation(const LaneEnv& env, const txn::ProducerInstance& lane, Producer& producer,
                         Interrupt& interrupt, const txn::BranchWork& work, MonoTime give_up)
    : env_(env),
      lane_(lane),
      producer_(producer),
      interrupt_(interrupt),
      work_(work),
      give_up_(give_up) {
  std::set<std::string> topics;
  for (const txn::Record& record : work.records) topics.insert(record.topic);
  for (const txn::GroupOffsets& group : work.offsets) {
    for (const txn::OffsetToCommit& offset : group.offsets) topics.insert(offset.partition.topic);
  }
  topics_.assign(topics.begin(), topics.end());
  if (work.want_positions) positions_.resize(work.records.size());
}

txn::Vote Preparation::Run() {
  for (const auto step :
       {&Preparation::CheckWork, &Preparation::CheckTopics, &Preparation::Begin,
        &Preparation::WriteRecords, &Preparation::AwaitReports, &Preparation::WriteOffsets,
        &Preparation::AskBroker, &Preparation::FindEvidence, &Preparation::CheckAnswered}) {
    if (Step refusal = (this->*step)()) {
      txn::Vote no;
      no.kind = txn::Vote::Kind::kNo;
      no.refusal = std::move(*refusal);
      return no;
    }
  }
  return Yes();
}

// Things that librdkafka would pass over in silence.
Preparation::Step Preparation::CheckWork() {
  for (std::size_t i = 0; i < work_.records.size(); ++i) {
    const auto& timestamp = work_.records[i].timestamp_ms;
    if (timestamp && *timestamp <= 0) {  // It reads 0 as "now".
      return Refuse(AbortReason::kInvalidRecord, "record " + std::to_string(i + 1) +
                                                     ": timestamp " + std::to_string(*timestamp) +
                                                     " is not after the epoch");
    }
  }
  for (const txn::GroupOffsets& group : work_.offsets) {
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
  for (int look = 1;; ++look) {
    const auto found = env_.topics.Look(topics_, AnswerTime(), interrupt_);
    if (!found.ok()) return Refuse(found.error(), "looking up topics");
    bool stale = false;
    Step refusal = CheckPartitions(*found, stale);
    if (!refusal) {
      if (const auto failure = producer_.Warm(*found, AnswerTime())) {
        return Refuse(*failure, "fetching metadata");
      }
      return std::nullopt;
    }
    // Partitions may have been added since the topic was looked up.
    if (!stale || look == 2) return refusal;
    env_.topics.Forget(topics_);
  }
}

Preparation::Step Preparation::CheckPartitions(const TopicCatalog::Topics& topics, bool& stale) {
  for (const auto& [name, topic] : topics) {
    if (topic.error == wire::ErrorCode::kNone) continue;
    Failure failure;
    failure.code = static_cast<rd_kafka_resp_err_t>(topic.error);
    failure.message = topic.error == wire::ErrorCode::kUnknownTopicOrPartition
                          ? "it does not exist; Lockstep never creates one"
                          : wire::Name(topic.error);
    return Refuse(failure, "topic " + Quoted(name));
  }
  const auto check = [&](const std::string& name, std::int32_t partition) -> Step {
    const auto topic = topics.find(name);
    const std::int32_t count = topic == topics.end() ? 0 : topic->second.partitions;
    if (partition >= 0 && partition < count) return std::nullopt;
    stale = true;
    return Refuse(AbortReason::kUnknownPartition, "topic " + Quoted(name) + " has no partition " +
                                                      std::to_string(partition) + "; it has " +
                                                      std::to_string(count));
  };
  for (const txn::Record& record : work_.records) {
    if (!record.partition) continue;
    if (Step refusal = check(record.topic, *record.partition)) return refusal;
  }
  for (const txn::GroupOffsets& group : work_.offsets) {
    for (const txn::OffsetToCommit& offset : group.offsets) {
      if (Step refusal = check(offset.partition.topic, offset.partition.partition)) return refusal;
    }
  }
  return std::nullopt;
}

Preparation::Step Preparation::Begin() {
  if (Step expired = Expired("the transaction began")) return expired;
  begun_at_ = Now();
  if (const auto failure = producer_.BeginTransaction()) return Refuse(*failure, "begin");
  begun_ = true;
  return AtFailpoint(Failpoint::kLaneBeforeProduce);
}

Preparation::Step Preparation::WriteRecords() {
  for (std::size_t i = 0; i < work_.records.size(); ++i) {
    if (Step refusal = Enqueue(work_.records[i], i)) return refusal;
    if (failed_) return RefuseDelivery(*failed_);
  }
  return std::nullopt;
}

Preparation::Step Preparation::Enqueue(const txn::Record& record, std::size_t index) {
  for (;;) {
    const auto failure = producer_.Produce(record, index);
    if (!failure) {
      ++enqueued_;
      return std::nullopt;
    }
    if (failure->code != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      return Refuse(*failure, "record " + std::to_string(index + 1) + " of " +
                                  std::to_string(work_.records.size()) + ", topic " +
                                  Quoted(record.topic));
    }
    if (Step expired = Expired("all records were sent")) return expired;
    TakeReports(std::chrono::milliseconds(100));
    if (failed_) return RefuseDelivery(*failed_);
  }
}

Preparation::Step Preparation::AwaitReports() {
  MonoTime last_news = Now();
  while (reported_ < enqueued_) {
    if (Step expired = Expired("all records were delivered")) return expired;
    const std::size_t before = reported_;
    TakeReports(std::min<Duration>(Left(), kSilence));
    if (failed_) return RefuseDelivery(*failed_);
    if (reported_ > before) {
      last_news = Now();
    } else if (Now() - last_news >= kSilence) {
      if (Step refusal = CheckStillThere()) return refusal;
      last_news = Now();
    }
  }
  return AtFailpoint(Failpoint::kLaneAfterFlush);
}

// librdkafka asks for ever for a topic that was deleted after we had looked.
Preparation::Step Preparation::CheckStillThere() {
  env_.topics.Forget(topics_);
  const auto found = env_.topics.Look(topics_, AnswerTime(), interrupt_);
  if (!found.ok()) return std::nullopt;  // Silence is what we know already.
  bool stale = false;
  return CheckPartitions(*found, stale);
}

void Preparation::TakeReports(Duration slice) {
  producer_.TakeReports(slice, [this](const DeliveryReport& report) {
    ++reported_;
    if (report.failure) {
      if (!failed_) failed_ = report;
      return;
    }
    if (!positions_.empty()) {
      positions_[report.record] = {report.partition.partition, report.offset};
    }
    auto& offset = written_.partitions.try_emplace(report.partition, -1).first->second;
    offset = std::max(offset, report.offset);
  });
}

Preparation::Step Preparation::WriteOffsets() {
  std::set<std::string> groups;
  for (const txn::GroupOffsets& group : work_.offsets) {
    if (group.offsets.empty()) continue;
    if (Step expired = Expired("the offsets were sent")) return expired;
    if (const auto failure = producer_.SendOffsets(group, AnswerTime())) {
      return Refuse(*failure, "offsets of group " + Quoted(group.group_id));
    }
    groups.insert(group.group_id);
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
  if (!std::all_of(counts.begin(), counts.end(), [](const auto& c) { return c.settled(); })) {
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
               std::to_string(work_.records.size()) + " records are not acknowledged";
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
  const Failure& said = *report.failure;
  const bool purged =
      said.code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || said.code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
  // A purged record is not to blame: something before it spoiled the transaction.
  if (const auto cause = purged ? producer_.TransactionFailure() : std::nullopt) {
    return Refuse(*cause, "writing");
  }
  return Refuse(said, "record " + std::to_string(report.record + 1) + " of " +
                          std::to_string(work_.records.size()) + ", " + ToString(report.partition));
}

Duration Preparation::Left() const {
  return std::max<Duration>(give_up_ - Now(), Duration::zero());
}

Duration Preparation::AnswerTime() const { return std::min(Left(), env_.config.request_timeout); }

}  // namespace lockstep::kafka
