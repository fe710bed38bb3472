// That the simulation can fail: each planted bug is caught, within a number of seeds that a nightly
// sweep exceeds by far. And that a seed is all it takes to see a run again.

#include <gtest/gtest.h>

#include <string>

#include "simulation.h"

namespace lockstep::sim {

void PrintTo(const DefectInfo& info, std::ostream* out) { *out << info.name; }

namespace {

constexpr std::uint64_t kSeeds = 1'000;

class PlantedBug : public ::testing::TestWithParam<DefectInfo> {};

TEST_P(PlantedBug, IsCaught) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string violation = RunSeed(seed, GetParam().defect).violation;
    if (violation.empty()) continue;
    std::printf("%s: caught at seed %llu: %s\n", GetParam().name.data(),
                static_cast<unsigned long long>(seed), violation.c_str());
    return;
  }
  FAIL() << GetParam().what << ": not caught within " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedBug, ::testing::ValuesIn(AllDefects()), [](const auto& each) {
  std::string name(each.param.name);
  std::erase(name, '-');
  return name;
});

TEST(Simulation, SameSeedSameRun) {
  const SimOptions options = OptionsFor(7, Defect::kNone);
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
    const Outcome outcome = RunSeed(seed, Defect::kNone);
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
    const Outcome outcome = RunSeed(seed, Defect::kNone, Profile::kCrowd);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    counts += outcome.counts;
  }
  EXPECT_GT(counts.decided, 200u);
  EXPECT_GE(10 * counts.shared, counts.decided);
}

TEST(Simulation, RecoveriesAreCrashed) {
  std::uint64_t crashes_in_recovery = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = RunSeed(seed, Defect::kNone, Profile::kShort);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    crashes_in_recovery += outcome.crashes_in_recovery;
  }
  EXPECT_GT(crashes_in_recovery, 5u);
}

}  // namespace
}  // namespace lockstep::sim
