#include "sim_caller.h"

#include <chrono>
#include <utility>

#include "world.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{5};

}  // namespace

void SimCaller::After(Duration delay, std::function<void()> next) {
  world_.scheduler().After(delay, life_, std::move(next));
}

void SimCaller::Call(const std::function<void(coordinator::Coordinator&)>& call,
                     const std::function<void()>& again) {
  const std::uint64_t attempt = ++attempt_;
  if (coordinator::Coordinator* coordinator = world_.coordinator()) call(*coordinator);
  // Longer than the coordinator needs to decide, and than it takes to come back.
  After(kPatience + world_.random().Between(Duration{}, Duration(seconds(15))),
        [this, attempt, again] {
          if (attempt == attempt_) again();
        });
}

void SimCaller::Then(std::uint64_t attempt, const std::function<void()>& next) {
  if (attempt != attempt_) return;
  ++attempt_;
  After(world_.random().Between(Duration{}, Duration(milliseconds(5))), next);
}

}  // namespace lockstep::sim
