#include "server/command_line.h"

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

std::variant<CommandLine, int> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstepd");
  return ParseCommandLine(static_cast<int>(words.size()), words.data());
}

int ExitCodeOf(std::vector<const char*> words) {
  const auto parsed = Parse(std::move(words));
  const int* code = std::get_if<int>(&parsed);
  return code == nullptr ? -1 : *code;
}

TEST(CommandLine, AServerNeedsItsConfiguration) {
  EXPECT_EQ(ExitCodeOf({}), kExitUsage);
  EXPECT_EQ(ExitCodeOf({"--check-config"}), kExitUsage);
  EXPECT_EQ(ExitCodeOf({"--config"}), kExitUsage);
  EXPECT_EQ(ExitCodeOf({"--config", "f", "more"}), kExitUsage);
  EXPECT_EQ(ExitCodeOf({"--nonsense"}), kExitUsage);
  const auto options = std::get<CommandLine>(Parse({"--config", "f", "--port-file", "p"}));
  EXPECT_EQ(options.config, "f");
  EXPECT_EQ(options.port_file, "p");
  EXPECT_FALSE(options.check_config);
}

TEST(CommandLine, WhatOnlyPrintsNeedsNone) {
  EXPECT_EQ(ExitCodeOf({"--help"}), kExitOk);
  EXPECT_EQ(ExitCodeOf({"--version"}), kExitOk);
  EXPECT_TRUE(std::get<CommandLine>(Parse({"--print-defaults"})).print_defaults);
  EXPECT_TRUE(std::get<CommandLine>(Parse({"--list-failpoints"})).list_failpoints);
}

TEST(CommandLine, FailpointsAreArmedOnlyWithTheirFlag) {
  EXPECT_EQ(ExitCodeOf({"--config", "f", "--failpoint", "a=crash"}), kExitUsage);
  const auto options =
      std::get<CommandLine>(Parse({"--config", "f", "--enable-failpoints", "--failpoint", "a=crash",
                                   "--failpoint", "b@c=count"}));
  EXPECT_EQ(options.failpoints, (std::vector<std::string>{"a=crash", "b@c=count"}));
}

}  // namespace
}  // namespace lockstep::server
