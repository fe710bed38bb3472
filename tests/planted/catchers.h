#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/planted.h"

namespace lockstep::planted {

/// A test that must fail while a bug is in force.
struct Catcher {
  PlantedBug bug;
  Layer layer;
  /// kSimulation: the profile. kUnit: a test program, relative to the build's tests/.
  /// kFuzzing: a target of scripts/fuzz. kModel: the switch of tests/model/cases.py that leaves the
  /// same rule out. kTorture: kinds of faults.
  std::string_view where;
  std::string_view test = {};  ///< kUnit: the test, as for --gtest_filter.
};

/// At least one for each bug, of its layer; more where another layer notices it too.
const std::vector<Catcher>& AllCatchers();

const PlantedBugInfo& InfoOf(PlantedBug bug);
/// For GoogleTest: letters and digits.
std::string TestName(const Catcher& catcher);

/// Runs the catcher's test with the bug in force, and fails unless it fails because of it.
void ExpectCaught(const Catcher& catcher);

/// Of a file of the source tree.
std::string ReadSource(const std::string& path);

}  // namespace lockstep::planted
