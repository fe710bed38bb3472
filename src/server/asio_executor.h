#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "coordinator/ports.h"

namespace lockstep::server {

/// The coordinator's executor: one thread, started by the constructor. Thread-safe.
class AsioExecutor final : public coordinator::Executor {
 public:
  AsioExecutor();
  /// As Stop().
  ~AsioExecutor() override;

  void Post(std::function<void()> task) override;
  TimerId PostAfter(Duration delay, std::function<void()> task) override;
  void Cancel(TimerId timer) override;

  /// Ends after the running task: what is queued, or waits for its time, is dropped. Blocks until
  /// then; not from a task.
  void Stop();

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::mutex mutex_;
  TimerId next_timer_ = 1;                                         // Guarded by mutex_.
  std::unordered_map<TimerId, boost::asio::steady_timer> timers_;  // Guarded by mutex_.
  std::thread thread_;
};

/// Time from the kernel: CLOCK_BOOTTIME, and the wall clock. Thread-safe.
class SystemClock final : public coordinator::Clock {
 public:
  MonoTime Now() const override;
  WallTime WallNow() const override;
};

}  // namespace lockstep::server
