#include "bench/histogram.h"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

class HistogramTest : public ::testing::Test {
 protected:
  Histogram& h() { return *histogram_; }
  std::unique_ptr<Histogram> histogram_ = std::make_unique<Histogram>();
};

TEST_F(HistogramTest, IsEmptyAtFirst) {
  EXPECT_EQ(h().count(), 0u);
  EXPECT_EQ(h().Percentile(0.5), 0ns);
  EXPECT_EQ(h().Mean(), 0ns);
}

TEST_F(HistogramTest, KnowsSmallValuesExactly) {
  for (int value = 1; value <= 100; ++value) h().Record(std::chrono::nanoseconds(value));
  EXPECT_EQ(h().Percentile(0), 1ns);
  EXPECT_EQ(h().Percentile(0.5), 50ns);
  EXPECT_EQ(h().Percentile(0.99), 99ns);
  EXPECT_EQ(h().Percentile(1), 100ns);
  EXPECT_EQ(h().Mean(), 50ns);
}

TEST_F(HistogramTest, IsNeverTooLowAndAtMostOnePercentTooHigh) {
  for (std::int64_t value = 1; value < std::int64_t{1} << 61; value = value * 3 + 1) {
    Histogram one;
    one.Record(std::chrono::nanoseconds(value));
    one.Record(std::chrono::hours(2'000'000));  // Or the greatest would cap it.
    const auto told = one.Percentile(0.5).count();
    EXPECT_GE(told, value);
    EXPECT_LE(told - value, value / 100) << value;
  }
}

TEST_F(HistogramTest, NoPercentileIsAboveTheGreatest) {
  h().Record(1'000'001ns);
  EXPECT_EQ(h().Percentile(0.999), 1'000'001ns);
  EXPECT_EQ(h().max(), 1'000'001ns);
}

TEST_F(HistogramTest, ARareOneIsInTheHighPercentilesOnly) {
  for (int i = 0; i < 998; ++i) h().Record(1ms);
  for (int i = 0; i < 2; ++i) h().Record(1s);
  EXPECT_LT(h().Percentile(0.99), 1010us);
  EXPECT_EQ(h().Percentile(0.999), 1s);
}

TEST_F(HistogramTest, TakesTheExtremes) {
  h().Record(-5ns);
  h().Record(std::chrono::nanoseconds::max());
  EXPECT_EQ(h().Percentile(0.5), 0ns);
  EXPECT_EQ(h().Percentile(1), std::chrono::nanoseconds::max());
}

}  // namespace
}  // namespace lockstep::bench
