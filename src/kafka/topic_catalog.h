#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "kafka/interrupt.h"
#include "wire/client.h"

namespace lockstep::kafka {

/// What a topic is known to be.
struct Topic {
  wire::ErrorCode error = wire::ErrorCode::kNone;  ///< Why it cannot be used; then no partitions.
  std::int32_t partitions = 0;
};

/// The topics of one cluster that lanes have used, asked of the brokers at first use and shared by
/// the lanes. Thread-safe. What it says may be out of date (a topic deleted since): it only keeps
/// bad records from spoiling a transaction, the broker has the last word.
class TopicCatalog {
 public:
  explicit TopicCatalog(wire::Client& client) : client_(client) {}

  using Topics = std::unordered_map<std::string, Topic>;
  /// Asks for those that it does not know to exist. Blocks up to `timeout`; the lane's thread only.
  Result<Topics> Look(const std::vector<std::string>& topics, Duration timeout,
                      Interrupt& interrupt);
  /// Asks again at the next look.
  void Forget(const std::vector<std::string>& topics);
  /// Some of those known to exist.
  Topics Known(std::size_t at_most) const;

 private:
  static constexpr std::size_t kMaxTopics = 10'000;

  wire::Client& client_;
  mutable std::mutex mutex_;
  Topics known_;  // Existing ones only. Guarded by mutex_.
};

}  // namespace lockstep::kafka
