#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace lockstep::sim {

/// The one source of chance. The same seed gives the same numbers on every machine, which the
/// standard library's distributions do not promise. SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  /// From 0 to n - 1; n > 0.
  std::uint64_t Below(std::uint64_t n) { return Next() % n; }
  /// Both ends included.
  int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11U) < probability * static_cast<double>(1ULL << 53U);
  }
  Duration Between(Duration low, Duration high) {
    return low + Duration(static_cast<std::int64_t>(
                     Below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::sim
