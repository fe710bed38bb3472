#include "base/histogram.h"

#include <gmock/gmock.h>

#include <array>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(Histogram, PutsEachValueIntoTheFirstBucketThatHoldsIt) {
  static constexpr std::array kBounds = {0.5, 1.0, 2.0};
  Histogram histogram(kBounds);
  for (const double value : {0.0, 0.5, 0.75, 2.0, 2.5, 100.0}) histogram.Add(value);
  EXPECT_THAT(histogram.counts(), ElementsAre(2, 1, 1, 2));
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 105.75);
}

TEST(Histogram, TakesTimesAsSecondsAndNoneBelowZero) {
  static constexpr std::array kBounds = {0.0, 0.25};
  Histogram histogram(kBounds);
  histogram.Add(milliseconds(250));
  histogram.Add(milliseconds(-250));
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1, 0));
  EXPECT_DOUBLE_EQ(histogram.sum(), 0.25);
}

TEST(Histogram, TheBoundsOfTimesRise) { EXPECT_TRUE(std::ranges::is_sorted(kSecondsBounds)); }

}  // namespace
}  // namespace lockstep
