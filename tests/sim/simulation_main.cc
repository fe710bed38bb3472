// The simulation as a program: sweeps seeds, or shows one.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulation.h"

namespace lockstep::sim {
namespace {

constexpr const char* kUsage =
    "simulation [--seed N | --seeds A..B | --minutes M] [--profile NAME] [--jobs N] [--verbose]\n"
    "  --seed N       one seed; --verbose prints each step of it\n"
    "  --seeds A..B   these seeds, both included (default 1..200)\n"
    "  --minutes M    seeds from --seed on (default: from the clock) for so long\n"
    "  --profile NAME how much happens in a run (default long); --profile list names them\n"
    "  --jobs N       so many processes share the seeds of --seeds (default 1)\n"
    "Exits with 1 at the first seed that breaks a promise, and says how to see it again.\n";

struct Arguments {
  std::optional<std::uint64_t> seed;
  std::uint64_t first = 1;
  std::uint64_t last = 200;
  double minutes = 0;
  bool verbose = false;
  unsigned jobs = 1;
  ProfileInfo profile = AllProfiles().front();
};

std::uint64_t current_seed = 0;
std::string_view current_profile;

/// A condition that only a defect of the core can break aborts the process: say where.
void OnAbort(int) {
  std::fprintf(
      stderr,
      "\nseed %llu: the core aborted; see it: simulation --profile %s --seed %llu --verbose\n",
      static_cast<unsigned long long>(current_seed), current_profile.data(),
      static_cast<unsigned long long>(current_seed));
  std::_Exit(1);
}

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t steps = 0;
  std::uint64_t crashes = 0;
  std::uint64_t crashes_in_recovery = 0;
  Oracle::Counts counts;
};

void Add(Totals& totals, const Totals& more) {
  totals.seeds += more.seeds;
  totals.steps += more.steps;
  totals.crashes += more.crashes;
  totals.crashes_in_recovery += more.crashes_in_recovery;
  totals.counts += more.counts;
}

void Add(Totals& totals, const Outcome& outcome) {
  ++totals.seeds;
  totals.steps += outcome.steps;
  totals.crashes += outcome.crashes;
  totals.crashes_in_recovery += outcome.crashes_in_recovery;
  totals.counts += outcome.counts;
}

void Print(const Totals& t, std::string_view profile, double seconds) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  const Oracle::Counts& c = t.counts;
  const double share =
      c.decided == 0 ? 0 : 100 * static_cast<double>(c.shared) / static_cast<double>(c.decided);
  std::printf(
      "%s: %llu seeds in %.1f s (%.0f a second): %llu steps, %llu crashes, %llu of them in "
      "recovery\n",
      profile.data(), number(t.seeds), seconds, static_cast<double>(t.seeds) / seconds,
      number(t.steps), number(t.crashes), number(t.crashes_in_recovery));
  std::printf(
      "  %llu transactions, %llu decided, %llu of them (%.0f%%) in shared batches, %llu told "
      "COMMITTED, %llu HEURISTIC; enlisted: %llu committed, %llu aborted\n",
      number(c.begun), number(c.decided), number(c.shared), share, number(c.committed),
      number(c.heuristic), number(c.enlisted_committed), number(c.enlisted_aborted));
  std::printf("  %llu keys, %llu of them run again, %llu calls answered by an earlier run\n",
              number(c.keys), number(c.run_again), number(c.answered_by_earlier_run));
}

/// False: it broke a promise.
bool RunOne(std::uint64_t seed, const Arguments& arguments, Totals& totals) {
  current_seed = seed;
  current_profile = arguments.profile.name;
  const Outcome outcome = RunSeed(seed, arguments.profile.profile,
                                  arguments.verbose ? Trace::Mode::kPrint : Trace::Mode::kOff);
  Add(totals, outcome);
  if (outcome.violation.empty()) return true;
  if (!arguments.verbose) {
    for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
  }
  std::printf("\nseed %llu: %s\nsee it again: simulation --profile %s --seed %llu --verbose\n",
              static_cast<unsigned long long>(seed), outcome.violation.c_str(),
              arguments.profile.name.data(), static_cast<unsigned long long>(seed));
  return false;
}

using SweepClock = std::chrono::steady_clock;

double SecondsSince(SweepClock::time_point start) {
  return std::chrono::duration<double>(SweepClock::now() - start).count();
}

/// Every nth of the seeds, from `first` on. False: one broke a promise, and was the last.
bool SweepOne(const Arguments& arguments, std::uint64_t first, std::uint64_t every,
              Totals& totals) {
  const auto start = SweepClock::now();
  std::uint64_t seed = first;
  const auto more = [&] {
    if (arguments.minutes > 0) return SecondsSince(start) < arguments.minutes * 60;
    return arguments.seed ? totals.seeds == 0 : seed <= arguments.last;
  };
  bool ok = true;
  for (; ok && more(); seed += every) ok = RunOne(seed, arguments, totals);
  std::fflush(stdout);
  return ok;
}

/// One of several processes, which share the seeds; its totals come through a pipe.
struct Worker {
  pid_t pid = 0;
  int totals = -1;
};

Worker StartWorker(const Arguments& arguments, unsigned number) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t pid = ::fork();
  if (pid < 0) std::abort();
  if (pid > 0) {
    ::close(ends[1]);
    return {pid, ends[0]};
  }
  Totals totals;
  const bool ok = SweepOne(arguments, arguments.first + number, arguments.jobs, totals);
  const bool told = ::write(ends[1], &totals, sizeof totals) == sizeof totals;
  std::_Exit(ok && told ? 0 : 1);
}

bool SweepWithWorkers(const Arguments& arguments, Totals& totals) {
  std::vector<Worker> workers;
  for (unsigned i = 0; i < arguments.jobs; ++i) workers.push_back(StartWorker(arguments, i));
  bool ok = true;
  for (const Worker& worker : workers) {
    Totals part;
    if (::read(worker.totals, &part, sizeof part) == sizeof part) Add(totals, part);
    ::close(worker.totals);
    int status = 0;
    ok = ::waitpid(worker.pid, &status, 0) == worker.pid && status == 0 && ok;
  }
  return ok;
}

int Sweep(const Arguments& arguments) {
  const auto start = SweepClock::now();
  Totals totals;
  bool ok = true;
  if (arguments.jobs > 1) {
    ok = SweepWithWorkers(arguments, totals);
  } else {
    std::uint64_t seed = arguments.seed.value_or(arguments.first);
    if (arguments.minutes > 0 && !arguments.seed) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      seed = static_cast<std::uint64_t>(now.count());
    }
    ok = SweepOne(arguments, seed, 1, totals);
  }
  Print(totals, arguments.profile.name, SecondsSince(start));
  return ok ? 0 : 1;
}

/// "list" prints them, and is none of them.
template <typename Info>
std::optional<Info> Find(const std::vector<Info>& all, std::string_view name) {
  for (const Info& info : all) {
    if (name == "list") std::printf("%-24s %s\n", info.name.data(), info.what.data());
    if (name == info.name) return info;
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
    } else if (name == "--profile") {
      const auto profile = Find(AllProfiles(), value);
      if (!profile) return std::nullopt;
      arguments.profile = *profile;
    } else if (name == "--jobs") {
      arguments.jobs = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
      if (arguments.jobs == 0) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  // Workers share a range; one seed, or a time, is one process's.
  if (arguments.jobs > 1 && (arguments.seed || arguments.minutes > 0)) return std::nullopt;
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
