#include "coordinator/coordinator.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/failpoint.h"
#include "base/planted.h"
#include "coordinator/group_homes.h"
#include "coordinator/txn_id.h"
#include "coordinator/views.h"

namespace lockstep::coordinator {

using txn::AbortReason;
using txn::GlobalTxnState;
using txn::Refusal;

namespace {

// It keeps a client that is at fault waiting, and nobody else.
constexpr Duration kLocateTime = std::chrono::seconds(1);

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, Executor& executor, const Clock& clock,
                         DecisionLog& log, std::vector<Cluster*> clusters, Callback<Error> on_fatal)
    : executor_(executor),
      clock_(clock),
      log_(log),
      on_fatal_(std::move(on_fatal)),
      options_(options),
      enlistments_(RegistrationPrefix(log.recovered()), options.limits.registrations),
      next_batch_(log.recovered().next_batch.get()),
      started_(clock.Now()),
      recovering_(log.recovered().incomplete.size()) {
  if (recovering_ == 0) recovered_ = started_;
  for (Cluster* cluster : clusters) clusters_[cluster->name()] = cluster;
}

Coordinator::~Coordinator() = default;

Cluster* Coordinator::FindCluster(const ClusterName& name) const {
  const auto found = clusters_.find(name);
  return found == clusters_.end() ? nullptr : found->second;
}

BatchRunner::Ports Coordinator::RunnerPorts() {
  return {executor_, clock_, log_, *this, stats_, options_.deadline_margin};
}

void Coordinator::Post(std::function<void()> task, std::function<void(const Error&)> refuse) {
  executor_.Post([this, task = std::move(task), refuse = std::move(refuse)] {
    if (failed_) return refuse(*failed_);
    task();
  });
}

// ---- Start and stop ----------------------------------------------------------------------------

Status Coordinator::Start() {
  const RecoveredLog& recovered = log_.recovered();
  PassFailpoint(Failpoint::kRecoveryOpened);
  if (Status status = CheckClustersConfigured(recovered.incomplete, clusters_); !status.ok()) {
    return status;
  }
  std::map<ClusterName, std::vector<TransactionalId>> pending;
  for (const txn::Decision& decision : recovered.incomplete) {
    for (const txn::DecidedParticipant& participant : decision.participants) {
      if (participant.outcome != txn::ParticipantOutcome::kPending) continue;
      const txn::ParticipantName& name = participant.prepared.name;
      pending[name.cluster].push_back(name.transactional_id);
    }
  }
  executor_.Post([this, &recovered] {
    for (const txn::Decision& decision : recovered.heuristic) {
      heuristic_.emplace(decision.batch, InDoubtOf(decision));
    }
    for (const txn::Decision& decision : recovered.incomplete) TakeUp(decision);
    for (const txn::Enlistment& enlistment : recovered.enlisted) AbortEnlisted(enlistment);
  });
  for (const auto& [name, cluster] : clusters_) StartCluster(cluster, std::move(pending[name]));
  return {};
}

void Coordinator::StartCluster(Cluster* cluster, std::vector<TransactionalId> pending) {
  cluster->Start(std::move(pending), [this](std::string why) {
    executor_.Post([this, why = std::move(why)] { OnSuperseded(why); });
  });
}

void Coordinator::AddCluster(Cluster* cluster) {
  executor_.Post([this, cluster] {
    if (failed_) return;
    clusters_[cluster->name()] = cluster;
    // Nothing can be pending there: every pending decision's cluster was there at the start.
    StartCluster(cluster, {});
  });
}

void Coordinator::Reconfigure(CoordinatorOptions options) {
  executor_.Post([this, options] { options_ = options; });
}

void Coordinator::TakeUp(const txn::Decision& decision) {
  std::vector<BatchRunner::Branch> branches;
  for (const txn::DecidedParticipant& participant : decision.participants) {
    const txn::ParticipantName& name = participant.prepared.name;
    BatchRunner::Branch& branch = branches.emplace_back();
    branch.cluster = FindCluster(name.cluster);
    // What is complete is settled: its id may be another's by now.
    if (participant.prepared.enlisted && participant.outcome == txn::ParticipantOutcome::kPending) {
      branch.enlisted = std::make_unique<EnlistedParticipant>(EnlistedPorts(*branch.cluster), name,
                                                              std::string());
    }
  }
  auto runner = std::make_shared<BatchRunner>(RunnerPorts(), decision, std::move(branches));
  runners_[decision.batch] = runner;
  for (std::size_t i = 0; i < decision.members.size(); ++i) {
    const GlobalTxnId& member = decision.members[i];
    OpenTxn& txn = open_[member];
    txn.member = i;
    if (auto parts = ParseTxnId(member)) CountIn(txn, std::move(parts->owner));
    txn.view = ViewOfDecision(member, decision);
    txn.view.state = GlobalTxnState::kCommitting;
    txn.runner = runner;
  }
  for (const txn::MemberKey& member : decision.keys) {
    const GlobalTxnId& id = decision.members[member.member];
    open_[id].key = member.key;
    running_keys_[member.key.key] = id;
  }
  runner->Resume();
}

void Coordinator::Drain(Callback<> done) {
  executor_.Post([this, done = std::move(done)] {
    draining_ = true;
    drained_ = done;
    std::vector<GlobalTxnId> ids;
    for (const auto& [id, txn] : open_) ids.push_back(id);
    for (const GlobalTxnId& id : ids) {
      if (const auto found = open_.find(id); found != open_.end()) {
        AbortOpen(found->second, ShuttingDown());
      }
    }
    CheckDrained();
  });
}

void Coordinator::CheckDrained() {
  if (!drained_ || !open_.empty() || !runners_.empty()) return;
  std::exchange(drained_, nullptr)();
}

// ---- Clients' calls -----------------------------------------------------------------------------

void Coordinator::Begin(Duration timeout, std::string label, Callback<Result<TxnView>> done,
                        std::string client, Owner owner) {
  Post(
      [this, timeout, label = std::move(label), client = std::move(client),
       owner = std::move(owner), done]() mutable {
        const Result<OpenTxn*> txn = Open(timeout, std::move(label), std::move(client), owner);
        if (!txn.ok()) return done(txn.error());
        done(ViewOf(**txn));
      },
      done);
}

Status Coordinator::CheckAdmission() const {
  if (draining_) {
    return MakeError(Code::kFailedPrecondition,
                     "draining: no new transactions; use another instance, or wait");
  }
  if (!admitting_) {
    return MakeError(Code::kFailedPrecondition,
                     "drained by an operator: no new transactions; use another instance, or wait");
  }
  return {};
}

Result<Coordinator::OpenTxn*> Coordinator::Open(Duration timeout, std::string label,
                                                std::string client, const Owner& owner) {
  if (Status admitted = CheckAdmission(); !admitted.ok()) return admitted.error();
  if (timeout <= Duration::zero() || timeout > options_.limits.max_txn_timeout) {
    return BadTimeout(timeout, options_.limits.max_txn_timeout);
  }
  if (open_.size() >= options_.limits.open_txns) {
    return MakeError(Code::kResourceExhausted,
                     "too many open transactions (limits.open_transactions is " +
                         std::to_string(options_.limits.open_txns) + ")");
  }
  const auto of_owner = open_of_owner_.find(owner.name);
  if (of_owner != open_of_owner_.end() && of_owner->second >= owner.open_txns) {
    return MakeError(Code::kResourceExhausted, "too many open transactions of '" + owner.name +
                                                   "' (the policy allows " +
                                                   std::to_string(owner.open_txns) + ")");
  }
  // Never earlier than an id given before, so that the horizon's promise holds if the wall clock
  // steps back.
  last_birth_ms_ = std::max(last_birth_ms_, clock_.WallNow().ms);
  const RecoveredLog& log = log_.recovered();
  const GlobalTxnId id =
      FormatTxnId({log.log_id, log.incarnation, WallTime{last_birth_ms_}, next_txn_++, owner.name});
  ++stats_.begun;
  OpenTxn& txn = open_[id];
  txn.view.id = id;
  txn.view.label = std::move(label);
  txn.client = std::move(client);
  CountIn(txn, owner.name);
  txn.view.began_at = WallTime{last_birth_ms_};
  txn.view.expires_at = WallTime{
      last_birth_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()};
  txn.expires = clock_.Now() + timeout;
  txn.expiry = executor_.PostAfter(timeout, [this, id] { Expire(id); });
  return &txn;
}

void Coordinator::CountIn(OpenTxn& txn, std::string owner) {
  txn.owner = std::move(owner);
  ++open_of_owner_[txn.owner];
}

void Coordinator::CountOut(const OpenTxn& txn) {
  const auto count = open_of_owner_.find(txn.owner);
  if (--count->second == 0) open_of_owner_.erase(count);
}

void Coordinator::Expire(const GlobalTxnId& id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.expiry.reset();
  AbortOpen(found->second,
            {AbortReason::kTxnTimeout, {}, "its timeout passed before COMMIT was decided", true});
}

void Coordinator::Commit(GlobalTxnId id, CommitOptions options, Callback<Result<TxnView>> done) {
  Post(
      [this, id = std::move(id), options, done] {
        const auto found = open_.find(id);
        if (found == open_.end()) return done(ClosedView(id));
        OpenTxn& txn = found->second;
        const bool decided = txn.view.state == GlobalTxnState::kCommitting;
        if (Status told = CheckEnlistedWork(txn, options); !told.ok()) return done(told.error());
        if (decided && options.wait == WaitFor::kDecided) return done(ViewOf(txn));
        txn.waiters.push_back({options.wait, options.max_wait, done, std::nullopt});
        if (decided) return BoundWait(id, std::prev(txn.waiters.end()));
        if (txn.view.state == GlobalTxnState::kActive) {
          txn.want_positions = options.want_positions;
          for (auto& [cluster, participant] : txn.enlisted) {
            participant->SetWork(options.enlisted.at(participant->registration()));
          }
          StartCommit(txn);
        }
      },
      done);
}

void Coordinator::Abort(GlobalTxnId id, Callback<Result<TxnView>> done) {
  Post(
      [this, id = std::move(id), done] {
        const auto found = open_.find(id);
        if (found == open_.end()) return done(ClosedView(id));
        OpenTxn& txn = found->second;
        if (txn.view.state == GlobalTxnState::kCommitting) return done(ViewOf(txn));
        // If the decision's write is in flight the answer is the decision; else ABORTED at once.
        txn.waiters.push_back({WaitFor::kDecided, std::nullopt, done, std::nullopt});
        AbortOpen(txn, {AbortReason::kClientAbort, {}, "the client aborted it", false});
      },
      done);
}

void Coordinator::Get(GlobalTxnId id, Callback<Result<TxnView>> done) {
  Post(
      [this, id = std::move(id), done] {
        const auto found = open_.find(id);
        done(found != open_.end() ? Result<TxnView>(ViewOf(found->second)) : ClosedView(id));
      },
      done);
}

// ---- The life of one transaction ----------------------------------------------------------------

void Coordinator::AbortOpen(OpenTxn& txn, Refusal why) {
  switch (txn.view.state) {
    case GlobalTxnState::kActive:
      if (!txn.streams.empty()) break;
      // No broker has heard of it.
      if (txn.enlisted.empty()) {
        return Finish(GlobalTxnId(txn.view.id), GlobalTxnState::kAborted, why);
      }
      txn.view.state = GlobalTxnState::kPreparing;  // As if a vote were NO.
      return StartRunner({txn.view.id}, false)->Abort(std::move(why));
    case GlobalTxnState::kPreparing:
      if (txn.waits_for_batch()) {
        return Finish(GlobalTxnId(txn.view.id), GlobalTxnState::kAborted, why);
      }
      break;
    default:
      return;  // Decided, or aborting.
  }
  std::shared_ptr(txn.runner)->Abort(why, {{txn.member, why}});
}

void Coordinator::OnDecided(BatchRunner& runner) {
  for (const GlobalTxnId& id : runner.members()) {
    const auto found = open_.find(id);
    if (found == open_.end()) continue;
    OpenTxn& txn = found->second;
    txn.view.state = GlobalTxnState::kCommitting;
    txn.view.decided_at = runner.decided_at();
    GiveBack(txn);
    txn.work.clear();
    if (txn.expiry) executor_.Cancel(*std::exchange(txn.expiry, std::nullopt));
    for (auto waiter = txn.waiters.begin(); waiter != txn.waiters.end();) {
      const auto next = std::next(waiter);
      if (waiter->wait == WaitFor::kDecided) {
        waiter->done(ViewOf(txn));
        txn.waiters.erase(waiter);
      } else {
        BoundWait(id, waiter);
      }
      waiter = next;
    }
  }
}

void Coordinator::OnChanged(BatchRunner& runner) {
  for (const GlobalTxnId& id : runner.members()) {
    const auto found = open_.find(id);
    // Another one's by now, if this one was spoiled.
    if (found == open_.end() || found->second.runner.get() != &runner) continue;
    if (runner.batch().phase == txn::BatchPhase::kAborting) {
      found->second.view.state = GlobalTxnState::kAborting;
      found->second.view.refusal = runner.batch().refusal;
    }
    Touch(found->second);
  }
  LeaveTurns(runner);
}

void Coordinator::BoundWait(const GlobalTxnId& id, std::list<Waiter>::iterator waiter) {
  if (!waiter->max_wait) return;
  waiter->timer = executor_.PostAfter(*waiter->max_wait, [this, id, waiter] {
    // Cancelled together with the waiter: it is still there.
    OpenTxn& txn = open_.at(id);
    waiter->done(ViewOf(txn));
    txn.waiters.erase(waiter);
  });
}

void Coordinator::OnOutcome(BatchRunner& runner, GlobalTxnState outcome) {
  if (outcome == GlobalTxnState::kHeuristic) {
    heuristic_.emplace(runner.batch().id, InDoubtOf(runner, outcome));
  }
  if (outcome == GlobalTxnState::kAborted) return OnAborted(runner);
  for (const GlobalTxnId& id : runner.members()) Finish(id, outcome, runner.batch().refusal);
}

void Coordinator::FinishAborted(const GlobalTxnId& id, Refusal why) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const auto work = found->second.work.find(why.cluster);
  if (why.reason != AbortReason::kGroupFenced || work == found->second.work.end()) {
    return Finish(id, GlobalTxnState::kAborted, why);
  }
  LocateGroups(executor_, clusters_, why.cluster, GroupsOf(*work->second), kLocateTime,
               [this, id, why](const std::string& where) mutable {
                 if (!where.empty()) why.message += "; " + where;
                 Finish(id, GlobalTxnState::kAborted, why);
               });
}

