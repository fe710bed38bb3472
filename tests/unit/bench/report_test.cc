#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

namespace lockstep::bench {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json Figures(double rate, double p50) {
  return {{"transactions_per_second", rate}, {"latency_us", {{"p50", p50}}}};
}

TEST(ReportTest, LatenciesAreInMicroseconds) {
  const auto histogram = std::make_unique<Histogram>();
  histogram->Record(std::chrono::milliseconds(2));
  const json told = Latencies(*histogram);
  for (const char* name : {"p50", "p90", "p99", "p999", "max", "mean"}) {
    EXPECT_EQ(told[name], 2000.0) << name;
  }
}

TEST(ReportTest, SummaryIsMinimumMedianAndMaximumOverTheRounds) {
  const json rounds = {{"plain", {Figures(5, 1), Figures(1, 2), Figures(3, 3)}}};
  const json summary = Summarise(rounds);
  EXPECT_EQ(summary["plain"]["transactions_per_second"],
            json({{"min", 1.0}, {"median", 3.0}, {"max", 5.0}}));
  EXPECT_EQ(summary["plain"]["latency_us/p50"]["median"], 2.0);
}

TEST(ReportTest, TheMedianOfTwoRoundsLiesBetweenThem) {
  const json summary = Summarise({{"plain", {Figures(1, 1), Figures(3, 1)}}});
  EXPECT_EQ(summary["plain"]["transactions_per_second"]["median"], 2.0);
}

TEST(ReportTest, RatiosAreOfTheSameRound) {
  // The machine was half as fast in the second round: that is no difference between the modes.
  const json ratios = Ratios(
      {{"plain", {Figures(10, 4), Figures(5, 8)}}, {"execute", {Figures(30, 2), Figures(15, 4)}}});
  EXPECT_EQ(ratios["execute"]["transactions_per_second"],
            json({{"min", 3.0}, {"median", 3.0}, {"max", 3.0}}));
  EXPECT_EQ(ratios["execute"]["latency_us/p50"]["max"], 0.5);
  EXPECT_FALSE(ratios.contains("plain"));
}

TEST(ReportTest, CommitIsComparedToAWholePlainTransaction) {
  json managed = Figures(1, 9);
  managed["commit_us"] = {{"p50", 6}};
  const json ratios = Ratios({{"plain", {Figures(1, 4)}}, {"managed", {managed}}});
  EXPECT_EQ(ratios["managed"]["commit_us/p50"]["median"], 1.5);
}

TEST(ReportTest, WithoutItsBaseAModeHasNoRatio) {
  EXPECT_TRUE(Ratios({{"plain", {Figures(1, 1)}}, {"large", {Figures(1, 1)}}}).empty());
}

TEST(ReportTest, TheTableTellsWhatThereIs) {
  json report = {{"options", {{"modes", {"plain", "execute"}}}}};
  report["rounds"] = {{"plain", {Figures(10, 4000)}}, {"execute", {Figures(30, 2000)}}};
  report["rounds"]["execute"][0]["cpu_us"] = {{"lockstepd", 77}};
  report["rounds"]["execute"][0]["failed"] = 2;
  report["summary"] = Summarise(report["rounds"]);
  report["ratios"] = Ratios(report["rounds"]);
  const std::string table = Table(report);
  EXPECT_THAT(table, HasSubstr("CPU a transaction, lockstepd"));
  EXPECT_THAT(table, HasSubstr("transactions, to plain"));
  EXPECT_THAT(table, HasSubstr("FAILED"));
  EXPECT_THAT(table, Not(HasSubstr("DROPPED")));
}

}  // namespace
}  // namespace lockstep::bench
