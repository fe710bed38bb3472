#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep {

/// Counts values by size. Plain numbers: one thread at a time. A value takes some ten nanoseconds.
class Histogram {
 public:
  /// `bounds` rise, and last for ever: one bucket for what is at most each, and one above.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Add(double value) {
    const auto bound = std::ranges::lower_bound(bounds_, value);
    ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
    ++count_;
    sum_ += value;
  }
  /// In seconds. What is negative counts as nothing.
  void Add(Duration time) {
    Add(std::chrono::duration<double>(std::max(time, Duration::zero())).count());
  }

  std::span<const double> bounds() const { return bounds_; }
  /// How many fell into each bucket, and into none above: one more than there are bounds.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// From what a sync of a fast disk takes to what an operator is woken for, in seconds.
inline constexpr std::array kSecondsBounds = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                              0.025,   0.05,   0.1,   0.25,   0.5,   1.0,
                                              2.5,     5.0,    10.0,  30.0,   60.0,  300.0};

}  // namespace lockstep