void Coordinator::Finish(const GlobalTxnId& id, GlobalTxnState state, const Refusal& why) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  PassFailpoint(Failpoint::kBeforeAnswer);
  auto node = open_.extract(found);
  OpenTxn& txn = node.mapped();
  if (txn.expiry) executor_.Cancel(*txn.expiry);
  EndStreams(txn, NotActive(state));
  GiveBack(txn);
  CountOut(txn);
  if (txn.key) running_keys_.erase(txn.key->key);
  CountEnd(txn, state, why.reason);
  txn.view.branches = ViewOf(txn).branches;
  if (state == GlobalTxnState::kAborted) {
    // Presumed abort: true of every branch already, whether its broker has heard of it or not.
    for (BranchView& branch : txn.view.branches) branch.outcome = txn::ParticipantOutcome::kAborted;
  }
  txn.view.state = state;
  txn.view.refusal = why;
  txn.view.ended_at = clock_.WallNow();
  ++txn.view.revision;
  recent_.Add(txn.view, options_.limits);
  TellWatchers(txn.view, true);
  for (Waiter& waiter : txn.waiters) {
    if (waiter.timer) executor_.Cancel(*waiter.timer);
    waiter.done(txn.view);
  }
  CheckDrained();
}

void Coordinator::OnDone(BatchRunner& runner) {
  if (runner.recovered() && --recovering_ == 0) recovered_ = clock_.Now();
  runners_.erase(runner.batch().id);
  CheckDrained();
}

