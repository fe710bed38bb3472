// That a seed is all it takes to see a run again, and that runs meet what they are for. That they
// can fail: tests/planted.

#include <gtest/gtest.h>

#include "simulation.h"

namespace lockstep::sim {

namespace {

TEST(Simulation, SameSeedSameRun) {
  const SimOptions options = OptionsFor(7);
  const Outcome first = World(options, Trace::Mode::kKeep).Run();
  const Outcome again = World(options, Trace::Mode::kKeep).Run();
  EXPECT_EQ(first.violation, "");
  EXPECT_EQ(first.steps, again.steps);
  EXPECT_EQ(first.trace, again.trace);
}

/// A sweep in which nothing ever happens would pass too.
TEST(Simulation, MeetsWhatItIsFor) {
  Oracle::Counts counts;
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Outcome outcome = RunSeed(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    counts += outcome.counts;
    crashes += outcome.crashes;
  }
  EXPECT_GT(counts.committed, 100u);
  EXPECT_GT(counts.begun, counts.committed + 100);
  EXPECT_GT(counts.heuristic, 0u);
  EXPECT_GT(crashes, 100u);
  EXPECT_GT(counts.keys, 50u);
  EXPECT_GT(counts.run_again, 20u);
  EXPECT_GT(counts.answered_by_earlier_run, 20u);
  EXPECT_GT(counts.enlisted_committed, 20u);
  EXPECT_GT(counts.enlisted_aborted, 20u);
  EXPECT_GT(counts.shared, 30u);
}

TEST(Simulation, ACrowdSharesBatches) {
  Oracle::Counts counts;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Outcome outcome = RunSeed(seed, Profile::kCrowd);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    counts += outcome.counts;
  }
  EXPECT_GT(counts.decided, 200u);
  EXPECT_GE(10 * counts.shared, counts.decided);
}

TEST(Simulation, RecoveriesAreCrashed) {
  std::uint64_t crashes_in_recovery = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = RunSeed(seed, Profile::kShort);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    crashes_in_recovery += outcome.crashes_in_recovery;
  }
  EXPECT_GT(crashes_in_recovery, 5u);
}

}  // namespace
}  // namespace lockstep::sim
