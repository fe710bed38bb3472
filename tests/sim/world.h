#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "oracle.h"
#include "random.h"
#include "scheduler.h"
#include "sim_broker.h"
#include "sim_cluster.h"
#include "sim_log.h"
#include "sim_options.h"
#include "trace.h"

namespace lockstep::sim {

class SimApp;
class SimClient;

/// One life of lockstepd: the real coordinator over simulated adapters.
struct Process {
  Process(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
          const SimClock& clock, Trace& trace, Oracle& oracle,
          const std::map<ClusterName, std::unique_ptr<SimBroker>>& brokers,
          std::function<void()> on_fatal);

  SimExecutor executor;
  SimLog log;
  std::vector<std::unique_ptr<SimCluster>> clusters;
  coordinator::Coordinator coordinator;
  std::shared_ptr<const int> life = std::make_shared<const int>(0);
};

/// What one run found.
struct Outcome {
  std::string violation;  ///< Empty: none.
  std::deque<std::string> trace;
  std::uint64_t steps = 0;
  std::uint64_t crashes = 0;
  std::uint64_t crashes_in_recovery = 0;  ///< Of these: soon after a start with work to complete.
  Duration virtual_time{};
  Oracle::Counts counts;
};

/// The whole world of one seed: brokers, the disk, lockstepd's lives one after the other, clients.
class World {
 public:
  World(const SimOptions& options, Trace::Mode trace);
  ~World();

  /// Runs the seed to its end: clients finish under trouble, then all is quiet, then all is
  /// checked.
  Outcome Run();

  // ---- For clients
  // -------------------------------------------------------------------------------

  const SimOptions& options() const { return options_; }
  Scheduler& scheduler() { return scheduler_; }
  Random& random() { return random_; }
  const SimClock& clock() const { return clock_; }
  Oracle& oracle() { return oracle_; }
  Trace& trace() { return trace_; }
  /// Nullptr while lockstepd is down.
  coordinator::Coordinator* coordinator();
  /// How often lockstepd was started.
  std::uint64_t incarnation() const { return incarnation_; }
  const std::map<ClusterName, std::unique_ptr<SimBroker>>& brokers() const { return brokers_; }

 private:
  void StartProcess();
  void StepWallClock();
  void Crash();
  void Stop();
  void EndProcess();
  void Step();
  void RunClients();
  bool AllDone() const;
  /// Troubles end; steps on until nothing is in doubt any more, or it takes too long.
  void Quiesce();
  void Operate();
  void LookAfter(const coordinator::InDoubtView& view);
  void AskFinalViews();
  void AskKeysAgain();
  void CheckNewTransactionCommits();
  /// Steps until the condition holds; a Violation with `what` if it takes too long.
  void RunUntil(const std::string& what, Duration limit, const std::function<bool()>& condition);

  const SimOptions options_;
  Random random_;
  Scheduler scheduler_{random_};
  SimClock clock_{scheduler_};
  Trace trace_;
  Oracle oracle_{options_};
  std::unique_ptr<SimDisk> disk_;
  std::map<ClusterName, std::unique_ptr<SimBroker>> brokers_;
  std::unique_ptr<Process> process_;
  std::uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimApp>> apps_;
  bool calm_ = false;
  bool settled_ = false;    // Nothing was in doubt when the operator looked last.
  bool must_exit_ = false;  // The coordinator said so: its log failed.
  int nervous_steps_ = 0;   // Right after a start, or a decision, crashes are likelier.
  std::uint64_t decisions_seen_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t crashes_in_recovery_ = 0;
  std::uint64_t started_at_ = 0;  // In steps.
};

}  // namespace lockstep::sim
