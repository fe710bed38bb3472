#include "kafka/log_bridge.h"

#include <spdlog/spdlog.h>

namespace lockstep::kafka {

bool LineLimiter::Allow(Clock::time_point now, std::uint64_t& dropped) {
  const std::lock_guard lock(mutex_);
  if (now - interval_start_ >= interval_) {
    interval_start_ = now;
    used_ = 0;
  }
  if (used_ >= lines_) {
    ++dropped_;
    return false;
  }
  ++used_;
  dropped = std::exchange(dropped_, 0);
  return true;
}

void LogBridge::Write(int level, std::string_view lane, std::string_view facility,
                      std::string_view text) {
  // librdkafka calls a refused connection an error; for us it is one of the things that happen.
  const auto severity = level <= 4   ? spdlog::level::warn
                        : level <= 6 ? spdlog::level::info
                                     : spdlog::level::debug;
  if (!spdlog::should_log(severity)) return;
  std::uint64_t dropped = 0;
  if (!limiter_.Allow(LineLimiter::Clock::now(), dropped)) return;
  if (dropped > 0)
    spdlog::warn("cluster {}: {} lines of librdkafka left out", cluster_.get(), dropped);
  spdlog::log(severity, "cluster {}: {}: {}: {}", cluster_.get(), lane, facility, text);
}

}  // namespace lockstep::kafka
