#pragma once

namespace lockstep::server {

/// The project's version, from CMake.
inline constexpr const char* kVersion = LOCKSTEP_VERSION;

}  // namespace lockstep::server
