#pragma once

#include "server/command_line.h"

namespace lockstep::server {

/// The whole process after its command line: configuration, log, clusters, service, until a signal
/// or a failed log ends it. Returns the exit code. Call once, on the main thread.
int RunLockstepd(const CommandLine& options);

}  // namespace lockstep::server
