// That each planted bug is noticed by the layer that must notice it. docs/robustness.md has the
// table.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "catchers.h"

namespace lockstep::planted {

void PrintTo(const Catcher& catcher, std::ostream* out) { *out << TestName(catcher); }

namespace {

class PlantedBugTest : public ::testing::TestWithParam<Catcher> {};

TEST_P(PlantedBugTest, IsCaught) { ExpectCaught(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Each, PlantedBugTest, ::testing::ValuesIn(AllCatchers()),
                         [](const auto& each) { return TestName(each.param); });

TEST(PlantedBugs, EachHasACatcherOfItsLayerAndARowInTheTable) {
  const std::string table = ReadSource("docs/robustness.md");
  for (const PlantedBugInfo& info : AllPlantedBugs()) {
    const bool caught = std::ranges::any_of(AllCatchers(), [&](const Catcher& catcher) {
      return catcher.bug == info.bug && catcher.layer == info.layer;
    });
    EXPECT_TRUE(caught) << info.name << " has no catcher in the layer " << Name(info.layer);
    EXPECT_NE(table.find("| `" + std::string(info.name) + "` |"), std::string::npos)
        << "docs/robustness.md has no row for " << info.name;
  }
}

TEST(PlantedBugs, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const PlantedBugInfo& info : AllPlantedBugs()) EXPECT_TRUE(names.insert(info.name).second);
}

}  // namespace
}  // namespace lockstep::planted