void Coordinator::OnLogFailed(const Error& error) {
  if (failed_) return;
  RefuseAll(MakeError(Code::kUnavailable,
                      "the decision log failed (" + error.message +
                          "): the outcome is unknown until lockstepd has restarted; ask again",
                      Effect::kUnknown));
  on_fatal_(*failed_);
}

void Coordinator::OnSuperseded(const std::string& why) {
  if (failed_) return;
  RefuseAll(MakeError(Code::kUnavailable, why, Effect::kUnknown));
  // Durable before the process ends: a supervisor that starts it again must not get further.
  log_.StoreSuperseded(why,
                       [this](const Status&) { executor_.Post([this] { on_fatal_(*failed_); }); });
}

void Coordinator::RefuseAll(Error error) {
  failed_ = std::move(error);
  for (auto& [id, txn] : open_) {
    for (Waiter& waiter : txn.waiters) {
      if (waiter.timer) executor_.Cancel(*waiter.timer);
      waiter.done(*failed_);
    }
    txn.waiters.clear();
    EndStreams(txn, *failed_);
  }
  watches_of_.clear();
  for (auto& [watch, watcher] : std::exchange(watchers_, {})) watcher.done(*failed_);
}

// ---- Views --------------------------------------------------------------------------------------

TxnView Coordinator::ViewOf(const OpenTxn& txn) const {
  TxnView view = txn.view;
  if (txn.runner != nullptr) {
    view.branches =
        BranchesOf(*txn.runner, txn.want_positions ? std::optional(txn.member) : std::nullopt);
    if (txn.streams.empty()) return view;
  }
  for (const auto& [cluster, work] : txn.work) {
    if (txn.streams_to(cluster)) continue;  // It has a branch.
    view.branches.push_back({.cluster = cluster});
  }
  for (const auto& [cluster, participant] : txn.enlisted) {
    view.branches.push_back(
        {.cluster = cluster, .participant = participant->name(), .enlisted = true});
  }
  return view;
}

