#pragma once

#include <cstdint>

#include "world.h"

namespace lockstep::sim {

/// Runs one seed. With a violation it runs again, with a trace.
Outcome RunSeed(std::uint64_t seed, Profile profile = Profile::kLong,
                Trace::Mode trace = Trace::Mode::kOff);

}  // namespace lockstep::sim
