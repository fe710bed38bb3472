#include "base/planted.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace lockstep {

std::string_view Name(Layer layer) {
  switch (layer) {
    case Layer::kModel:
      return "model";
    case Layer::kSimulation:
      return "simulation";
    case Layer::kFuzzing:
      return "fuzzing";
    case Layer::kUnit:
      return "unit";
    case Layer::kTorture:
      return "torture";
  }
  std::abort();
}

const std::vector<PlantedBugInfo>& AllPlantedBugs() {
  static const std::vector<PlantedBugInfo> all = {
#define LOCKSTEP_X(constant, name, layer, what) {PlantedBug::constant, name, Layer::layer, what},
      LOCKSTEP_PLANTED_BUGS(LOCKSTEP_X)
#undef LOCKSTEP_X
  };
  return all;
}

#ifdef LOCKSTEP_PLANT

namespace {

constexpr const char* kVariable = "LOCKSTEP_PLANTED_BUG";

PlantedBug FromEnvironment() {
  const char* const wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') return PlantedBug::kNone;
  for (const PlantedBugInfo& info : AllPlantedBugs()) {
    if (info.name != wanted) continue;
    std::fprintf(stderr, "PLANTED BUG %s: %s\n", wanted, info.what.data());
    return info.bug;
  }
  std::fprintf(stderr, "%s=%s: there is no such bug; src/base/planted.h names them\n", kVariable,
               wanted);
  std::_Exit(2);
}

std::atomic<PlantedBug>& InForce() {
  static std::atomic<PlantedBug> in_force = FromEnvironment();
  return in_force;
}

}  // namespace

PlantedBug PlantedBugInForce() { return InForce().load(std::memory_order_relaxed); }

void Plant(PlantedBug bug) { InForce() = bug; }

#endif

}  // namespace lockstep