Result<TxnView> Coordinator::ClosedView(const GlobalTxnId& id) const {
  const auto parts = ParseTxnId(id);
  if (!parts) return MalformedId(id);
  if (auto recent = recent_.Find(id)) return *std::move(recent);
  const RecoveredLog& log = log_.recovered();
  const bool of_origin = std::ranges::find(log.origins, parts->log_id) != log.origins.end();
  if (parts->log_id != log.log_id && !of_origin) {
    return MakeError(Code::kNotFound, "transaction '" + id.get() +
                                          "' belongs to another decision log than this "
                                          "instance's '" +
                                          log.log_id.get() + "'");
  }
  Result<std::optional<txn::Decision>> stored = log_.Find(id);
  if (!stored.ok()) return stored.error();
  if (stored->has_value()) return ViewOfDecision(id, **stored);
  // It may have been decided after the backup was taken: nothing may be presumed (M22).
  if (of_origin) {
    return MakeError(Code::kNotFound, "transaction '" + id.get() + "' is of decision log '" +
                                          parts->log_id.get() +
                                          "', from a backup of which this one was restored; the "
                                          "backup does not tell its outcome: it may be either");
  }
  const bool issued = parts->incarnation < log.incarnation ||
                      (parts->incarnation == log.incarnation && parts->number < next_txn_);
  if (!issued) {
    return MakeError(Code::kNotFound, "transaction '" + id.get() +
                                          "' was never begun on this log; is the data folder an "
                                          "older copy?");
  }
  if (parts->birth <= log_.Horizon() && !Planted(PlantedBug::kExpiredIsAborted)) {
    return MakeError(Code::kNotFound, "the outcome of transaction '" + id.get() +
                                          "' is no longer kept (see the retention settings)");
  }
  return PresumedAborted(id, parts->birth);
}

Error Coordinator::NotOpen(const GlobalTxnId& id) const {
  const Result<TxnView> closed = ClosedView(id);
  return closed.ok() ? NotActive(closed->state) : closed.error();
}

}  // namespace lockstep::coordinator
