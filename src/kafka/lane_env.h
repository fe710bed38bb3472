#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "coordinator/ports.h"
#include "kafka/log_bridge.h"
#include "kafka/settings.h"
#include "kafka/topic_catalog.h"
#include "wire/client.h"

namespace lockstep::kafka {

/// What the lanes of one cluster share. Outlives them; does not change while one lives.
struct LaneEnv {
  const ClusterConfig& config;
  const KafkaClusterId cluster_id;
  const std::chrono::milliseconds transaction_timeout;
  wire::Client& wire;
  TopicCatalog& topics;
  const coordinator::Clock& clock;
  LogBridge& log;
  std::function<TransactionalId()> next_id;  ///< Never the same twice. Thread-safe.
  /// The cluster may end a transaction without its markers (KAFKA-20734).
  const std::atomic<bool>& may_lose_markers;
  std::atomic<std::uint64_t>& requests_sent;  ///< To be counted.

  const std::string& tag() const { return config.name.get(); }  ///< For failpoints.
};

}  // namespace lockstep::kafka
