#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::cli {

/// A script that completes the commands and options of `app`, made from its command tree. `shell`
/// is bash, zsh or fish.
std::string Completion(const CLI::App& app, const std::string& shell);

}  // namespace lockstep::cli
