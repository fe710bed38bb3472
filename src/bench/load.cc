#include "bench/load.h"

#include <algorithm>

namespace lockstep::bench {

Tickets::Tickets(const Pace& pace, TimePoint start) : pace_(pace), start_(start) {}

std::optional<TimePoint> Tickets::Next(TimePoint now) const {
  if (pace_.count != 0 && taken_ >= pace_.count) return std::nullopt;
  if (pace_.per_second == 0) {
    return now < start_ + pace_.length ? std::optional(now) : std::nullopt;
  }
  const std::chrono::duration<double> offset(static_cast<double>(taken_) / pace_.per_second);
  const TimePoint due = start_ + std::chrono::duration_cast<Clock::duration>(offset);
  const bool in_time = due < start_ + pace_.length && now < start_ + 2 * pace_.length;
  return in_time ? std::optional(due) : std::nullopt;
}

std::optional<TimePoint> Tickets::Take(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto due = Next(now);
  if (due) ++taken_;
  return due;
}

std::optional<TimePoint> Tickets::TakeIfDue(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto due = Next(now);
  if (!due || *due > now) return std::nullopt;
  ++taken_;
  return due;
}

std::uint64_t Tickets::Dropped() const {
  if (pace_.per_second == 0) return 0;
  const std::lock_guard lock(mutex_);
  auto meant = static_cast<std::uint64_t>(std::chrono::duration<double>(pace_.length).count() *
                                          pace_.per_second);
  if (pace_.count != 0) meant = std::min(meant, pace_.count);
  return meant > taken_ ? meant - taken_ : 0;
}

void Recorder::Committed(TimePoint due, std::optional<Clock::duration> commit) {
  latency_.Record(Clock::now() - due);
  if (commit) commit_.Record(*commit);
}

void Recorder::Failed(const std::string& why) {
  if (failed_++ > 0) return;
  const std::lock_guard lock(mutex_);
  first_failure_ = why;
}

std::string Recorder::FirstFailure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

}  // namespace lockstep::bench
