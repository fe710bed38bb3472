#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::wire {

/// A message as Kafka's own serialisers wrote it; see golden/README.md.
struct GoldenFrame {
  std::string name;
  std::int16_t version = 0;
  std::string bytes;
};
const std::vector<GoldenFrame>& GoldenFrames();
/// The bytes of one; a test that asks for one that is not there fails.
std::string Golden(const std::string& name, std::int16_t version);

}  // namespace lockstep::wire
