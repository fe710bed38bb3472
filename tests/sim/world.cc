#include "world.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "sim_app.h"
#include "sim_client.h"

namespace lockstep::sim {
namespace {

using coordinator::TxnView;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kNervousSteps = 50;

coordinator::CoordinatorOptions OptionsOf(const SimOptions& options) {
  coordinator::CoordinatorOptions result;
  result.prepare_timeout = options.prepare_timeout;
  result.deadline_margin = options.deadline_margin;
  result.limits.batch_bytes = options.batch_bytes;
  return result;
}

std::vector<coordinator::Cluster*> Pointers(
    const std::vector<std::unique_ptr<SimCluster>>& clusters) {
  std::vector<coordinator::Cluster*> pointers;
  for (const auto& cluster : clusters) pointers.push_back(cluster.get());
  return pointers;
}

}  // namespace

Process::Process(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
                 const SimClock& clock, Trace& trace, Oracle& oracle,
                 const std::map<ClusterName, std::unique_ptr<SimBroker>>& brokers,
                 std::function<void()> on_fatal)
    : executor(scheduler),
      log(disk, options, scheduler, random, trace, oracle),
      clusters([&] {
        std::vector<std::unique_ptr<SimCluster>> all;
        for (const auto& [name, broker] : brokers) {
          all.push_back(std::make_unique<SimCluster>(
              SimCluster::World{options, scheduler, random, clock, trace, oracle, log, on_fatal},
              *broker));
        }
        return all;
      }()),
      coordinator(OptionsOf(options), executor, clock, log, Pointers(clusters),
                  [on_fatal = std::move(on_fatal)](const Error&) { on_fatal(); }) {}

World::World(const SimOptions& options, Trace::Mode trace)
    : options_(options), random_(options.seed), trace_(scheduler_, trace) {
  disk_ = (options_.rocksdb ? MakeRocksDisk : MakeMemoryDisk)(options_, clock_, random_);
  for (int i = 0; i < options_.clusters; ++i) {
    const ClusterName name(std::string(1, static_cast<char>('a' + i)));
    brokers_[name] =
        std::make_unique<SimBroker>(name, options_, scheduler_, random_, trace_, oracle_);
    oracle_.Watch(*brokers_[name]);
  }
  for (int i = 0; i < options_.clients; ++i) {
    clients_.push_back(std::make_unique<SimClient>(*this, i));
  }
  for (int i = 0; i < options_.apps; ++i) apps_.push_back(std::make_unique<SimApp>(*this, i));
}

World::~World() { scheduler_.SetExecutor(nullptr); }

coordinator::Coordinator* World::coordinator() {
  return process_ == nullptr ? nullptr : &process_->coordinator;
}

/// Up to two hours, also back.
void World::StepWallClock() { clock_.StepWall(random_.Between(-7'200'000, 7'200'000)); }

void World::StartProcess() {
  if (process_ != nullptr) return;
  if (options_.wall_clock_steps) StepWallClock();
  process_ = std::make_unique<Process>(*disk_, options_, scheduler_, random_, clock_, trace_,
                                       oracle_, brokers_, [this] { must_exit_ = true; });
  trace_([&] {
    return "lockstepd: start " + std::to_string(process_->log.recovered().incarnation.get()) +
           ", " + std::to_string(process_->log.recovered().incomplete.size()) + " incomplete";
  });
  ++incarnation_;
  if (calm_) process_->log.CalmDown();
  scheduler_.SetExecutor(&process_->executor);
  const Status status = process_->coordinator.Start();
  if (!status.ok()) throw Violation("recovery refused: " + status.error().message);
  nervous_steps_ = kNervousSteps;
  started_at_ = steps_;
}

void World::Crash() {
  trace_([] { return std::string("lockstepd: kill -9"); });
  ++crashes_;
  if (steps_ - started_at_ <= kNervousSteps && !process_->log.recovered().incomplete.empty()) {
    ++crashes_in_recovery_;
  }
  EndProcess();
  disk_->Crash();
}

/// SIGTERM: drains for a while, then ends; nothing that was written is lost.
void World::Stop() {
  trace_([] { return std::string("lockstepd: drains"); });
  const auto drained = std::make_shared<bool>(false);
  const Life life = process_->life;
  process_->coordinator.Drain([drained] { *drained = true; });
  scheduler_.After(random_.Between(milliseconds(10), seconds(10)), life, [this, drained] {
    trace_([&] { return std::string(*drained ? "lockstepd: ends, drained" : "lockstepd: ends"); });
    EndProcess();
    disk_->Close();
  });
}

void World::EndProcess() {
  must_exit_ = false;
  scheduler_.SetExecutor(nullptr);
  process_ = nullptr;
  scheduler_.After(random_.Between(milliseconds(1), seconds(3)), [this] { StartProcess(); });
}

void World::Step() {
  ++steps_;
  if (!scheduler_.Step()) throw Violation("nothing is left to happen");
  oracle_.Check();
  if (process_ != nullptr && must_exit_) {
    if (!process_->log.failed()) throw Violation("lockstepd gives up, and its disk is well");
    return Crash();
  }
  if (calm_) return;
  for (const auto& [name, broker] : brokers_) broker->MaybeTrouble();
  if (options_.wall_clock_steps && random_.Chance(0.0005)) StepWallClock();
  // What goes wrong around a decision matters most.
  if (std::exchange(decisions_seen_, oracle_.decisions()) != oracle_.decisions()) {
    nervous_steps_ = kNervousSteps;
    if (random_.Chance(options_.outage_at_decision)) {
      std::next(brokers_.begin(), static_cast<std::ptrdiff_t>(random_.Below(brokers_.size())))
          ->second->StartOutage();
    }
  }
  if (process_ == nullptr) return;
  const double likelier = nervous_steps_ > 0 ? 3 : 1;
  nervous_steps_ = std::max(0, nervous_steps_ - 1);
  if (!random_.Chance(options_.crash * likelier)) return;
  if (random_.Chance(0.85)) return Crash();
  Stop();
}

void World::RunUntil(const std::string& what, Duration limit,
                     const std::function<bool()>& condition) {
  const Duration end = scheduler_.now() + limit;
  while (!condition()) {
    if (scheduler_.now() > end) throw Violation(what);
    Step();
  }
}

void World::RunClients() {
  StartProcess();
  Operate();
  for (const auto& client : clients_) client->Start();
  for (const auto& app : apps_) app->Start();
  // Bounded: in some worlds the weather never lets the last client finish.
  constexpr std::uint64_t kMostSteps = 20'000;
  while (steps_ < kMostSteps) {
    if (AllDone()) return;
    Step();
  }
}

bool World::AllDone() const {
  const auto done = [](const auto& it) { return it->done(); };
  return std::ranges::all_of(clients_, done) && std::ranges::all_of(apps_, done);
}

void World::Quiesce() {
  trace_([] { return std::string("---- all is quiet ----"); });
  calm_ = true;
  for (const auto& [name, broker] : brokers_) broker->CalmDown();
  disk_->CalmDown();
  if (process_ != nullptr) process_->log.CalmDown();
  for (const auto& client : clients_) client->Stop();
  for (const auto& app : apps_) app->Stop();
  // Late requests arrive within 20 s, transactions of clients that vanished expire within 30 s.
  const Duration calm_until = scheduler_.now() + minutes(1);
  settled_ = false;
  RunUntil("still in doubt long after all troubles ended", minutes(10),
           [&] { return settled_ && scheduler_.now() > calm_until; });
  RunUntil("an application does not come to its end", minutes(10),
           [&] { return std::ranges::all_of(apps_, [](const auto& app) { return app->done(); }); });
}

/// The operator: looks every second, has missing markers written, orders COMMIT again where it
/// takes long, acknowledges, asks about the past.
void World::Operate() {
  settled_ = false;
  scheduler_.After(seconds(1), [this] { Operate(); });
  if (process_ == nullptr) return;
  process_->coordinator.ListInDoubt([this](const std::vector<coordinator::InDoubtView>& views) {
    settled_ = true;
    for (const coordinator::InDoubtView& view : views) LookAfter(view);
  });
  const std::vector<GlobalTxnId> begun = oracle_.Begun();
  if (begun.empty()) return;
  const GlobalTxnId id = begun[random_.Below(begun.size())];
  process_->coordinator.Get(
      id, [this, id](const Result<TxnView>& view) { oracle_.OnAnswer(id, view); });
}

void World::LookAfter(const coordinator::InDoubtView& view) {
  coordinator::Coordinator& coordinator = process_->coordinator;
  if (view.state == txn::GlobalTxnState::kHeuristic) {
    if (random_.Chance(0.2)) {
      coordinator.AcknowledgeHeuristic(view.members.front(), [](const Status&) {});
    }
    return;
  }
  settled_ = false;
  for (const coordinator::BranchView& branch : view.branches) {
    if (branch.outcome == txn::ParticipantOutcome::kPending && random_.Chance(0.1)) {
      const txn::OperatorOrder order{txn::OrderKind::kCommit, false, "sim", "impatient", {}};
      coordinator.Resolve(view.members.front(), branch.cluster, order, [](const auto&) {});
    }
    if (branch.missing_markers.empty()) continue;
    coordinator.RepairMarkers(view.members.front(), branch.cluster, [](const Status&) {});
  }
}

void World::AskFinalViews() {
  std::map<GlobalTxnId, Result<TxnView>> views;
  const std::vector<GlobalTxnId> ids = oracle_.Begun();
  for (const GlobalTxnId& id : ids) {
    coordinator()->Get(id, [&, id](const Result<TxnView>& view) {
      oracle_.OnAnswer(id, view);
      views.emplace(id, view);
    });
  }
  RunUntil("GetTxn is not answered", minutes(1), [&] { return views.size() == ids.size(); });
  oracle_.CheckQuiet(views);
}

/// A key that has had its effect is that run's for ever: the oracle sees to it.
void World::AskKeysAgain() {
  std::size_t answers = 0;
  const std::vector<txn::ClientKey> keys = oracle_.KeysWithEffect();
  for (const txn::ClientKey& key : keys) {
    coordinator()->Submit({.key = key, .timeout = seconds(1)}, [&, key](const auto& answer) {
      oracle_.OnSubmitted(key, key.key + ".last", {}, answer);
      ++answers;
    });
  }
  RunUntil("a key is not answered", minutes(1), [&] { return answers == keys.size(); });
}

void World::CheckNewTransactionCommits() {
  SimClient client(*this, 1'000);
  client.StartLast();
  RunUntil("a new transaction does not commit although all is quiet", minutes(1),
           [&] { return client.done(); });
}

Outcome World::Run() {
  Outcome outcome;
  try {
    RunClients();
    Quiesce();
    AskFinalViews();
    AskKeysAgain();
    CheckNewTransactionCommits();
    oracle_.Check();
  } catch (const std::exception& problem) {
    outcome.violation = problem.what();
  }
  outcome.trace = trace_.lines();
  outcome.steps = steps_;
  outcome.crashes = crashes_;
  outcome.crashes_in_recovery = crashes_in_recovery_;
  outcome.virtual_time = scheduler_.now();
  outcome.counts = oracle_.counts();
  return outcome;
}

}  // namespace lockstep::sim
