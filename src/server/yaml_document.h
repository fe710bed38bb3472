#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <variant>
#include <vector>

#include "server/config.h"

/// Reading a small YAML file without trusting it.
namespace lockstep::server {

/// The one document of a text, or what is wrong with it.
std::variant<YAML::Node, ConfigMistake> LoadDocument(const std::string& yaml);

/// What a file holds, 1 MiB at most, or why not. Blocking.
std::variant<std::string, ConfigMistake> ReadSmallFile(const std::string& path);

/// What `read` makes of the one document of a text; where there is none, what is wrong with it.
template <typename Result, typename Read>
Result ParseDocument(const std::string& yaml, Read read) {
  const auto document = LoadDocument(yaml);
  if (const auto* mistake = std::get_if<ConfigMistake>(&document)) return std::vector{*mistake};
  try {
    return read(std::get<YAML::Node>(document));
  } catch (const YAML::Exception& problem) {
    return std::vector<ConfigMistake>{{problem.mark.line + 1, "", "not YAML: " + problem.msg}};
  }
}

/// The same of a file's, by `parse`. Blocking.
template <typename Result>
Result LoadFile(const std::string& path, Result (*parse)(const std::string& yaml)) {
  const auto text = ReadSmallFile(path);
  if (const auto* mistake = std::get_if<ConfigMistake>(&text)) return std::vector{*mistake};
  return parse(std::get<std::string>(text));
}

/// From 1.
int LineOf(const YAML::Node& node);

}  // namespace lockstep::server
