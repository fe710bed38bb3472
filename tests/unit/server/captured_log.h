#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/logging.h"

namespace lockstep::server {

/// What the process logs, for a while.
class CapturedLog {
 public:
  explicit CapturedLog(spdlog::level::level_enum level = spdlog::level::info)
      : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", sink_);
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() {
    // The server's threads may be inside the logger that they took a moment ago: it stays.
    static std::vector<std::shared_ptr<spdlog::logger>> retired;
    retired.push_back(spdlog::default_logger());
    spdlog::set_default_logger(before_);
  }

  /// Returns the first line with this in it.
  std::string Await(const std::string& part) { return sink_->Await(part); }
  /// How many lines so far have this in them.
  std::ptrdiff_t CountOf(const std::string& part) { return sink_->CountOf(part); }

 private:
  class Lines : public spdlog::sinks::base_sink<std::mutex> {
   public:
    Lines() { formatter_ = TextFormat(); }
    std::string Await(const std::string& part) {
      std::unique_lock lock(lines_mutex_);
      const auto has = [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      };
      auto found = lines_.end();
      more_.wait(lock, [&] {
        found = std::find_if(lines_.begin(), lines_.end(), has);
        return found != lines_.end();
      });
      return *found;
    }
    std::ptrdiff_t CountOf(const std::string& part) {
      const std::lock_guard lock(lines_mutex_);
      return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      });
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::lock_guard lock(lines_mutex_);
      spdlog::memory_buf_t line;
      formatter_->format(message, line);
      lines_.emplace_back(line.data(), line.size());
      more_.notify_all();
    }
    void flush_() override {}

    std::mutex lines_mutex_;
    std::condition_variable more_;
    std::deque<std::string> lines_;
  };

  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<Lines> sink_ = std::make_shared<Lines>();
};

}  // namespace lockstep::server
