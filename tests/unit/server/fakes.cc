#include "fakes.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::server {

using coordinator::Callback;

namespace {

/// A client's own in these tests: there only once it is initialised. All others always are.
bool IsApp(const TransactionalId& id) { return id.get().starts_with("app"); }

}  // namespace

FakeLog::FakeLog(coordinator::Executor& executor) : executor_(executor) {
  recovered_.log_id = LogId("0123456789abcdef");
  recovered_.incarnation = Incarnation(3);
  recovered_.next_batch = BatchId(100);
}

void FakeLog::Answer(Callback<Status> done) {
  executor_.Post([this, done = std::move(done)] {
    if (failed_) return done(MakeError(Code::kUnavailable, "disk on fire", Effect::kUnknown));
    done({});
  });
}

void FakeLog::StoreDecision(txn::Decision decision, Callback<Status> done) {
  {
    const std::lock_guard lock(mutex_);
    decisions_[decision.batch] = std::move(decision);
  }
  Answer(std::move(done));
}

void FakeLog::StoreCompletion(coordinator::Completion completion, bool, Callback<Status> done) {
  {
    const std::lock_guard lock(mutex_);
    decisions_[completion.batch].participants.resize(std::max<std::size_t>(
        decisions_[completion.batch].participants.size(), completion.participant + 1));
    decisions_[completion.batch].participants[completion.participant].outcome = completion.outcome;
  }
  Answer(std::move(done));
}

void FakeLog::StoreAcknowledgement(BatchId, Callback<Status> done) { Answer(std::move(done)); }

void FakeLog::StoreOrder(coordinator::StoredOrder order, Callback<Status> done) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  Answer(std::move(done));
}

std::vector<txn::Decision> FakeLog::decisions() const {
  const std::lock_guard lock(mutex_);
  std::vector<txn::Decision> all;
  for (const auto& [batch, decision] : decisions_) all.push_back(decision);
  return all;
}

std::vector<coordinator::StoredOrder> FakeLog::orders() const {
  const std::lock_guard lock(mutex_);
  return orders_;
}

void FakeLog::StoreEnlistment(txn::Enlistment enlistment) {
  const std::lock_guard lock(mutex_);
  enlistments_.push_back(std::move(enlistment));
}

void FakeLog::EndEnlistment(ClusterName cluster, TransactionalId id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(enlistments_, [&](const txn::Enlistment& enlistment) {
    return enlistment.name.cluster == cluster && enlistment.name.transactional_id == id;
  });
}

std::size_t FakeLog::enlistments() const {
  const std::lock_guard lock(mutex_);
  return enlistments_.size();
}

void FakeLog::StoreBinding(ClusterName, KafkaClusterId, Callback<Status> done) {
  Answer(std::move(done));
}

void FakeLog::StoreSuperseded(std::string, Callback<Status> done) { Answer(std::move(done)); }

Result<std::optional<txn::Decision>> FakeLog::Find(const GlobalTxnId& txn) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [batch, decision] : decisions_) {
    const auto& members = decision.members;
    if (std::find(members.begin(), members.end(), txn) != members.end()) return {decision};
  }
  return {std::nullopt};
}

Result<std::optional<txn::Decision>> FakeLog::FindKey(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [batch, decision] : decisions_) {
    for (const txn::MemberKey& member : decision.keys) {
      if (member.key.key == key) return {decision};
    }
  }
  return {std::nullopt};
}

Result<std::unique_ptr<coordinator::LogBackup>> FakeLog::Backup() const {
  class Pieces final : public coordinator::LogBackup {
   public:
    explicit Pieces(std::vector<Result<std::string>> pieces) : pieces_(std::move(pieces)) {}
    Result<std::string> Next() override {
      return at_ < pieces_.size() ? pieces_[at_++] : std::string();
    }

   private:
    const std::vector<Result<std::string>> pieces_;
    std::size_t at_ = 0;
  };
  return std::unique_ptr<coordinator::LogBackup>(new Pieces(backup_));
}

// ---- The cluster --------------------------------------------------------------------------------

class FakeCluster::FakeParticipant final : public coordinator::Participant {
 public:
  explicit FakeParticipant(FakeCluster& cluster) : cluster_(cluster) {}

