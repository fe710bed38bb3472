#include <algorithm>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "check/check.h"
#include "cli/commands.h"
#include "cli/render.h"

namespace lockstep::cli {
namespace {

using check::Section;
using check::Wanted;

nlohmann::json ToJson(const std::vector<Section>& sections) {
  nlohmann::json all = nlohmann::json::array();
  for (const Section& section : sections) {
    nlohmann::json findings = nlohmann::json::array();
    for (const check::Finding& finding : section.findings) {
      findings.push_back({{"level", check::Name(finding.level)},
                          {"what", finding.what},
                          {"found", finding.found},
                          {"fix", finding.fix}});
    }
    all.push_back({{"name", section.name}, {"findings", std::move(findings)}});
  }
  return {{"level", check::Name(check::Worst(sections))}, {"sections", std::move(all)}};
}

/// A fix stands below its line, whole: it may be a command to paste.
std::string Render(const Section& section) {
  std::size_t widest = 0;
  for (const check::Finding& finding : section.findings) {
    widest = std::max(widest, finding.what.size());
  }
  std::string text = section.name + "\n";
  for (const check::Finding& finding : section.findings) {
    std::string level(check::Name(finding.level));
    level.resize(6, ' ');
    std::string what = finding.what;
    what.resize(widest, ' ');
    text += "  " + level + "  " + what + "  " + finding.found + "\n";
    if (!finding.fix.empty()) text += "          " + finding.fix + "\n";
  }
  return text;
}

/// "CLUSTER:NAME"s by cluster; or the first that names no cluster of the configuration.
std::optional<std::string> Sort(const std::vector<std::string>& names, const server::Config& config,
                                std::vector<std::string> Wanted::*kind,
                                std::map<std::string, Wanted>& wanted) {
  for (const std::string& name : names) {
    const auto colon = name.find(':');
    const std::string cluster = name.substr(0, colon);
    const bool known = std::ranges::any_of(
        config.clusters, [&](const auto& each) { return each.name.get() == cluster; });
    if (colon == std::string::npos || colon + 1 == name.size() || !known) return name;
    (wanted[cluster].*kind).push_back(name.substr(colon + 1));
  }
  return std::nullopt;
}

}  // namespace

int Commands::Check(const CheckOptions& options) {
  const server::ConfigResult loaded = server::LoadConfig(options.config);
  if (const auto* mistakes = std::get_if<std::vector<server::ConfigMistake>>(&loaded)) {
    for (const auto& mistake : *mistakes) err_ << ToString(mistake, options.config) << "\n";
    return kExitFailed;
  }
  const auto& config = std::get<server::Config>(loaded);
  std::map<std::string, Wanted> wanted;
  auto stray = Sort(options.topics, config, &Wanted::topics, wanted);
  if (!stray) stray = Sort(options.groups, config, &Wanted::groups, wanted);
  if (stray) return WrongUsage("expected CLUSTER:NAME with a cluster of the file, got " + *stray);
  const auto timeout = ParseDuration(options.timeout);
  if (!timeout) return WrongUsage("--timeout: " + timeout.error().message);

  for (const auto& cluster : config.clusters) wanted.try_emplace(cluster.name.get());
  // Side by side: one that is away costs the others nothing.
  std::vector<std::future<Section>> asked;
  for (const server::ClusterConfig& cluster : config.clusters) {
    asked.push_back(std::async(std::launch::async, [&] {
      return check::CheckCluster(cluster, config, wanted.at(cluster.name.get()), *timeout);
    }));
  }
  std::vector<Section> sections = {check::CheckDisk(config)};
  for (auto& each : asked) sections.push_back(each.get());
  if (json_) {
    out_ << ToJson(sections).dump(2) << "\n";
  } else {
    for (const Section& section : sections) out_ << Render(section);
  }
  return check::Worst(sections) == check::Level::kRed ? kExitFailed : kExitOk;
}

}  // namespace lockstep::cli
