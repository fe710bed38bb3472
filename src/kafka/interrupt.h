#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::kafka {

/// Lets a lane's thread wait, and other threads end its wait: the transaction is to be aborted, or
/// the lane is to stop. Thread-safe; held by shared pointer, for answers may come late.
class Interrupt : public std::enable_shared_from_this<Interrupt> {
 public:
  void Raise();
  void Clear();
  bool raised() const;

  /// Sleeps. True if it was raised before the time was over.
  bool Sleep(Duration duration);

  /// Waits for one answer of an asynchronous call, which `start` makes. If it is raised first:
  /// kAborted, effect Unknown, and the answer is dropped when it comes.
  template <typename T>
  Result<T> Await(const std::function<void(std::function<void(Result<T>)>)>& start) {
    const auto answer = std::make_shared<std::optional<Result<T>>>();
    start([self = shared_from_this(), answer](Result<T> result) {
      const std::lock_guard lock(self->mutex_);
      answer->emplace(std::move(result));
      self->changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return raised_ || answer->has_value(); });
    if (answer->has_value()) return std::move(**answer);
    return MakeError(Code::kAborted, "nobody waits for it any more", Effect::kUnknown);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
};

}  // namespace lockstep::kafka
