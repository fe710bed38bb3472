#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

/// Durations and sizes as people read and write them, in the configuration and in messages: one
/// number, one unit, always a unit. All pure.
namespace lockstep {

/// "500ms", "30s", "15m", "2h", "7d". Error: kInvalidArgument saying what is allowed.
Result<Duration> ParseDuration(std::string_view text);
/// "512B", "64KiB", "16MiB", "1GiB". Error: kInvalidArgument saying what is allowed.
Result<std::uint64_t> ParseSize(std::string_view text);

/// The shortest text that parses to the same value; less than a unit is cut off.
std::string FormatDuration(Duration duration);
std::string FormatSize(std::uint64_t bytes);

}  // namespace lockstep
