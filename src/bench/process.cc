#include "bench/process.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::bench {
namespace {

std::filesystem::path FolderOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

std::optional<std::chrono::microseconds> CpuTime(pid_t pid) { return CpuTime(FolderOf(pid)); }

std::optional<std::chrono::microseconds> CpuTime(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field, the name, may hold anything but ends with the last parenthesis.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  if (!(fields >> user >> system)) return std::nullopt;
  return std::chrono::microseconds((user + system) * 1'000'000 / sysconf(_SC_CLK_TCK));
}

std::optional<double> ResidentMiB(pid_t pid) {
  std::ifstream file(FolderOf(pid) / "status");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && file >> kib) return kib / 1024;
  }
  return std::nullopt;
}

}  // namespace lockstep::bench
