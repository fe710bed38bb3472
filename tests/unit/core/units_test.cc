#include "base/units.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Units, DurationsParse) {
  EXPECT_EQ(*ParseDuration("500ms"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("30s"), seconds(30));
  EXPECT_EQ(*ParseDuration("15m"), minutes(15));
  EXPECT_EQ(*ParseDuration("2h"), hours(2));
  EXPECT_EQ(*ParseDuration("7d"), hours(7 * 24));
  EXPECT_EQ(*ParseDuration("0s"), seconds(0));
}

TEST(Units, SizesParse) {
  EXPECT_EQ(*ParseSize("512B"), 512u);
  EXPECT_EQ(*ParseSize("64KiB"), 65536u);
  EXPECT_EQ(*ParseSize("16MiB"), 16u << 20);
  EXPECT_EQ(*ParseSize("1GiB"), 1u << 30);
}

TEST(Units, WhatIsNotOneNumberWithAUnitIsRefusedAndSaysWhatIs) {
  for (const char* text : {"", "15", "m", "1.5s", "-1s", "+1s", " 1s", "1 s", "1s ", "1S", "1m30s",
                           "99999999999999999999s", "9223372036854775807s"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_NE(duration.error().message.find("500ms"), std::string::npos);
  }
  for (const char* text : {"", "64", "MiB", "64MB", "64mb", "64 MiB", "-1B", "9999999999999GiB"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.error().message.find("16MiB"), std::string::npos);
  }
}

TEST(Units, FormattedValuesParseToThemselves) {
  for (const Duration duration : {Duration(0), Duration(milliseconds(1)), Duration(seconds(90)),
                                  Duration(minutes(15)), Duration(hours(48))}) {
    EXPECT_EQ(*ParseDuration(FormatDuration(duration)), duration);
  }
  EXPECT_EQ(FormatDuration(minutes(15)), "15m");
  EXPECT_EQ(FormatDuration(-seconds(3)), "-3s");
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{65536}, std::uint64_t{1} << 40}) {
    EXPECT_EQ(*ParseSize(FormatSize(size)), size);
  }
  EXPECT_EQ(FormatSize(16u << 20), "16MiB");
}

}  // namespace
}  // namespace lockstep
