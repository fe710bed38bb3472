#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/ports.h"
#include "server/gate.h"
#include "server/traces.h"

/// What the services need of the rest of the process.
namespace lockstep::server {

struct ApiLimits {
  coordinator::Limits coordinator;
  std::size_t message_bytes = 4u << 20;
  std::size_t record_bytes = 1u << 20;
  std::size_t concurrent_calls = 10'000;
  /// A reader of Backup that takes nothing for so long is not one: it would pin what the log has
  /// long dropped.
  Duration backup_patience = std::chrono::minutes(1);
};

/// A value that is replaced while others read it. Thread-safe.
template <typename T>
class Shared {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): it stands for its value.
  Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}

  std::shared_ptr<const T> Get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void Set(T value) {
    auto fresh = std::make_shared<const T>(std::move(value));
    const std::lock_guard lock(mutex_);
    value_ = std::move(fresh);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;  // Guarded by mutex_.
};

/// Calls that were answered with an error, by the number of its reason (error.proto). Thread-safe.
class RefusedCalls {
 public:
  /// Those that are counted one by one; higher ones, of which there are none yet, count as 0.
  static constexpr std::size_t kReasons = 64;
  void Count(int reason) { ++counts_[InRange(reason) ? static_cast<std::size_t>(reason) : 0]; }
  std::uint64_t count(int reason) const {
    return InRange(reason) ? counts_[static_cast<std::size_t>(reason)].load() : 0;
  }

 private:
  static bool InRange(int reason) {
    return reason >= 0 && static_cast<std::size_t>(reason) < kReasons;
  }
  std::array<std::atomic<std::uint64_t>, kReasons> counts_{};
};

/// Transactions under way on one ExecuteStream. Bounds what is read ahead of slow clusters, and
/// what is answered ahead of a slow reader.
inline constexpr std::size_t kExecuteStreamInFlight = 1'000;

/// Shared by the services, owned by Server. The references outlive it.
struct Api {
  coordinator::Coordinator& coordinator;
  coordinator::Executor& executor;
  const coordinator::DecisionLog& log;
  Gate& gate;
  Shared<std::vector<coordinator::Cluster*>> clusters;
  Shared<ApiLimits> limits;
  WallTime started_at;

  /// Calls are refused with UNAVAILABLE until the coordinator has started.
  std::atomic<bool> open{false};
  std::atomic<bool> draining{false};  ///< Stopping.
  std::atomic<bool> drained{false};   ///< By an operator.
  std::atomic<bool> backup_runs{false};
  RefusedCalls refused;
  Traces traces;
  /// Tells health checks; set by Server.
  std::function<void(bool)> set_serving;
  /// Calls under way, those whose client has gone included. Shared: what a stopped executor still
  /// holds is dropped after us.
  std::shared_ptr<std::atomic<std::size_t>> calls = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace lockstep::server
