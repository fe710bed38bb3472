#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wire/errors.h"

/// What brokers say of what we may do, and of how they are set up: for `lockstepctl check`.
namespace lockstep::wire {

/// Kafka's AclOperation codes.
enum class Operation : std::uint8_t {
  kRead = 3,
  kWrite = 4,
  kAlter = 7,
  kDescribe = 8,
  kClusterAction = 9,
  kDescribeConfigs = 10,
};

/// The operations that are allowed on one thing.
class Operations {
 public:
  /// `bits`: as KIP-430 has them, one for each AclOperation code.
  explicit Operations(std::int32_t bits = 0) : bits_(static_cast<std::uint32_t>(bits)) {}
  bool Has(Operation operation) const {
    return (bits_ >> static_cast<unsigned>(operation) & 1U) != 0;
  }

 private:
  std::uint32_t bits_;
};

struct TopicRights {
  std::string topic;
  /// TOPIC_AUTHORIZATION_FAILED: not even Describe; nothing else is known then.
  ErrorCode error = ErrorCode::kNone;
  Operations operations;
  std::size_t partitions = 0;
  std::size_t replicas_least = 0;  ///< Of the partition with the fewest.
};

struct Rights {
  Operations cluster;
  std::vector<TopicRights> topics;
};

/// Settings of one broker, by name: those that it told.
struct BrokerSettings {
  std::int32_t node_id = -1;
  std::map<std::string, std::string> values;
};

/// The least number that any broker tells for the setting; none: no broker tells one.
std::optional<std::int64_t> LeastSetting(const std::vector<BrokerSettings>& brokers,
                                         const std::string& name);

/// When the controller answered, by its own clock, and ours just before and after.
struct ControllerTime {
  std::chrono::system_clock::time_point theirs;
  std::chrono::system_clock::time_point asked;
  std::chrono::system_clock::time_point answered;
};

}  // namespace lockstep::wire
