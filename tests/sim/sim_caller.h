#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "coordinator/coordinator.h"
#include "scheduler.h"

namespace lockstep::sim {

class World;

/// Somebody who calls lockstepd, one call after the other, and loses patience.
class SimCaller {
 protected:
  explicit SimCaller(World& world) : world_(world) {}
  ~SimCaller() = default;

  void After(Duration delay, std::function<void()> next);
  /// Calls the coordinator, and `again` if there is none, or no answer comes.
  void Call(const std::function<void(coordinator::Coordinator&)>& call,
            const std::function<void()>& again);
  /// The answer of the call `attempt` has arrived: `next`, a little later, if it is still waited
  /// for.
  void Then(std::uint64_t attempt, const std::function<void()>& next);

  World& world_;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
  std::uint64_t attempt_ = 0;  // Counts calls: an answer to an older one is too late.
};

}  // namespace lockstep::sim
