#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/ports.h"

namespace lockstep::server {

/// The coordinator's executor: one thread, started by the constructor. Thread-safe. Tasks that were
/// posted while one ran are taken together; a cancelled timer costs nothing later.
class ThreadExecutor final : public coordinator::Executor {
 public:
  ThreadExecutor();
  /// As Stop().
  ~ThreadExecutor() override;

  void Post(std::function<void()> task) override;
  TimerId PostAfter(Duration delay, std::function<void()> task) override;
  void Cancel(TimerId timer) override;

  /// Ends after the running task: what is queued, waits for its time, or comes later, is dropped.
  /// Blocks until then; not from a task.
  void Stop();

 private:
  using Task = std::function<void()>;
  using Time = std::chrono::steady_clock::time_point;
  using Timers = std::map<std::pair<Time, TimerId>, Task>;

  void Run();
  void RunAll(std::vector<Task>& tasks);
  /// The timer that was due first by `now`, taken out; empty: none is.
  Timers::node_type TakeDue(Time now);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> posted_;               // Guarded by mutex_.
  TimerId next_timer_ = 1;                 // Guarded by mutex_.
  Timers timers_;                          // Guarded by mutex_.
  std::unordered_map<TimerId, Time> due_;  // Guarded by mutex_: of timers_.
  bool idle_ = false;                      // Guarded by mutex_: the thread wants to be woken.
  std::atomic<bool> stopped_ = false;      // Set under mutex_.
  std::thread thread_;
};

/// Time from the kernel: CLOCK_BOOTTIME, and the wall clock. Thread-safe.
class SystemClock final : public coordinator::Clock {
 public:
  MonoTime Now() const override;
  WallTime WallNow() const override;
};

}  // namespace lockstep::server
