#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/ids.h"

namespace lockstep::kafka {

/// Which configured cluster is which Kafka cluster, so that one Kafka cluster under two names is
/// noticed: its transaction would be two, and half of one could block the other. One per process,
/// shared by its clusters. Thread-safe.
class ClusterRegistry {
 public:
  /// The other name under which this Kafka cluster is known; nothing if it is now `name`'s alone.
  std::optional<ClusterName> Claim(const KafkaClusterId& id, const ClusterName& name) {
    const std::lock_guard lock(mutex_);
    const auto& owner = owners_.try_emplace(id, name).first->second;
    if (owner == name) return std::nullopt;
    return owner;
  }

 private:
  std::mutex mutex_;
  std::map<KafkaClusterId, ClusterName> owners_;
};

}  // namespace lockstep::kafka
