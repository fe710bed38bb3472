#include "server/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "server/version.h"

namespace lockstep::server {

std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine options;
  bool enable_failpoints = false;
  CLI::App app("lockstepd: one transaction across several Kafka clusters", "lockstepd");
  app.set_version_flag("--version", std::string("lockstepd ") + kVersion);
  app.footer(
      "Prints 'serving on HOST:PORT' to stdout once it serves; logs to stderr.\n"
      "SIGHUP reads the configuration again.\n"
      "SIGTERM and SIGINT stop it: what is decided is completed, within timeouts.shutdown.\n"
      "Exit codes: 0 stopped; 1 command line or configuration; 2 address cannot be listened on;\n"
      "3 decision log cannot be opened; 4 decision log failed while running.");

  auto* config = app.add_option("--config", options.config, "The configuration file (YAML)");
  auto* check = app.add_flag("--check-config", options.check_config,
                             "Check the configuration, print every mistake in it, and exit");
  check->needs(config);
  auto* print = app.add_flag("--print-defaults", options.print_defaults,
                             "Print a configuration with every setting, and exit");
  app.add_option("--port-file", options.port_file,
                 "Write the port into this file once it serves (for listen: HOST:0)");
  auto* enable =
      app.add_flag("--enable-failpoints", enable_failpoints, "For tests only: allow --failpoint");
  app.add_option("--failpoint", options.failpoints,
                 "name[@cluster]=crash|pause|delay:MS|error|count[#n]; may be repeated")
      ->needs(enable)
      ->expected(1)
      ->take_all();
  auto* list = app.add_flag("--list-failpoints", options.list_failpoints,
                            "Print the names of all failpoints, and exit");
  app.callback([&] {
    if (config->empty() && print->empty() && list->empty()) {
      throw CLI::RequiredError("--config");
    }
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end) == 0 ? kExitOk : kExitUsage;
  }
  return options;
}

}  // namespace lockstep::server
