#include "server/heap_trimmer.h"

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

constexpr std::size_t kMiB = 1u << 20;

TEST(HeapTrimmerTest, APeakHasPassedOnceMuchIsFreedAndNothingMore) {
  HeapTrimmer trimmer;
  EXPECT_FALSE(trimmer.PeakHasPassed(20 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(100 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(80 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(60 * kMiB));
  EXPECT_TRUE(trimmer.PeakHasPassed(60 * kMiB));
}

TEST(HeapTrimmerTest, EachFallCountsOnce) {
  HeapTrimmer trimmer;
  for (const std::size_t mib : {100, 50}) EXPECT_FALSE(trimmer.PeakHasPassed(mib * kMiB));
  EXPECT_TRUE(trimmer.PeakHasPassed(50 * kMiB));
  for (const std::size_t mib : {50, 43, 43, 40}) {
    EXPECT_FALSE(trimmer.PeakHasPassed(mib * kMiB));
  }
  EXPECT_TRUE(trimmer.PeakHasPassed(40 * kMiB));
}

}  // namespace
}  // namespace lockstep::server
