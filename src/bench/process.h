#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>

/// What the system says of a process of this machine. All read /proc; none: there is no such
/// process.
namespace lockstep::bench {

/// User and system time so far, in steps of the kernel's clock tick (10 ms).
std::optional<std::chrono::microseconds> CpuTime(pid_t pid);
/// The same of what has this folder in /proc: a process, or one of its threads.
std::optional<std::chrono::microseconds> CpuTime(const std::filesystem::path& folder);

/// Resident memory, in MiB.
std::optional<double> ResidentMiB(pid_t pid);

}  // namespace lockstep::bench
