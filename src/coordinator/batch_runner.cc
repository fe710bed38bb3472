#include "coordinator/batch_runner.h"

#include <numeric>
#include <utility>

#include "base/failpoint.h"
#include "base/planted.h"

namespace lockstep::coordinator {
namespace {

std::vector<txn::NewParticipant> ParticipantsOf(const std::vector<BatchRunner::Branch>& branches) {
  std::vector<txn::NewParticipant> participants;
  for (const BatchRunner::Branch& branch : branches) {
    participants.push_back({branch.cluster->name(), branch.enlisted != nullptr});
  }
  return participants;
}

}  // namespace

BatchRunner::BatchRunner(Ports ports, BatchId id, std::vector<GlobalTxnId> members,
                         std::vector<txn::MemberKey> keys, std::vector<Branch> branches)
    : ports_(ports),
      batch_(txn::NewBatch(id, ParticipantsOf(branches))),
      members_(std::move(members)),
      keys_(std::move(keys)),
      times_(ports.stats, ports.clock) {
  for (Branch& branch : branches) Take(std::move(branch));
}

void BatchRunner::Take(Branch branch) {
  times_.AddParticipant(branch.cluster->name());
  clusters_.push_back(branch.cluster);
  std::vector<std::size_t>& counts = records_.emplace_back();
  for (const auto& work : branch.work.members) counts.push_back(work->records.size());
  work_.push_back(std::move(branch.work));
  if (branch.enlisted) enlisted_.emplace(participants_.size(), branch.enlisted->name());
  participants_.push_back(std::move(branch.enlisted));
  if (participants_.back() == nullptr) participants_.back() = branch.cluster->NewParticipant();
}

std::size_t BatchRunner::Add(Branch branch) {
  txn::AddParticipant(batch_, {branch.cluster->name(), branch.enlisted != nullptr});
  Take(std::move(branch));
  return participants_.size() - 1;
}

BatchRunner::BatchRunner(Ports ports, const txn::Decision& decision, std::vector<Branch> branches)
    : ports_(ports),
      batch_(txn::RecoveredBatch(decision)),
      members_(decision.members),
      recovered_(true),
      times_(ports.stats, ports.clock),
      decided_at_(decision.decided_at) {
  for (Branch& branch : branches) {
    times_.AddParticipant(branch.cluster->name());
    clusters_.push_back(branch.cluster);
    participants_.push_back(std::move(branch.enlisted));
  }
  for (std::size_t i = 0; i < decision.participants.size(); ++i) {
    if (const auto& order = decision.participants[i].order) orders_[i] = *order;
  }
}

template <typename... Args>
Callback<Args...> BatchRunner::OnExecutor(
    std::type_identity_t<std::function<void(BatchRunner&, Args...)>> then) {
  return
      [weak = weak_from_this(), &executor = ports_.executor, then = std::move(then)](Args... args) {
        executor.Post([weak, then, ... args = std::move(args)]() mutable {
          if (const auto self = weak.lock()) then(*self, std::move(args)...);
        });
      };
}

void BatchRunner::Begin(MonoTime give_up) {
  PassFailpoint(Failpoint::kBeforePrepare);
  give_up_ = give_up;
  ports_.stats.batch_txns.Add(static_cast<double>(members_.size()));
  times_.Begun();
  if (batch_.participants.empty()) Run(txn::StoreDecision{});
}

bool BatchRunner::preparing(std::size_t participant) const {
  return batch_.phase == txn::BatchPhase::kPreparing &&
         batch_.participants[participant].phase == txn::ParticipantPhase::kPreparing;
}

void BatchRunner::Prepare(std::size_t i) {
  if (!preparing(i)) return;
  times_.Asked(i);
  participants_[i]->Prepare(std::move(work_[i]), give_up_, OnVote(i));
}

Callback<txn::Vote> BatchRunner::OnVote(std::size_t i) {
  return OnExecutor<txn::Vote>([i](BatchRunner& self, txn::Vote vote) {
    self.times_.Voted(i);
    self.Feed(
        txn::VoteArrived{i, std::move(vote), self.ports_.clock.Now(), self.ports_.deadline_margin});
  });
}

void BatchRunner::Stream(std::size_t i, MonoTime give_up) {
  txn::BatchWork work{.members = {std::make_shared<const txn::BranchWork>()}, .streamed = true};
  participants_[i]->Prepare(std::move(work), give_up, OnVote(i));
}

void BatchRunner::Write(std::size_t i, txn::BranchWork piece, Callback<> written) {
  participants_[i]->Write(
      std::move(piece), OnExecutor<>([written = std::move(written)](BatchRunner&) { written(); }));
}

void BatchRunner::Finish(std::size_t i, bool want_positions) {
  times_.Asked(i);  // The client took its time before.
  participants_[i]->Finish(give_up_, want_positions);
}

void BatchRunner::Resume() {
  // The decision is durable already: this is the event that its first life may not have seen.
  Feed(txn::DecisionStored{});
}

void BatchRunner::Abort(txn::Refusal why, std::vector<txn::Culprit> culprits) {
  Feed(txn::AbortWanted{std::move(why), std::move(culprits)});
}

const Resolver* BatchRunner::resolver(std::size_t participant) const {
  const auto found = resolvers_.find(participant);
  return found == resolvers_.end() ? nullptr : found->second.get();
}

void BatchRunner::RepairMarkers(std::size_t participant, Callback<Status> done) {
  const auto found = resolvers_.find(participant);
  if (found == resolvers_.end() || found->second->resolution().hanging.empty()) {
    return done(MakeError(Code::kFailedPrecondition,
                          "no marker is known to be missing on cluster '" +
                              clusters_[participant]->name().get() + "': nothing to repair"));
  }
  const txn::Resolution& resolution = found->second->resolution();
  clusters_[participant]->RepairMarkers(
      resolution.participant, resolution.hanging,
      OnExecutor<Status>([participant, done](BatchRunner& self, Status status) {
        const auto resolver = self.resolvers_.find(participant);
        if (resolver != self.resolvers_.end()) resolver->second->Hurry();
        done(std::move(status));
      }));
}

const txn::ParticipantName* BatchRunner::enlisted(std::size_t participant) const {
  const auto found = enlisted_.find(participant);
  return found == enlisted_.end() ? nullptr : &found->second;
}

txn::Positions BatchRunner::positions(std::size_t participant, std::size_t member) const {
  const txn::Positions& all = batch_.participants[participant].positions;
  if (all == nullptr || members_.size() == 1) return all;
  const std::vector<std::size_t>& counts = records_[participant];
  const auto of_member = counts.begin() + static_cast<std::ptrdiff_t>(member);
  const auto first = all->begin() + std::accumulate(counts.begin(), of_member, std::ptrdiff_t{0});
  return std::make_shared<const std::vector<txn::RecordPosition>>(
      first, first + static_cast<std::ptrdiff_t>(*of_member));
}

const txn::OperatorOrder* BatchRunner::order(std::size_t participant) const {
  const auto found = orders_.find(participant);
  return found == orders_.end() ? nullptr : &found->second;
}

void BatchRunner::Obey(std::size_t participant, txn::OperatorOrder order, Callback<> done) {
  ports_.log.StoreOrder(
      StoredOrder{batch_.id, txn::IndexInDecision(batch_, participant), order},
      OnExecutor<Status>([participant, order, done](BatchRunner& self, const Status& status) {
        // What was proved meanwhile is on its way into the log, which takes no order about it then.
        const bool settled = !status.ok() && status.error().code == Code::kInternal &&
                             status.error().effect == Effect::kNone;
        if (settled) return done();
        if (!status.ok()) return self.ports_.listener.OnLogFailed(status.error()), done();
        self.orders_[participant] = order;
        self.resolvers_.at(participant)->Obey(order);
        done();
      }));
}

void BatchRunner::Feed(const txn::BatchEvent& event) {
  const auto self = shared_from_this();  // A listener may drop the last other owner.
  const bool was_done = batch_.phase == txn::BatchPhase::kDone;
  for (const txn::BatchEffect& effect : txn::Step(batch_, event)) {
    std::visit([this](const auto& e) { Run(e); }, effect);
  }
  ports_.listener.OnChanged(*this);
  if (!was_done && batch_.phase == txn::BatchPhase::kDone) ports_.listener.OnDone(*this);
}

void BatchRunner::Run(const txn::StoreDecision&) {
  PassFailpoint(Failpoint::kVotesIn);
  times_.VotesIn();
  decided_at_ = ports_.clock.WallNow();
  txn::Decision decision = txn::DecisionOf(batch_, members_, decided_at_);
  if (!Planted(PlantedBug::kKeyForgotten)) decision.keys = keys_;
  auto stored = OnExecutor<Status>([](BatchRunner& self, Status status) {
    if (!status.ok()) return self.ports_.listener.OnLogFailed(status.error());
    PassFailpoint(Failpoint::kDecisionDurable);
    self.times_.DecisionDurable();
    self.Feed(txn::DecisionStored{});
  });
  if (Planted(PlantedBug::kAnswerBeforeWrite)) std::exchange(stored, [](const Status&) {})({});
  ports_.log.StoreDecision(std::move(decision), std::move(stored));
}

void BatchRunner::Run(const txn::EndParticipant& effect) {
  const std::size_t i = effect.participant;
  if (effect.direction == txn::Direction::kAbort) {
    PassFailpoint(Failpoint::kAbortChosen, clusters_[i]->name().get());
    participants_[i]->Abort(OnExecutor<bool>([i](BatchRunner& self, bool reinit_required) {
      self.Feed(txn::ParticipantEnded{.participant = i,
                                      .outcome = txn::ParticipantOutcome::kAborted,
                                      .reinit_required = reinit_required});
    }));
    return;
  }
  if (recovered_) return Resolve(i, Resolver::Known::kNothing);
  times_.EndSent(i);
  participants_[i]->Commit(OnExecutor<Status>([i](BatchRunner& self, Status status) {
    if (status.ok()) self.times_.EndAnswered(i);
    self.Resolve(i, status.ok() ? Resolver::Known::kBrokerCommitted : Resolver::Known::kNothing);
  }));
}

void BatchRunner::Resolve(std::size_t participant, Resolver::Known known) {
  auto resolver = std::make_shared<Resolver>(
      ports_.executor, *clusters_[participant], *batch_.participants[participant].prepared,
      [weak = weak_from_this(), participant, known](txn::ParticipantOutcome outcome) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        PassFailpoint(Failpoint::kParticipantEnded, self->clusters_[participant]->name().get());
        if (outcome == txn::ParticipantOutcome::kCommitted) self->times_.Committed(participant);
        const bool declared = self->resolvers_.at(participant)->resolution().declared;
        // An EndTxn of ours was not answered, or a dead process may have sent one.
        const bool uncertain =
            self->batch_.participants[participant].enlisted && known == Resolver::Known::kNothing;
        self->Feed(txn::ParticipantEnded{participant, outcome, declared, uncertain});
      });
  resolvers_[participant] = resolver;
  const txn::OperatorOrder* given = order(participant);
  resolver->Start(known, given != nullptr ? std::optional(*given) : std::nullopt);
}

