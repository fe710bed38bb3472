#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "bench/histogram.h"

/// When transactions begin, and what becomes of them.
namespace lockstep::bench {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// How transactions follow one another in one run of one mode.
struct Pace {
  /// Closed loop if 0: the next one begins when one has ended. Else open loop: so many a second
  /// begin at fixed moments, however long the others take.
  double per_second = 0;
  Clock::duration length = std::chrono::seconds(5);
  std::uint64_t count = 0;  ///< At most so many; 0: any number.
};

/// Hands out the transactions of one run. Thread-safe.
class Tickets {
 public:
  explicit Tickets(const Pace& pace, TimePoint start = Clock::now());

  /// When the next transaction is due, from which its latency counts: in a closed loop now, in an
  /// open one the moment that it was meant to begin, which may be past. None: there are no more.
  /// Does not wait until then.
  std::optional<TimePoint> Take(TimePoint now = Clock::now());
  /// The same, but none where the next one is not due yet.
  std::optional<TimePoint> TakeIfDue(TimePoint now = Clock::now());

  /// Those of an open loop that were due and not handed out, because all workers were busy for as
  /// long again as the run was to last. Latencies are then too good: say so beside them.
  std::uint64_t Dropped() const;

 private:
  std::optional<TimePoint> Next(TimePoint now) const;

  const Pace pace_;
  const TimePoint start_;
  mutable std::mutex mutex_;
  std::uint64_t taken_ = 0;  // Guarded by mutex_.
};

/// What came of one run. Thread-safe.
class Recorder {
 public:
  /// `commit`: of that, what the call of Commit took, where there is one.
  void Committed(TimePoint due, std::optional<Clock::duration> commit = {});
  void Failed(const std::string& why);

  const Histogram& latency() const { return latency_; }
  const Histogram& commit() const { return commit_; }
  std::uint64_t committed() const { return latency_.count(); }
  std::uint64_t failed() const { return failed_.load(); }
  std::string FirstFailure() const;

 private:
  Histogram latency_;
  Histogram commit_;
  std::atomic<std::uint64_t> failed_{0};
  mutable std::mutex mutex_;
  std::string first_failure_;  // Guarded by mutex_.
};

}  // namespace lockstep::bench
