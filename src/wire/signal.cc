#include "wire/signal.h"

#include <utility>

namespace lockstep::wire {

void Waits::Close() {
  closed_ = true;
  const auto waiting = std::exchange(waiting_, {});
  for (Signal* signal : waiting) signal->End(Wake::kClosed);
}

Signal::~Signal() { waits_.waiting_.erase(this); }

bool Signal::ReadyBefore(Deadline deadline) {
  if (wake_) return true;
  if (waits_.closed()) {
    wake_ = Wake::kClosed;
  } else if (deadline <= std::chrono::steady_clock::now()) {
    wake_ = Wake::kDeadline;
  }
  return wake_.has_value();
}

void Signal::Wait(Deadline deadline, std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  waits_.waiting_.insert(this);
  timer_.Start(deadline - std::chrono::steady_clock::now(), [this] { End(Wake::kDeadline); });
}

void Signal::End(Wake wake) {
  if (wake_) return;
  wake_ = wake;
  if (!waiter_) return;
  timer_.Cancel();
  waits_.waiting_.erase(this);
  io_.Post([waiter = waiter_] { waiter.resume(); });
}

}  // namespace lockstep::wire