  void Prepare(txn::BatchWork work, MonoTime, Callback<txn::Vote> vote) override {
    cluster_.prepares_ += static_cast<int>(work.members.size());
    if (work.streamed) {
      stream_vote_ = std::move(vote);
      return;
    }
    Vote(work, std::move(vote));
  }
  void Write(txn::BranchWork piece, Callback<> written) override {
    cluster_.NotePiece(piece, std::move(written));
    for (txn::Record& record : piece.records) streamed_.records.push_back(std::move(record));
    for (txn::GroupOffsets& group : piece.offsets) streamed_.offsets.push_back(std::move(group));
    const txn::BatchWork work{{std::make_shared<txn::BranchWork>(streamed_)}, true};
    const txn::Vote answer = VoteOn(work, cluster_.behaviour());
    if (answer.kind != txn::Vote::Kind::kNo || stream_vote_ == nullptr) return;
    cluster_.executor_.Post(
        [vote = std::exchange(stream_vote_, nullptr), answer] { vote(answer); });
  }
  void Finish(MonoTime, bool want_positions) override {
    streamed_.want_positions = want_positions;
    if (stream_vote_ == nullptr) return;
    Vote({{std::make_shared<txn::BranchWork>(std::move(streamed_))}, true},
         std::exchange(stream_vote_, nullptr));
  }
  void Vote(const txn::BatchWork& work, Callback<txn::Vote> vote) {
    const Behaviour behaviour = cluster_.behaviour();
    cluster_.Note(work);
    if (!behaviour.votes) return;
    auto tell = [vote = std::move(vote), answer = VoteOn(work, behaviour)] { vote(answer); };
    if (cluster_.holds_votes_) {
      const std::lock_guard lock(cluster_.mutex_);
      cluster_.held_.push_back(std::move(tell));
    } else {
      cluster_.executor_.PostAfter(behaviour.vote_delay, std::move(tell));
    }
  }
  void Commit(Callback<Status> done) override {
    const Behaviour now = cluster_.behaviour();
    if (now.aborted_it || now.ongoing || !now.commits) {
      const Error away = MakeError(Code::kUnavailable, "no answer", Effect::kUnknown);
      return cluster_.executor_.Post([done = std::move(done), away] { done(away); });
    }
    cluster_.executor_.PostAfter(now.commit_delay, [done = std::move(done)] { done({}); });
  }
  void Abort(Callback<bool> done) override {
    cluster_.executor_.Post([done = std::move(done)] { done(false); });
  }
  void Release() override {}

 private:
  txn::Vote VoteOn(const txn::BatchWork& work, const Behaviour& behaviour) const {
    txn::Vote answer;
    const std::vector<txn::Culprit> culprits = Culprits(work, behaviour);
    const bool alone = behaviour.slow && work.members.size() == 1;
    const bool refused = behaviour.refusal.reason != txn::AbortReason::kNone &&
                         (behaviour.bad_topic.empty() || !culprits.empty()) && !alone;
    if (refused) {
      answer.refusal = behaviour.refusal;
      if (behaviour.names_culprits) answer.culprits = culprits;
      return answer;
    }
    answer.kind = txn::Vote::Kind::kYes;
    answer.prepared.name = {cluster_.name_,
                            KafkaClusterId("kafka-" + cluster_.name_.get()),
                            TransactionalId("lane-" + cluster_.name_.get()),
                            ProducerId(7),
                            ProducerEpoch(1),
                            txn::EndTxnProtocol::kTv1,
                            1000};
    answer.deadline = MonoTime::max();
    // The n-th record of the batch stands at offset 100 + n.
    std::vector<txn::RecordPosition> positions;
    bool wanted = false;
    for (const auto& member : work.members) {
      wanted |= member->want_positions;
      for (std::size_t i = 0; i < member->records.size(); ++i) {
        positions.push_back({0, static_cast<std::int64_t>(100 + positions.size())});
      }
    }
    if (wanted) {
      answer.positions =
          std::make_shared<const std::vector<txn::RecordPosition>>(std::move(positions));
    }
    return answer;
  }

  static std::vector<txn::Culprit> Culprits(const txn::BatchWork& work,
                                            const Behaviour& behaviour) {
    std::vector<txn::Culprit> culprits;
    for (std::size_t i = 0; i < work.members.size(); ++i) {
      for (const txn::Record& record : work.members[i]->records) {
        if (record.topic != behaviour.bad_topic) continue;
        culprits.push_back({i, behaviour.refusal, behaviour.slow});
        break;
      }
    }
    return culprits;
  }

  FakeCluster& cluster_;
  txn::BranchWork streamed_;
  Callback<txn::Vote> stream_vote_;  // Until it voted.
};

void FakeCluster::NotePiece(const txn::BranchWork& piece, Callback<> written) {
  const std::lock_guard lock(mutex_);
  std::string values;
  for (const txn::Record& record : piece.records) values += record.value.value_or("");
  pieces_.push_back(values);
  if (holds_pieces_) {
    held_pieces_.push_back(std::move(written));
  } else {
    executor_.Post(std::move(written));
  }
}

std::vector<std::string> FakeCluster::pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_;
}

