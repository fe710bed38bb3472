#pragma once

#include <filesystem>
#include <ostream>

#include "base/result.h"

namespace lockstep::log {

/// Prints what a decision log holds, for people: identity, bindings, then every batch in order.
/// Changes nothing in the folder, takes no lock, and may run beside the process that has the log
/// open: it then shows a state of a moment ago.
///
/// A damaged log is read as far as it can be: what is wrong is printed where it was found. Fails,
/// as Open does, if it is no decision log or cannot be read at all; with kCorrupt after printing
/// what could be read if anything was damaged.
Status Dump(const std::filesystem::path& path, std::ostream& out);

}  // namespace lockstep::log
