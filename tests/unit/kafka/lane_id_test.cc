#include "kafka/lane_id.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

const LogId kLog("0123456789abcdef");

TEST(LaneIdTest, FormatsAndParsesBack) {
  for (const char* cluster : {"a", "eu-west-1", "7", "-", "x-"}) {
    const LaneId lane{kLog, Incarnation(12), ClusterName(cluster), 3};
    const auto parsed = ParseLaneId(Format(lane));
    ASSERT_TRUE(parsed.has_value()) << cluster;
    EXPECT_EQ(*parsed, lane) << cluster;
  }
  EXPECT_EQ(Format({kLog, Incarnation(12), ClusterName("eu-west"), 3}).get(),
            "lockstep-0123456789abcdef-12-eu-west-3");
}

TEST(LaneIdTest, StartsWithItsLogsPrefix) {
  const LaneId lane{kLog, Incarnation(1), ClusterName("a"), 0};
  EXPECT_EQ(Format(lane).get().rfind(LanePrefix(kLog), 0), 0u);
}

TEST(LaneIdTest, RefusesWhatIsNotALaneId) {
  for (const char* text : {"", "lockstep-", "orders-producer", "lockstep-0123456789abcdef",
                           "lockstep-0123456789abcdef-", "lockstep-0123456789abcdef-1",
                           "lockstep-0123456789abcdef-1-0", "lockstep-0123456789abcdef-x-a-0",
                           "lockstep-0123456789abcdef-1-a-x", "lockstep-0123456789abcdef-1-a-",
                           "lockstep-0123456789abcdef-99999999999999999999-a-0",
                           "lockstep-0123456789abcde-1-a-0", "Lockstep-0123456789abcdef-1-a-0"}) {
    EXPECT_FALSE(ParseLaneId(TransactionalId(text)).has_value()) << text;
  }
}

}  // namespace
}  // namespace lockstep::kafka
