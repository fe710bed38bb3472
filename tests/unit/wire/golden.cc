#include "golden.h"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

namespace lockstep::wire {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<GoldenFrame> Load() {
  std::ifstream file(LOCKSTEP_GOLDEN_FRAMES);
  if (!file) throw std::runtime_error("cannot read " LOCKSTEP_GOLDEN_FRAMES);
  std::vector<GoldenFrame> frames;
  std::string name;
  std::string hex;
  for (std::int16_t version = 0; file >> name >> version >> hex;) {
    frames.push_back({name, version, FromHex(hex)});
  }
  return frames;
}

}  // namespace

const std::vector<GoldenFrame>& GoldenFrames() {
  static const std::vector<GoldenFrame> frames = Load();
  return frames;
}

std::string Golden(const std::string& name, std::int16_t version) {
  for (const GoldenFrame& frame : GoldenFrames()) {
    if (frame.name == name && frame.version == version) return frame.bytes;
  }
  throw std::runtime_error("no golden frame " + name + " " + std::to_string(version));
}

}  // namespace lockstep::wire
