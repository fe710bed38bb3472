#include "kafka/interrupt.h"

namespace lockstep::kafka {

void Interrupt::Raise() {
  const std::lock_guard lock(mutex_);
  raised_ = true;
  changed_.notify_all();
}

void Interrupt::Clear() {
  const std::lock_guard lock(mutex_);
  raised_ = false;
}

bool Interrupt::raised() const {
  const std::lock_guard lock(mutex_);
  return raised_;
}

bool Interrupt::Sleep(Duration duration) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, duration, [this] { return raised_; });
}

}  // namespace lockstep::kafka
