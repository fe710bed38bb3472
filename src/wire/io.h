#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/time.h"

namespace boost::asio {
class io_context;
}

namespace lockstep::wire {

/// An event loop on a thread of its own. Everything in src/wire but Client's own methods runs on
/// it, so nothing there is locked. Asio stays behind this header and connection.h.
class Io {
 public:
  Io();
  ~Io();  ///< Stops the loop and joins its thread.
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  /// Runs it on the loop's thread, in the order of Post. Thread-safe.
  void Post(std::function<void()> task);

  boost::asio::io_context& context() { return *context_; }

 private:
  friend class Timer;
  using Time = std::chrono::steady_clock::time_point;
  /// When, and a number that no other has.
  using TimerKey = std::pair<Time, std::uint64_t>;
  struct KeepRunning;
  struct Alarm;

  TimerKey AddTimer(Time due, std::function<void()> task);
  void SetAlarm(Time due);
  void OnAlarm();

  // Nearly every timer is cancelled: so one of Asio's rings for all of them, and only where none
  // would ring in time. Before the context: what it holds may cancel timers as it goes.
  std::map<TimerKey, std::function<void()>> timers_;
  std::uint64_t next_timer_ = 0;
  std::unique_ptr<boost::asio::io_context> context_;
  std::unique_ptr<KeepRunning> keep_running_;
  std::unique_ptr<Alarm> alarm_;
  std::thread thread_;
};

/// Runs one thing later. On the loop's thread only.
class Timer {
 public:
  explicit Timer(Io& io);
  ~Timer();  ///< As Cancel.
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Replaces what was started before.
  void Start(Duration delay, std::function<void()> task);
  /// After it the task does not run.
  void Cancel();

 private:
  Io& io_;
  Io::TimerKey key_{};  // In io_.timers_, until it runs; number 0: nothing was started.
};

}  // namespace lockstep::wire
