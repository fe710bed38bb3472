#include "bench/load.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

const TimePoint kStart{};

TEST(TicketsTest, AClosedLoopIsDueNowUntilItsTimeHasPassed) {
  Tickets tickets({.length = 5s}, kStart);
  EXPECT_EQ(tickets.Take(kStart + 1s), kStart + 1s);
  EXPECT_EQ(tickets.Take(kStart + 4s), kStart + 4s);
  EXPECT_EQ(tickets.Take(kStart + 5s), std::nullopt);
  EXPECT_EQ(tickets.Dropped(), 0u);
}

TEST(TicketsTest, ACountEndsItEarlier) {
  Tickets tickets({.length = 5s, .count = 2}, kStart);
  EXPECT_TRUE(tickets.Take(kStart));
  EXPECT_TRUE(tickets.Take(kStart));
  EXPECT_FALSE(tickets.Take(kStart));
}

TEST(TicketsTest, AnOpenLoopKeepsItsMomentsHoweverLateItIsAsked) {
  Tickets tickets({.per_second = 10, .length = 5s}, kStart);
  EXPECT_EQ(tickets.Take(kStart), kStart);
  EXPECT_EQ(tickets.Take(kStart), kStart + 100ms);
  EXPECT_EQ(tickets.Take(kStart + 3s), kStart + 200ms);
}

TEST(TicketsTest, AnOpenLoopHandsOutAllThatWereMeant) {
  Tickets tickets({.per_second = 10, .length = 5s}, kStart);
  int taken = 0;
  while (tickets.Take(kStart)) ++taken;
  EXPECT_EQ(taken, 50);
  EXPECT_EQ(tickets.Dropped(), 0u);
}

TEST(TicketsTest, AnOpenLoopThatIsOverwhelmedEndsAndSaysSo) {
  Tickets tickets({.per_second = 10, .length = 5s}, kStart);
  EXPECT_TRUE(tickets.Take(kStart + 9s));
  EXPECT_FALSE(tickets.Take(kStart + 10s));
  EXPECT_EQ(tickets.Dropped(), 49u);
}

TEST(TicketsTest, WhatIsNotDueYetIsLeft) {
  Tickets tickets({.per_second = 10, .length = 5s}, kStart);
  EXPECT_EQ(tickets.TakeIfDue(kStart), kStart);
  EXPECT_EQ(tickets.TakeIfDue(kStart + 99ms), std::nullopt);
  EXPECT_EQ(tickets.TakeIfDue(kStart + 100ms), kStart + 100ms);
}

TEST(RecorderTest, LatencyCountsFromWhenItWasDue) {
  Recorder recorder;
  recorder.Committed(Clock::now() - 10s, 1ms);
  EXPECT_EQ(recorder.committed(), 1u);
  EXPECT_GE(recorder.latency().max(), 10s);
  EXPECT_EQ(recorder.commit().max(), 1ms);
}

TEST(RecorderTest, KeepsTheFirstFailure) {
  Recorder recorder;
  recorder.Failed("this");
  recorder.Failed("that");
  EXPECT_EQ(recorder.failed(), 2u);
  EXPECT_EQ(recorder.FirstFailure(), "this");
  EXPECT_EQ(recorder.committed(), 0u);
}

}  // namespace
}  // namespace lockstep::bench
