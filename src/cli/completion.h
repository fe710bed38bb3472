#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::cli {

/// A bash script that completes the commands and options of `app`, made from its command tree.
std::string BashCompletion(const CLI::App& app);

}  // namespace lockstep::cli
