#pragma once

#include <istream>
#include <ostream>

namespace lockstep::cli {

/// lockstepctl without its process: parses the command line, runs one command, returns the exit
/// code (commands.h). Blocking.
int RunLockstepctl(int argc, const char* const* argv, std::istream& in, std::ostream& out,
                   std::ostream& err);

}  // namespace lockstep::cli
