#include "bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::bench {

// Values below kPerPower have a bucket each; above, the highest kBits + 1 bits name the bucket.
std::size_t Histogram::BucketOf(std::uint64_t value) {
  if (value < kPerPower) return value;
  const int shift = std::bit_width(value) - 1 - kBits;
  return static_cast<std::size_t>(shift) * kPerPower + (value >> shift);
}

std::uint64_t Histogram::UpperEdge(std::size_t bucket) {
  if (bucket < kPerPower) return bucket;
  const std::size_t shift = bucket / kPerPower - 1;
  const std::uint64_t next = bucket - shift * kPerPower + 1;
  return (next << shift) - 1;
}

void Histogram::Record(Value value) {
  const std::int64_t ns = std::max<std::int64_t>(value.count(), 0);
  buckets_[BucketOf(static_cast<std::uint64_t>(ns))].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  std::int64_t known = max_.load(std::memory_order_relaxed);
  while (ns > known && !max_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

Histogram::Value Histogram::Mean() const {
  const std::uint64_t n = count();
  return Value(n == 0 ? 0 : static_cast<std::int64_t>(sum_.load(std::memory_order_relaxed) / n));
}

Histogram::Value Histogram::Percentile(double part) const {
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count()))));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket].load(std::memory_order_relaxed);
    if (seen < wanted) continue;
    return std::min(Value(static_cast<std::int64_t>(UpperEdge(bucket))), max());
  }
  return max();
}

}  // namespace lockstep::bench
