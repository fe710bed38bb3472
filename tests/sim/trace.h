#pragma once

#include <chrono>
#include <cstdio>
#include <deque>
#include <string>

#include "scheduler.h"

namespace lockstep::sim {

/// What happened, for people. Off, it costs nothing: a failing seed is simply run again with it.
class Trace {
 public:
  enum class Mode { kOff, kKeep, kPrint };

  Trace(const Scheduler& scheduler, Mode mode) : scheduler_(scheduler), mode_(mode) {}

  /// `text` is a function that makes the line.
  template <typename Text>
  void operator()(Text text) {
    if (mode_ == Mode::kOff) return;
    const double ms = std::chrono::duration<double, std::milli>(scheduler_.now()).count();
    char time[32];
    std::snprintf(time, sizeof time, "%12.3f ms  ", ms);
    std::string line = time + text();
    if (mode_ == Mode::kPrint) std::printf("%s\n", line.c_str());
    lines_.push_back(std::move(line));
    if (lines_.size() > kKept) lines_.pop_front();
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kKept = 250;

  const Scheduler& scheduler_;
  const Mode mode_;
  std::deque<std::string> lines_;
};

}  // namespace lockstep::sim
