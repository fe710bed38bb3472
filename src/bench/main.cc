#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "bench/options.h"
#include "bench/report.h"

int main(int argc, char** argv) {
  using namespace lockstep::bench;  // NOLINT(google-build-using-namespace)
  const Parsed parsed = ParseCommandLine(argc, argv);
  if (!parsed.options) return parsed.exit_code;
  try {
    const nlohmann::json report = RunBench(*parsed.options);
    std::cout << Table(report);
    if (!parsed.options->json.empty()) {
      std::ofstream file(parsed.options->json);
      file << report.dump(2) << "\n";
      file.close();
      if (!file) throw std::runtime_error("cannot write " + parsed.options->json);
    }
    return AllWell(report) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "lockstep-bench: " << error.what() << "\n";
    return 1;
  }
}
