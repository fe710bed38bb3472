#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/time.h"
#include "coordinator/ports.h"
#include "random.h"

namespace lockstep::sim {

class SimExecutor;

/// Dies with what it stands for, for example one life of the coordinator's process: events that
/// belong to it do not run after it.
using Life = std::weak_ptr<const void>;

/// Virtual time and all that waits for it. One thread. Whoever is ready at the same time runs in an
/// order that the seed picks.
class Scheduler {
 public:
  explicit Scheduler(Random& random) : random_(random) {}

  Duration now() const { return now_; }
  /// Runs `event` once, not before `delay` has passed.
  void After(Duration delay, std::function<void()> event);
  /// The same, unless `life` has ended by then.
  void After(Duration delay, Life life, std::function<void()> event);

  /// The executor whose tasks compete with the events; nullptr for none.
  void SetExecutor(SimExecutor* executor) { executor_ = executor; }

  /// Runs one event or task, after letting time pass if none is ready. False: there is none.
  bool Step();

 private:
  Random& random_;
  Duration now_{};
  struct Event {
    std::optional<Life> life;  // None: it happens whoever has died.
    std::function<void()> run;
  };
  void Add(Duration delay, Event event);
  std::multimap<Duration, Event> events_;
  SimExecutor* executor_ = nullptr;
};

/// The coordinator's executor: strictly first in, first out.
class SimExecutor final : public coordinator::Executor {
 public:
  explicit SimExecutor(Scheduler& scheduler) : scheduler_(scheduler) {}

  void Post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  TimerId PostAfter(Duration delay, std::function<void()> task) override;
  void Cancel(TimerId timer) override { timers_.erase(timer); }

  bool has_task() const { return !tasks_.empty(); }
  void RunOne();

 private:
  Scheduler& scheduler_;
  std::deque<std::function<void()>> tasks_;
  std::map<TimerId, std::function<void()>> timers_;
  TimerId next_timer_ = 1;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
};

/// The machine's clocks. The wall clock may be set, also backwards.
class SimClock final : public coordinator::Clock {
 public:
  explicit SimClock(const Scheduler& scheduler) : scheduler_(scheduler) {}

  MonoTime Now() const override { return MonoTime(scheduler_.now()); }
  WallTime WallNow() const override;
  void StepWall(std::int64_t ms) { wall_offset_ms_ += ms; }

 private:
  const Scheduler& scheduler_;
  std::int64_t wall_offset_ms_ = 1'700'000'000'000;
};

}  // namespace lockstep::sim
