#include "scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::sim {
namespace {

/// Of the events that are ready, only the oldest few compete: enough to meet every order of two,
/// and nobody starves.
constexpr std::size_t kCompetitors = 8;

}  // namespace

void Scheduler::After(Duration delay, std::function<void()> event) {
  Add(delay, {std::nullopt, std::move(event)});
}

void Scheduler::After(Duration delay, Life life, std::function<void()> event) {
  Add(delay, {std::move(life), std::move(event)});
}

void Scheduler::Add(Duration delay, Event event) {
  events_.emplace(now_ + std::max(delay, Duration::zero()), std::move(event));
}

bool Scheduler::Step() {
  const bool has_task = executor_ != nullptr && executor_->has_task();
  if (!has_task) {
    if (events_.empty()) return false;
    now_ = std::max(now_, events_.begin()->first);
  }
  std::size_t ready = 0;
  for (auto it = events_.begin(); it != events_.end() && ready < kCompetitors; ++it, ++ready) {
    if (it->first > now_) break;
  }
  const std::size_t pick = random_.Below(ready + (has_task ? 1 : 0));
  now_ += std::chrono::microseconds(random_.Below(20));
  if (pick == ready) {
    executor_->RunOne();
    return true;
  }
  auto node = events_.extract(std::next(events_.begin(), static_cast<std::ptrdiff_t>(pick)));
  const Event& event = node.mapped();
  if (!event.life || !event.life->expired()) event.run();
  return true;
}

coordinator::Executor::TimerId SimExecutor::PostAfter(Duration delay, std::function<void()> task) {
  const TimerId timer = next_timer_++;
  timers_[timer] = std::move(task);
  scheduler_.After(delay, life_, [this, timer] {
    Post([this, timer] {
      auto node = timers_.extract(timer);
      if (!node.empty()) node.mapped()();
    });
  });
  return timer;
}

void SimExecutor::RunOne() {
  const std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  task();
}

WallTime SimClock::WallNow() const {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(scheduler_.now());
  return WallTime{wall_offset_ms_ + passed.count()};
}

}  // namespace lockstep::sim
