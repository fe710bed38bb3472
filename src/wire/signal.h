#pragma once

#include <chrono>
#include <coroutine>
#include <optional>
#include <unordered_set>

#include "wire/io.h"

namespace lockstep::wire {

/// Deadlines inside src/wire, as the loop's timers count time.
using Deadline = std::chrono::steady_clock::time_point;

/// What ended a wait.
enum class Wake { kSignalled, kDeadline, kClosed };

class Signal;

/// All waits of one client, so that closing it ends them.
class Waits {
 public:
  bool closed() const { return closed_; }
  /// Every wait, now and later, ends with kClosed.
  void Close();

 private:
  friend class Signal;
  std::unordered_set<Signal*> waiting_;
  bool closed_ = false;
};

/// Something that happens once, or does not: one coroutine may wait for it. Who waits is resumed by
/// the loop, never from inside Set, so Set may be called anywhere on the loop's thread.
class Signal {
 public:
  Signal(Io& io, Waits& waits) : io_(io), waits_(waits), timer_(io) {}
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void Set() { End(Wake::kSignalled); }

  /// `co_await signal.Until(deadline)` yields a Wake. What ended the wait first counts.
  auto Until(Deadline deadline) {
    struct Awaiter {
      Signal& signal;
      Deadline deadline;
      bool await_ready() { return signal.ReadyBefore(deadline); }
      void await_suspend(std::coroutine_handle<> waiter) { signal.Wait(deadline, waiter); }
      Wake await_resume() { return *signal.wake_; }
    };
    return Awaiter{*this, deadline};
  }

 private:
  bool ReadyBefore(Deadline deadline);
  void Wait(Deadline deadline, std::coroutine_handle<> waiter);
  void End(Wake wake);

  friend class Waits;

  Io& io_;
  Waits& waits_;
  Timer timer_;
  std::optional<Wake> wake_;
  std::coroutine_handle<> waiter_;
};

}  // namespace lockstep::wire
