// The simulation as a program: sweeps seeds, or shows one.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "simulation.h"

namespace lockstep::sim {
namespace {

constexpr const char* kUsage =
    "simulation [--seed N | --seeds A..B | --minutes M] [--verbose] [--defect NAME]\n"
    "  --seed N       one seed; --verbose prints each step of it\n"
    "  --seeds A..B   these seeds, both included (default 1..200)\n"
    "  --minutes M    seeds from --seed on (default: from the clock) for so long\n"
    "  --defect NAME  with a planted bug; --defect list names them\n"
    "Exits with 1 at the first seed that breaks a promise, and says how to see it again.\n";

struct Arguments {
  std::optional<std::uint64_t> seed;
  std::uint64_t first = 1;
  std::uint64_t last = 200;
  double minutes = 0;
  bool verbose = false;
  Defect defect = Defect::kNone;
};

std::uint64_t current_seed = 0;

/// A condition that only a defect of the core can break aborts the process: say where.
void OnAbort(int) {
  std::fprintf(stderr, "\nseed %llu: the core aborted; see it: simulation --seed %llu --verbose\n",
               static_cast<unsigned long long>(current_seed),
               static_cast<unsigned long long>(current_seed));
  std::_Exit(1);
}

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t steps = 0;
  std::uint64_t crashes = 0;
  Oracle::Counts counts;
};

void Add(Totals& totals, const Outcome& outcome) {
  ++totals.seeds;
  totals.steps += outcome.steps;
  totals.crashes += outcome.crashes;
  totals.counts += outcome.counts;
}

void Print(const Totals& t, double seconds) {
  std::printf(
      "%llu seeds in %.1f s (%.0f a minute): %llu steps, %llu crashes, %llu transactions, %llu "
      "told COMMITTED, %llu HEURISTIC, %llu in shared batches; %llu keys, %llu of them run again, "
      "%llu calls answered by "
      "an earlier run\n",
      static_cast<unsigned long long>(t.seeds), seconds,
      static_cast<double>(t.seeds) * 60 / seconds, static_cast<unsigned long long>(t.steps),
      static_cast<unsigned long long>(t.crashes), static_cast<unsigned long long>(t.counts.begun),
      static_cast<unsigned long long>(t.counts.committed),
      static_cast<unsigned long long>(t.counts.heuristic),
      static_cast<unsigned long long>(t.counts.shared),
      static_cast<unsigned long long>(t.counts.keys),
      static_cast<unsigned long long>(t.counts.run_again),
      static_cast<unsigned long long>(t.counts.answered_by_earlier_run));
}

/// False: it broke a promise.
bool RunOne(std::uint64_t seed, const Arguments& arguments, Totals& totals) {
  current_seed = seed;
  const Outcome outcome =
      RunSeed(seed, arguments.defect, arguments.verbose ? Trace::Mode::kPrint : Trace::Mode::kOff);
  Add(totals, outcome);
  if (outcome.violation.empty()) return true;
  if (!arguments.verbose) {
    for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
  }
  std::printf("\nseed %llu: %s\nsee it again: simulation --seed %llu --verbose\n",
              static_cast<unsigned long long>(seed), outcome.violation.c_str(),
              static_cast<unsigned long long>(seed));
  return false;
}

int Sweep(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Totals totals;
  std::uint64_t seed = arguments.seed.value_or(arguments.first);
  if (arguments.minutes > 0 && !arguments.seed) {
    seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  bool ok = true;
  const auto more = [&] {
    if (arguments.minutes > 0) return elapsed() < arguments.minutes * 60;
    return arguments.seed ? totals.seeds == 0 : seed <= arguments.last;
  };
  for (; ok && more(); ++seed) ok = RunOne(seed, arguments, totals);
  Print(totals, elapsed());
  return ok ? 0 : 1;
}

std::optional<Defect> FindDefect(std::string_view name) {
  for (const DefectInfo& info : AllDefects()) {
    if (name == "list") std::printf("%-24s %s\n", info.name.data(), info.what.data());
    if (name == info.name) return info.defect;
  }
  return std::nullopt;
}

/// None: show the usage.
std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--verbose") {
      arguments.verbose = true;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    const char* value = argv[++i];
    if (name == "--seed") {
      arguments.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--seeds") {
      const char* dots = std::strstr(value, "..");
      if (dots == nullptr) return std::nullopt;
      arguments.first = std::strtoull(value, nullptr, 10);
      arguments.last = std::strtoull(dots + 2, nullptr, 10);
    } else if (name == "--minutes") {
      arguments.minutes = std::strtod(value, nullptr);
    } else if (name == "--defect") {
      const auto defect = FindDefect(value);
      if (!defect) return std::nullopt;
      arguments.defect = *defect;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  const auto arguments = lockstep::sim::Parse(argc, argv);
  if (!arguments) {
    std::fputs(lockstep::sim::kUsage, stderr);
    return 2;
  }
  std::signal(SIGABRT, lockstep::sim::OnAbort);
  return lockstep::sim::Sweep(*arguments);
}
