#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/ports.h"

/// What the services need of the rest of the process. No gRPC here.
namespace lockstep::server {

struct ApiLimits {
  std::size_t message_bytes = 4u << 20;
  std::size_t record_bytes = 1u << 20;
  std::size_t concurrent_calls = 10'000;
};

/// Transactions under way on one ExecuteStream. Bounds what is read ahead of slow clusters, and
/// what is answered ahead of a slow reader.
inline constexpr std::size_t kExecuteStreamInFlight = 1'000;

/// Shared by the services, owned by Server. The references outlive it.
struct Api {
  coordinator::Coordinator& coordinator;
  coordinator::Executor& executor;
  const coordinator::DecisionLog& log;
  std::vector<coordinator::Cluster*> clusters;
  ApiLimits limits;
  WallTime started_at;

  /// Calls are refused with UNAVAILABLE until the coordinator has started.
  std::atomic<bool> open{false};
  std::atomic<bool> draining{false};
  /// Calls under way, those whose client has gone included. Shared: what a stopped executor still
  /// holds is dropped after us.
  std::shared_ptr<std::atomic<std::size_t>> calls = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace lockstep::server
