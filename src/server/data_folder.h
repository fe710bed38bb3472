#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::server {

/// "tmpfs" or "overlay" if what is on a file system of this type (statfs) ends with the machine's
/// memory or with its container; empty otherwise. Pure.
std::string_view VolatileName(std::uint64_t filesystem_type);

/// Whether the decision log may live in `path`, which need not exist yet. kFailedPrecondition,
/// saying what to do, if its file system is volatile and `allowed` does not name it. Blocking.
Status CheckDataFolder(const std::string& path, std::string_view allowed);

}  // namespace lockstep::server
