#include "server/heap_trimmer.h"

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

constexpr std::size_t kMiB = 1u << 20;

TEST(HeapTrimmerTest, APeakHasPassedOnceMuchIsFreed) {
  HeapTrimmer trimmer;
  EXPECT_FALSE(trimmer.PeakHasPassed(20 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(100 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(93 * kMiB));
  EXPECT_TRUE(trimmer.PeakHasPassed(90 * kMiB));
}

TEST(HeapTrimmerTest, EachFallCountsOnce) {
  HeapTrimmer trimmer;
  EXPECT_FALSE(trimmer.PeakHasPassed(100 * kMiB));
  EXPECT_TRUE(trimmer.PeakHasPassed(50 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(50 * kMiB));
  EXPECT_FALSE(trimmer.PeakHasPassed(43 * kMiB));
  EXPECT_TRUE(trimmer.PeakHasPassed(40 * kMiB));
}

}  // namespace
}  // namespace lockstep::server
