#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/options.h"

namespace lockstep::bench {

/// Runs all modes in turn, for all rounds, and returns the report (docs/design/performance.md).
/// Tells its progress on stderr. Blocks for as long as the options say. Throws std::runtime_error,
/// for people, where the run cannot begin.
nlohmann::json RunBench(const Options& options);

/// Whether every transaction of every mode committed, and every one that was due was begun.
bool AllWell(const nlohmann::json& report);

}  // namespace lockstep::bench
