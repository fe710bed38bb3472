#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

using Duration = std::chrono::nanoseconds;

/// A clock that never steps back and goes on while the machine sleeps (CLOCK_BOOTTIME), because a
/// broker's transaction timeout goes on too. Comparable only within one process.
struct MonoClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonoClock>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming)
};
using MonoTime = MonoClock::time_point;

/// Milliseconds since the Unix epoch, as Kafka and our log write them. It may step: never compare
/// it to decide a promise.
struct WallTime {
  std::int64_t ms = 0;
  friend auto operator<=>(const WallTime&, const WallTime&) = default;
};

}  // namespace lockstep
