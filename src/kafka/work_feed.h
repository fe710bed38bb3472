#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/time.h"
#include "coordinator/ports.h"
#include "txn/types.h"

namespace lockstep::kafka {

/// The work of a streamed transaction on its way to the lane's thread. Thread-safe.
class WorkFeed {
 public:
  struct Piece {
    txn::BranchWork work;
    coordinator::Callback<> written;
  };
  struct End {
    MonoTime give_up{};
    bool want_positions = false;
  };

  void Put(Piece piece) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
  }
  void Finish(End end) {
    const std::lock_guard lock(mutex_);
    end_ = end;
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    pieces_.clear();
    end_.reset();
  }

  /// Nothing: none yet, or no more.
  std::optional<Piece> Take() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return std::nullopt;
    std::optional<Piece> piece = std::move(pieces_.front());
    pieces_.pop_front();
    return piece;
  }
  /// Once every piece was taken.
  std::optional<End> end() const {
    const std::lock_guard lock(mutex_);
    return pieces_.empty() ? end_ : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Piece> pieces_;
  std::optional<End> end_;
};

}  // namespace lockstep::kafka
