#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// Largest first: what Format tries.
constexpr std::array<Unit, 5> kDurationUnits = {{
    {"d", 86'400'000'000'000},
    {"h", 3'600'000'000'000},
    {"m", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
}};
constexpr std::array<Unit, 4> kSizeUnits = {{
    {"GiB", 1u << 30},
    {"MiB", 1u << 20},
    {"KiB", 1u << 10},
    {"B", 1},
}};

template <std::size_t N>
Result<std::uint64_t> Parse(std::string_view text, const std::array<Unit, N>& units,
                            std::string_view expected) {
  const Error bad = MakeError(Code::kInvalidArgument, "expected " + std::string(expected) +
                                                          ", got '" + std::string(text) + "'");
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return bad;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& candidate) { return candidate.name == text; });
  if (unit == units.end()) return bad;
  // Both kinds end up in signed 64 bits.
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (number > kMax / unit->factor) return bad;
  return number * unit->factor;
}

template <std::size_t N>
std::string Format(std::uint64_t value, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (value % unit.factor == 0 && (value != 0 || unit.factor == units.back().factor)) {
      return std::to_string(value / unit.factor).append(unit.name);
    }
  }
  return std::to_string(value / units.back().factor).append(units.back().name);
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  auto nanos = Parse(text, kDurationUnits, "a duration such as 500ms, 30s, 15m, 2h or 7d");
  if (!nanos) return nanos.error();
  return Duration(static_cast<std::int64_t>(*nanos));
}

Result<std::uint64_t> ParseSize(std::string_view text) {
  return Parse(text, kSizeUnits, "a size such as 512B, 64KiB, 16MiB or 1GiB");
}

std::string FormatDuration(Duration duration) {
  if (duration < Duration::zero()) return "-" + FormatDuration(-duration);
  return Format(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string FormatSize(std::uint64_t bytes) { return Format(bytes, kSizeUnits); }

}  // namespace lockstep
