#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lockstep::bench {

/// Durations in buckets whose width grows with them: 128 for each power of two, so a value is known
/// to within 0.8 %, from a nanosecond to centuries, in a fixed 60 KiB. Thread-safe, without a lock.
class Histogram {
 public:
  using Value = std::chrono::nanoseconds;

  /// Less than zero counts as zero.
  void Record(Value value);

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  Value max() const { return Value(max_.load(std::memory_order_relaxed)); }
  Value Mean() const;
  /// The least value that so large a part (0 to 1) of all do not exceed: the upper edge of its
  /// bucket, at most max(). Zero if there are none.
  Value Percentile(double part) const;

 private:
  static constexpr int kBits = 7;
  static constexpr std::size_t kPerPower = 1U << kBits;
  static constexpr std::size_t kBuckets = (64 - kBits) * kPerPower;

  static std::size_t BucketOf(std::uint64_t value);
  static std::uint64_t UpperEdge(std::size_t bucket);

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<std::int64_t> max_{0};
};

}  // namespace lockstep::bench
