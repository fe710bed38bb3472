#include "server/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::server {
namespace {

/// The fields of /proc/self/stat by their numbers in proc(5), from 1. The second one, the name of
/// the program in brackets, may hold anything, so they are counted from what follows it.
class StatFields {
 public:
  StatFields() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    fields_.assign(std::istream_iterator<std::string>(rest), {});
  }
  double operator[](std::size_t number) const {
    const std::size_t i = number - 3;
    return i < fields_.size() ? std::strtod(fields_[i].c_str(), nullptr) : 0;
  }

 private:
  std::vector<std::string> fields_;
};

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word) {
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double CountOpenFiles() {
  std::error_code failed;
  std::filesystem::directory_iterator files("/proc/self/fd", failed);
  if (failed) return 0;
  return static_cast<double>(std::distance(begin(files), end(files)));
}

}  // namespace

ProcessMetrics ReadProcessMetrics() {
  const StatFields stat;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessMetrics metrics{.cpu_seconds = (stat[14] + stat[15]) / ticks,
                         .resident_bytes = stat[24] * static_cast<double>(sysconf(_SC_PAGESIZE)),
                         .virtual_bytes = stat[23],
                         .open_fds = CountOpenFiles(),
                         .threads = stat[20],
                         .start_time_seconds = BootTime() + stat[22] / ticks};
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) metrics.max_fds = static_cast<double>(limit.rlim_cur);
  return metrics;
}

}  // namespace lockstep::server
