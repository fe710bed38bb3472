#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace lockstep::kafka {

/// Lets a few lines through in each interval and counts the others. Thread-safe.
class LineLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  LineLimiter(int lines, Clock::duration interval) : lines_(lines), interval_(interval) {}

  /// Whether this line may be written; `dropped` is then how many were not since the last one.
  bool Allow(Clock::time_point now, std::uint64_t& dropped);

 private:
  const int lines_;
  const Clock::duration interval_;
  std::mutex mutex_;
  Clock::time_point interval_start_{};
  int used_ = 0;
  std::uint64_t dropped_ = 0;
};

/// Where librdkafka's log lines go: spdlog, named by cluster and lane, a few a second for the whole
/// cluster. A broker that is away makes every lane complain several times a second. Thread-safe.
class LogBridge {
 public:
  explicit LogBridge(ClusterName cluster) : cluster_(std::move(cluster)) {}

  /// `level` is syslog's, 0 to 7.
  void Write(int level, std::string_view lane, std::string_view facility, std::string_view text);

 private:
  const ClusterName cluster_;
  LineLimiter limiter_{20, std::chrono::seconds(10)};
};

}  // namespace lockstep::kafka
