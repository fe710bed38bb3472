#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What lockstepd would meet, looked at from its configuration file: before its first start, or
/// when something is wrong.
namespace lockstep::check {

enum class Level : std::uint8_t {
  kGreen,
  kYellow,  ///< It works, with less than is promised, or it could not be looked at.
  kRed,     ///< It does not work.
};
std::string_view Name(Level level);  ///< "green".

struct Finding {
  Level level = Level::kGreen;
  std::string what;   ///< "Kafka version".
  std::string found;  ///< In words; of green ones the value.
  std::string fix;    ///< What to do, or a command to paste. Empty if green.
};

/// A cluster, or the machine.
struct Section {
  std::string name;
  std::vector<Finding> findings;
};

/// The worst of all.
Level Worst(const std::vector<Section>& sections);

}  // namespace lockstep::check
