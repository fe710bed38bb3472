#include "check/finding.h"

#include <algorithm>

namespace lockstep::check {

std::string_view Name(Level level) {
  switch (level) {
    case Level::kGreen:
      return "green";
    case Level::kYellow:
      return "yellow";
    case Level::kRed:
      return "red";
  }
  return "?";
}

Level Worst(const std::vector<Section>& sections) {
  Level worst = Level::kGreen;
  for (const Section& section : sections) {
    for (const Finding& finding : section.findings) worst = std::max(worst, finding.level);
  }
  return worst;
}

}  // namespace lockstep::check
