#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "catchers.h"

namespace lockstep::planted {
namespace {

struct Ended {
  int exit_code = -1;  ///< -1: by a signal.
  std::string output;
};

Ended RunWith(std::string_view bug, const std::string& command) {
  const std::string line = "LOCKSTEP_PLANTED_BUG=" + std::string(bug) + " " + command + " 2>&1";
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) std::abort();
  Ended ended;
  char piece[4096];
  while (const std::size_t size = std::fread(piece, 1, sizeof piece, pipe)) {
    ended.output.append(piece, size);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

std::string Program(std::string_view relative) {
  return "'" + std::string(BUILD_DIR) + "/tests/" + std::string(relative) + "'";
}

std::string LineWith(const std::string& output, std::string_view text) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(text)) return line;
  }
  return {};
}

/// With a sanitizer it would take a quarter of an hour: scripts/test names an optimised one.
std::string Simulation() {
  const char* named = std::getenv("LOCKSTEP_SIMULATION");
  return named == nullptr ? Program("sim/simulation") : "'" + std::string(named) + "'";
}

/// The first thousand seeds are what each bug is allowed: CI and the long runs have many more.
void ExpectCaughtBySeed(const Catcher& catcher) {
  const Ended ended =
      RunWith(InfoOf(catcher.bug).name,
              Simulation() + " --seeds 1..1000 --profile " + std::string(catcher.where));
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  const std::string seed = LineWith(ended.output, "seed ");
  EXPECT_NE(seed, "") << ended.output;
  std::printf("  %s: %s\n", std::string(InfoOf(catcher.bug).name).c_str(), seed.c_str());
}

/// It must be that very test that fails: a filter that fits nothing passes.
void ExpectCaughtByTest(const Catcher& catcher) {
  const Ended ended =
      RunWith(InfoOf(catcher.bug).name,
              Program(catcher.where) + " --gtest_filter='" + std::string(catcher.test) + "'");
  EXPECT_NE(ended.exit_code, 0) << ended.output;
  const std::string ran = LineWith(ended.output, "[ RUN      ]");
  EXPECT_NE(ran, "") << ended.output;
  // It failed, or what it did ended the program: a signal, a sanitizer.
  const bool ended_early =
      LineWith(ended.output, "[----------] Global test environment tear-down").empty();
  EXPECT_TRUE(ended_early || !LineWith(ended.output, "[  FAILED  ]").empty()) << ended.output;
}

/// tests/model/run sees that the switch's property falls; here: that there is such a switch.
void ExpectModelled(const Catcher& catcher) {
  const std::string cases = ReadSource("tests/model/cases.py");
  const std::string name = "\"" + std::string(catcher.where) + "\", \"";
  const bool falls = cases.find("managed(" + name) != std::string::npos ||
                     cases.find("enlisted(1, " + name) != std::string::npos ||
                     cases.find("enlisted(2, " + name) != std::string::npos;
  EXPECT_TRUE(falls) << "tests/model/cases.py has no " << catcher.where << " that falls";
}

void ExpectInScript(const Catcher& catcher, const std::string& script, const std::string& line) {
  EXPECT_NE(ReadSource(script).find(line), std::string::npos)
      << script << " has no " << line << " for " << InfoOf(catcher.bug).name;
}

}  // namespace

std::string ReadSource(const std::string& path) {
  std::ifstream file(std::string(SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void ExpectCaught(const Catcher& catcher) {
  const std::string bug(InfoOf(catcher.bug).name);
  switch (catcher.layer) {
    case Layer::kSimulation:
      return ExpectCaughtBySeed(catcher);
    case Layer::kUnit:
      return ExpectCaughtByTest(catcher);
    case Layer::kModel:
      return ExpectModelled(catcher);
    // They take too long for here, and are run by scripts/test --long.
    case Layer::kFuzzing:
      return ExpectInScript(catcher, "scripts/fuzz", "[" + std::string(catcher.where) + "]=" + bug);
    case Layer::kTorture:
      return ExpectInScript(catcher, "scripts/test",
                            "\"" + bug + ":" + std::string(catcher.where) + "\"");
  }
}

}  // namespace lockstep::planted
