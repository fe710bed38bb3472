#pragma once

#include <string>
#include <variant>
#include <vector>

namespace lockstep::server {

/// How lockstepd ends. Stable: scripts and supervisors read them. See docs/configuration.md.
enum ExitCode : int {
  kExitOk = 0,         ///< Asked to stop, and stopped.
  kExitUsage = 1,      ///< Command line or configuration. A restart does not help.
  kExitListen = 2,     ///< The address cannot be listened on.
  kExitLogOpen = 3,    ///< The decision log cannot be opened.
  kExitLogFailed = 4,  ///< The decision log failed while running, or is an older copy. Restart.
};

struct CommandLine {
  std::string config;
  std::string port_file;
  bool check_config = false;
  bool print_defaults = false;
  bool list_failpoints = false;
  std::vector<std::string> failpoints;
};

/// The command line, or the exit code after help, version or a mistake was printed.
std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace lockstep::server
