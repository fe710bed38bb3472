#include "simulation.h"

namespace lockstep::sim {

Outcome RunSeed(std::uint64_t seed, Profile profile, Trace::Mode trace) {
  const SimOptions options = OptionsFor(seed, profile);
  Outcome outcome = World(options, trace).Run();
  if (outcome.violation.empty() || trace != Trace::Mode::kOff) return outcome;
  return World(options, Trace::Mode::kKeep).Run();
}

}  // namespace lockstep::sim
