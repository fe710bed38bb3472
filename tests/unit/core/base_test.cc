// Failpoints, and the form of transaction ids.

#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "base/failpoint.h"
#include "coordinator/txn_id.h"

namespace lockstep {
namespace {

class FailpointTest : public testing::Test {
 protected:
  void TearDown() override { DisarmFailpoints(); }
};

TEST_F(FailpointTest, UnarmedDoesNothing) { EXPECT_FALSE(FailpointHit(Failpoint::kLogBeforeSync)); }

TEST_F(FailpointTest, ErrorActsFromTheNamedHitOn) {
  ASSERT_TRUE(ArmFailpoint("log.before_sync=error#3").ok());
  EXPECT_FALSE(FailpointHit(Failpoint::kLogBeforeSync));
  EXPECT_FALSE(FailpointHit(Failpoint::kLogAfterSync));
  EXPECT_FALSE(FailpointHit(Failpoint::kLogBeforeSync));
  EXPECT_TRUE(FailpointHit(Failpoint::kLogBeforeSync));
  EXPECT_TRUE(FailpointHit(Failpoint::kLogBeforeSync));
  EXPECT_EQ(FailpointHits().at(0).second, 4u);
}

TEST_F(FailpointTest, ATagNarrowsIt) {
  ASSERT_TRUE(ArmFailpoint("lane.before_commit@b=error").ok());
  EXPECT_FALSE(FailpointHit(Failpoint::kLaneBeforeCommit, "a"));
  EXPECT_FALSE(FailpointHit(Failpoint::kLaneBeforeCommit));
  EXPECT_TRUE(FailpointHit(Failpoint::kLaneBeforeCommit, "b"));
}

TEST_F(FailpointTest, CrashIsAKillThatNothingSurvives) {
  EXPECT_EXIT(
      {
        if (ArmFailpoint("log.after_sync=crash").ok()) {
          (void)FailpointHit(Failpoint::kLogAfterSync);
        }
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FailpointTest, WhatIsWrongIsNamed) {
  for (const char* spec :
       {"log.before_sync", "no.such=crash", "log.before_sync=burn", "log.before_sync=delay:x",
        "log.before_sync=crash#0", "log.before_sync=crash#", "=crash", ""}) {
    const Status status = ArmFailpoint(spec);
    ASSERT_FALSE(status.ok()) << spec;
    EXPECT_NE(status.error().message.find("'" + std::string(spec) + "'"), std::string::npos);
  }
}

TEST(FailpointListTest, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const auto& info : AllFailpoints()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
}

TEST(TxnIdTest, ReadsBackWhatItWrote) {
  const coordinator::TxnIdParts parts{LogId("0123456789abcdef"), Incarnation(17),
                                      WallTime{1'767'225'600'123}, 4711};
  const GlobalTxnId id = FormatTxnId(parts);
  EXPECT_EQ(id.get(), "0123456789abcdef-11-19b76daa87b-1267");
  EXPECT_EQ(coordinator::ParseTxnId(id), parts);
}

TEST(TxnIdTest, CarriesItsOwner) {
  coordinator::TxnIdParts parts{LogId("0123456789abcdef"), Incarnation(17), WallTime{1}, 2};
  for (const std::string& owner : {std::string("a"), std::string("pay-ments.eu_1"),
                                   std::string("-"), std::string("1-2-3"), std::string(64, 'x')}) {
    parts.owner = owner;
    EXPECT_EQ(coordinator::ParseTxnId(FormatTxnId(parts)), parts) << owner;
  }
  parts.owner = std::string(65, 'x');
  EXPECT_FALSE(coordinator::ParseTxnId(FormatTxnId(parts)).has_value());
}

TEST(TxnIdTest, RefusesWhatNoLockstepGaveOut) {
  for (const char* text :
       {"", "x", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef-1-2",
        "0123456789abcdef-1-2-", "0123456789abcdef-1-2-3-", "0123456789abcdef-1-2-3-a b",
        "0123456789abcdef-1-2-3-a/b", "0123456789ABCDEF-1-2-3", "0123456789abcdef-01-2-3",
        "0123456789abcdef-0-2-3", "0123456789abcdef-1-2-3 ", "0123456789abcdef--2-3",
        "0123456789abcdef-1-2-11112222333344445", "123456789abcdef-1-2-3",
        "0123456789abcdef-1-+2-3"}) {
    EXPECT_FALSE(coordinator::ParseTxnId(GlobalTxnId(text)).has_value()) << text;
  }
}

}  // namespace
}  // namespace lockstep