void FakeCluster::LetHeldPieces() {
  const std::lock_guard lock(mutex_);
  for (auto& written : std::exchange(held_pieces_, {})) executor_.Post(std::move(written));
}

void FakeCluster::Note(const txn::BatchWork& work) {
  const std::lock_guard lock(mutex_);
  work_ = {};
  std::string values;
  for (const auto& member : work.members) {
    if (!values.empty()) values += ',';
    for (const txn::Record& record : member->records) {
      work_.records.push_back(record);
      values += record.value.value_or("");
    }
    work_.offsets.insert(work_.offsets.end(), member->offsets.begin(), member->offsets.end());
    work_.want_positions |= member->want_positions;
  }
  batches_.push_back(values);
}

std::vector<std::string> FakeCluster::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

void FakeCluster::LetHeldVotes() {
  const std::lock_guard lock(mutex_);
  for (auto& vote : std::exchange(held_, {})) executor_.Post(std::move(vote));
}

std::size_t FakeCluster::held_votes() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

void FakeCluster::Set(Behaviour behaviour) {
  const std::lock_guard lock(mutex_);
  behaviour_ = std::move(behaviour);
}

FakeCluster::Behaviour FakeCluster::behaviour() const {
  const std::lock_guard lock(mutex_);
  return behaviour_;
}

txn::BranchWork FakeCluster::prepared_work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

coordinator::ClusterStatus FakeCluster::status() const {
  coordinator::ClusterStatus status;
  status.state = behaviour().state;
  status.kafka_cluster_id = KafkaClusterId("kafka-" + name_.get());
  status.check_markers = !behaviour().missing_markers.empty();
  status.lanes_max = 4;
  status.lanes_idle = behaviour().lanes_idle;
  status.lanes_busy = behaviour().lanes_busy;
  status.transaction_version = behaviour().transaction_version;
  return status;
}

std::unique_ptr<coordinator::Participant> FakeCluster::NewParticipant() {
  return std::make_unique<FakeParticipant>(*this);
}

void FakeCluster::Describe(const txn::ParticipantName& name,
                           Callback<Result<txn::TxnDescription>> done) {
  const Behaviour now = behaviour();
  Result<txn::TxnDescription> answer = MakeError(Code::kUnavailable, "no broker answers");
  if (now.commits) {
    txn::TxnDescription description;
    description.exists = true;
    description.state = now.ongoing      ? txn::KafkaTxnState::kOngoing
                        : now.aborted_it ? txn::KafkaTxnState::kCompleteAbort
                                         : txn::KafkaTxnState::kCompleteCommit;
    description.producer_id = name.producer_id;
    description.producer_epoch = name.producer_epoch;
    description.start_time_ms = name.start_time_ms;
    const std::lock_guard lock(mutex_);
    if (const auto own = producers_.find(name.transactional_id); own != producers_.end()) {
      const Producer& producer = own->second;
      description = {.exists = true,
                     .state = producer.state,
                     .producer_id = producer.id,
                     .producer_epoch = producer.epoch,
                     .start_time_ms = producer.start_time_ms,
                     .timeout_ms = 60'000,
                     .partitions = producer.partitions};
    } else if (IsApp(name.transactional_id)) {
      description = {};
    }
    answer = description;
  }
  executor_.Post([done = std::move(done), answer] { done(answer); });
}

void FakeCluster::EndTxn(const txn::ParticipantName& name, txn::Direction direction,
                         Callback<txn::EndTxnAnswer> done) {
  Behaviour now = behaviour();
  {
    const std::lock_guard lock(mutex_);
    if (const auto own = producers_.find(name.transactional_id); own != producers_.end()) {
      txn::EndTxnAnswer answer{.problem = "no broker answers"};
      if (now.ends != Ends::kLost) answer = End(own->second, name, direction);
      if (now.ends == Ends::kUnanswered) answer = {.problem = "the answer was lost"};
      return executor_.Post([done = std::move(done), answer] { done(answer); });
    }
  }
  if (now.ongoing && direction == txn::Direction::kAbort) {
    now.ongoing = false;
    now.aborted_it = true;
    Set(now);
  }
  executor_.Post([done = std::move(done), name] {
    done({txn::EndTxnAnswer::Kind::kDone, name.producer_id, name.producer_epoch, {}});
  });
}

// ---- Clients' own producers ---------------------------------------------------------------------

void FakeCluster::Initialise(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Producer& producer = producers_[TransactionalId(id)];
  if (producer.state == txn::KafkaTxnState::kOngoing) {
    producer.state = txn::KafkaTxnState::kCompleteAbort;
    producer.partitions.clear();
  }
  producer.epoch = ProducerEpoch(static_cast<std::int16_t>(producer.epoch.get() + 1));
}

