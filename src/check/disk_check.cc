#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/units.h"
#include "check/check.h"
#include "server/data_folder.h"

namespace lockstep::check {
namespace {

using std::chrono::microseconds;
constexpr int kWrites = 30;
constexpr std::size_t kBytes = 4096;  // A decision takes a few hundred; file systems write blocks.
constexpr auto kGood = std::chrono::milliseconds(10);

std::string Existing(std::string path) {
  std::error_code ignored;
  while (!std::filesystem::is_directory(path, ignored) && path.size() > 1) {
    path = std::filesystem::path(path).parent_path();
  }
  return path;
}

/// The median of some writes with fdatasync, or errno.
struct Synced {
  int error = 0;
  microseconds median{0};
  microseconds worst{0};
};
Synced TimeSyncs(const std::string& folder) {
  std::string path = folder + "/lockstep-check.XXXXXX";
  const int file = ::mkstemp(path.data());
  if (file < 0) return {errno};
  ::unlink(path.c_str());
  const std::string block(kBytes, 'x');
  std::vector<microseconds> times;
  int error = 0;
  while (error == 0 && times.size() < kWrites) {
    const auto began = std::chrono::steady_clock::now();
    const bool done = ::write(file, block.data(), block.size()) == static_cast<ssize_t>(kBytes) &&
                      ::fdatasync(file) == 0;
    if (!done) error = errno;
    times.push_back(
        std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began));
  }
  ::close(file);
  std::sort(times.begin(), times.end());
  return {error, times[times.size() / 2], times.back()};
}

std::string Milliseconds(microseconds time) {
  const auto tenths = (time.count() + 50) / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " ms";
}

}  // namespace

Section CheckDisk(const server::Config& config) {
  Section section{"data_dir", {}};
  const std::string folder = Existing(config.data_dir);
  const Status lasting = server::CheckDataFolder(config.data_dir, config.allow_data_dir_on);
  if (!lasting.ok()) {
    section.findings.push_back(
        {Level::kRed, "file system", lasting.error().message, "set data_dir to a disk's folder"});
  }
  const Synced synced = TimeSyncs(folder);
  if (synced.error != 0) {
    section.findings.push_back({Level::kRed, "disk sync",
                                folder + ": " + std::strerror(synced.error),
                                "let this user write there, or set data_dir to another folder"});
    return section;
  }
  const bool slow = synced.median > kGood;
  section.findings.push_back(
      {slow ? Level::kYellow : Level::kGreen, "disk sync",
       Milliseconds(synced.median) + " (median of " + std::to_string(kWrites) + " in " + folder +
           "; worst " + Milliseconds(synced.worst) + ")",
       slow ? "each decision waits for one sync: use a faster disk, one with a write cache that "
              "survives a power cut"
            : ""});
  return section;
}

}  // namespace lockstep::check
