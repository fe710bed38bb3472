#pragma once

#include <functional>
#include <memory>
#include <thread>

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
  struct KeepRunning;

  std::unique_ptr<boost::asio::io_context> context_;
  std::unique_ptr<KeepRunning> keep_running_;
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
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::wire
