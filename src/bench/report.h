#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/load.h"
#include "bench/options.h"

/// What a run tells. The JSON is described in docs/design/performance.md; a change of meaning
/// raises its `schema`.
namespace lockstep::bench {

inline constexpr int kSchema = 1;

/// "latency_us" and the like: p50, p90, p99, p999, max, mean.
nlohmann::json Latencies(const Histogram& histogram);

/// Of the rounds of each mode ({mode: [figures, ...]}): minimum, median and maximum of each number,
/// {mode: {"latency_us/p50": {"min": ...}}}.
nlohmann::json Summarise(const nlohmann::json& rounds);

/// The same of each number of a round divided by its base's (BaseOf) of that round; modes without
/// one in the run are left out.
nlohmann::json Ratios(const nlohmann::json& rounds);

/// For people: a row a figure.
std::string Table(const nlohmann::json& report);

}  // namespace lockstep::bench
