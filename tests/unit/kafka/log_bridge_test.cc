#include "kafka/log_bridge.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

TEST(LineLimiterTest, LetsAFewThroughInEachIntervalAndCountsTheRest) {
  LineLimiter limiter(2, std::chrono::seconds(10));
  LineLimiter::Clock::time_point now{std::chrono::hours(1)};
  std::uint64_t dropped = 99;
  EXPECT_TRUE(limiter.Allow(now, dropped));
  EXPECT_EQ(dropped, 0u);
  EXPECT_TRUE(limiter.Allow(now + std::chrono::seconds(1), dropped));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limiter.Allow(now + std::chrono::seconds(9), dropped));
  EXPECT_TRUE(limiter.Allow(now + std::chrono::seconds(10), dropped));
  EXPECT_EQ(dropped, 5u);
  EXPECT_TRUE(limiter.Allow(now + std::chrono::seconds(10), dropped));
  EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace lockstep::kafka