void FakeCluster::Write(const std::string& id, const std::vector<txn::TopicPartition>& partitions) {
  const std::lock_guard lock(mutex_);
  Producer& producer = producers_.at(TransactionalId(id));
  if (std::exchange(producer.state, txn::KafkaTxnState::kOngoing) != txn::KafkaTxnState::kOngoing) {
    producer.start_time_ms = ++next_start_ms_;
  }
  producer.partitions.insert(producer.partitions.end(), partitions.begin(), partitions.end());
}

FakeCluster::Producer FakeCluster::producer(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return producers_.at(TransactionalId(id));
}

/// The part of the broker's table (docs/design/protocol.md) that is needed here.
txn::EndTxnAnswer FakeCluster::End(Producer& producer, const txn::ParticipantName& name,
                                   txn::Direction direction) {
  using Kind = txn::EndTxnAnswer::Kind;
  const bool tv2 = name.protocol == txn::EndTxnProtocol::kTv2;
  const auto ended = direction == txn::Direction::kCommit ? txn::KafkaTxnState::kCompleteCommit
                                                          : txn::KafkaTxnState::kCompleteAbort;
  const bool ongoing = producer.state == txn::KafkaTxnState::kOngoing;
  const int ahead = producer.epoch.get() - name.producer_epoch.get();
  if (producer.id != name.producer_id || ahead != (tv2 && !ongoing ? 1 : 0)) {
    return {.kind = Kind::kFenced, .problem = "fenced"};
  }
  if (!ongoing && producer.state != ended) {
    return {.kind = Kind::kInvalidState, .problem = "invalid state"};
  }
  if (ongoing && tv2) {
    producer.epoch = ProducerEpoch(static_cast<std::int16_t>(producer.epoch.get() + 1));
  }
  producer.state = ended;
  producer.partitions.clear();
  return {.kind = Kind::kDone, .producer_id = producer.id, .producer_epoch = producer.epoch};
}

void FakeCluster::LogEnds(std::vector<txn::TopicPartition> partitions,
                          Callback<Result<std::vector<txn::Evidence>>> done) {
  std::vector<txn::Evidence> ends;
  for (txn::TopicPartition& partition : partitions) ends.push_back({std::move(partition), 100});
  executor_.Post([done = std::move(done), ends] { done(ends); });
}

void FakeCluster::KnowsGroup(std::string group_id, Callback<Result<bool>> done) {
  const Behaviour now = behaviour();
  if (!now.knows_groups) return;
  const bool knows = std::find(now.groups.begin(), now.groups.end(), group_id) != now.groups.end();
  executor_.Post([done = std::move(done), knows] { done(knows); });
}

void FakeCluster::ListOrphans(Callback<Result<coordinator::OrphanListing>> done) {
  Result<coordinator::OrphanListing> answer = MakeError(Code::kUnavailable, "no broker answers");
  if (behaviour().commits) answer = coordinator::OrphanListing{behaviour().orphans, {}};
  executor_.Post([done = std::move(done), answer] { done(answer); });
}

void FakeCluster::EndOrphan(coordinator::Orphan orphan, txn::Direction direction,
                            Callback<Result<txn::TxnDescription>> done) {
  Result<txn::TxnDescription> answer = MakeError(Code::kFailedPrecondition, "not the one named");
  Behaviour now = behaviour();
  const auto gone = std::erase_if(now.orphans, [&](const coordinator::Orphan& candidate) {
    return candidate.transactional_id == orphan.transactional_id &&
           candidate.description.producer_epoch == orphan.description.producer_epoch &&
           candidate.description.start_time_ms == orphan.description.start_time_ms;
  });
  if (gone > 0) {
    orphan.description.state = direction == txn::Direction::kCommit
                                   ? txn::KafkaTxnState::kCompleteCommit
                                   : txn::KafkaTxnState::kCompleteAbort;
    answer = orphan.description;
    Set(now);
  }
  executor_.Post([done = std::move(done), answer] { done(answer); });
}

void FakeCluster::ReadMarkers(const txn::PreparedParticipant&,
                              Callback<Result<std::vector<txn::MarkerFound>>> done) {
  executor_.Post([done = std::move(done)] { done(std::vector{txn::MarkerFound::kNone}); });
}

void FakeCluster::CheckMarkers(const txn::PreparedParticipant&,
                               Callback<Result<std::vector<txn::TopicPartition>>> done) {
  executor_.Post(
      [done = std::move(done), missing = behaviour().missing_markers] { done(missing); });
}

void FakeCluster::RepairMarkers(const txn::PreparedParticipant&, std::vector<txn::TopicPartition>,
                                Callback<Status> done) {
  repaired_ = true;
  executor_.Post([this, done = std::move(done)] {
    Set({});
    done({});
  });
}

}  // namespace lockstep::server
