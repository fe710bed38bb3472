#include "kafka/resolution_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using txn::MarkerFound;
using Kind = wire::MarkerAnswer::Kind;

const std::vector<txn::Evidence> kEvidence = {{{"orders", 0}, 10}, {{"orders", 1}, 20}};
const Error kAway = MakeError(Code::kUnavailable, "no broker leads it");

wire::MarkerAnswer Answer(Kind kind) { return {.kind = kind, .offset = -1, .producer_epoch = {}}; }

TEST(MarkersFound, OneMarkerTellsThemAllAndWithoutOneEachMustBeAsked) {
  EXPECT_THAT(*MarkersFound({Answer(Kind::kCommit), Answer(Kind::kNone)}),
              ElementsAre(MarkerFound::kCommit, MarkerFound::kNone));
  EXPECT_THAT(*MarkersFound({kAway, Answer(Kind::kAbort)}),
              ElementsAre(MarkerFound::kNone, MarkerFound::kAbort));
  EXPECT_THAT(*MarkersFound({Answer(Kind::kOffsetOutOfRange), Answer(Kind::kNone)}),
              ElementsAre(MarkerFound::kNone, MarkerFound::kNone));
  EXPECT_EQ(MarkersFound({kAway, Answer(Kind::kNone)}).error().message, kAway.message);
}

TEST(MarkersMissing, IsWhatWasAskedAndHasNone) {
  EXPECT_THAT(*MarkersMissing(kEvidence, {Answer(Kind::kCommit), Answer(Kind::kCommit)}),
              IsEmpty());
  EXPECT_THAT(*MarkersMissing(kEvidence, {Answer(Kind::kCommit), Answer(Kind::kNone)}),
              ElementsAre(kEvidence[1].partition));
  EXPECT_THAT(*MarkersMissing(kEvidence, {kAway, Answer(Kind::kNone)}),
              ElementsAre(kEvidence[1].partition));
}

// Its marker may well be there: to call it lost would send an operator after it.
TEST(MarkersMissing, APartitionThatCouldNotBeAskedIsNotMissingButAnError) {
  const auto missing = MarkersMissing(kEvidence, {Answer(Kind::kCommit), kAway});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_THAT(missing.error().message, HasSubstr(ToString(kEvidence[1].partition)));
  EXPECT_THAT(missing.error().message, HasSubstr(kAway.message));
}

}  // namespace
}  // namespace lockstep::kafka