void BatchRunner::Run(const txn::StoreCompletion& effect) {
  const std::size_t i = effect.participant;
  ports_.log.StoreCompletion(
      Completion{batch_.id, txn::IndexInDecision(batch_, i), effect.outcome}, effect.urgent,
      OnExecutor<Status>([i](BatchRunner& self, Status status) {
        if (!status.ok()) return self.ports_.listener.OnLogFailed(status.error());
        PassFailpoint(Failpoint::kCompletionDurable, self.clusters_[i]->name().get());
        self.Feed(txn::CompletionStored{i});
      }));
}

void BatchRunner::Run(const txn::ReleaseParticipant& effect) {
  const std::size_t i = effect.participant;
  if (participants_[i] != nullptr) return participants_[i]->Release();
  // The id is an earlier incarnation's: nobody will use it again, so shut the door behind it.
  clusters_[i]->FencePending(batch_.participants[i].prepared->name.transactional_id);
}

void BatchRunner::Run(const txn::AnnounceDecided&) {
  decided_ = true;
  ports_.listener.OnDecided(*this);
}

void BatchRunner::Run(const txn::AnnounceOutcome& effect) {
  times_.Complete(effect.outcome == txn::GlobalTxnState::kCommitted);
  ports_.listener.OnOutcome(*this, effect.outcome);
}

}  // namespace lockstep::coordinator
