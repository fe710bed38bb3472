#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <variant>

#include "server/config.h"

/// Reading a small YAML file without trusting it.
namespace lockstep::server {

/// The one document of a text, or what is wrong with it.
std::variant<YAML::Node, ConfigMistake> LoadDocument(const std::string& yaml);

/// What a file holds, 1 MiB at most, or why not. Blocking.
std::variant<std::string, ConfigMistake> ReadSmallFile(const std::string& path);

/// From 1.
int LineOf(const YAML::Node& node);

}  // namespace lockstep::server
