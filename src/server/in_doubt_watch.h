#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/ports.h"
#include "server/traces.h"

namespace lockstep::server {

/// Looks every few seconds at what is in doubt and says so in the log: each HEURISTIC transaction
/// once, as an error; the rest as one line a minute while any is older than ten seconds. Lives on
/// the executor, and is destroyed only once that has stopped.
class InDoubtWatch {
 public:
  InDoubtWatch(coordinator::Coordinator& coordinator, coordinator::Executor& executor,
               const coordinator::Clock& clock, const Traces& traces)
      : coordinator_(coordinator), executor_(executor), clock_(clock), traces_(traces) {}

  /// Once. Any thread.
  void Start();

 private:
  void Look();
  void Report(const std::vector<coordinator::InDoubtView>& views);

  coordinator::Coordinator& coordinator_;
  coordinator::Executor& executor_;
  const coordinator::Clock& clock_;
  const Traces& traces_;
  std::set<BatchId> heuristic_told_;
  MonoTime quiet_until_{};
  bool told_ = false;  ///< Something in doubt was told, and not yet that it is over.
};

}  // namespace lockstep::server
