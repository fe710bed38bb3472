#include "server/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/planted.h"
#include "base/units.h"
#include "server/config_schema.h"
#include "server/yaml_document.h"

namespace lockstep::server {
namespace {

/// Reads one document into a Config and collects what is wrong. Used once.
class Reader {
 public:
  ConfigResult Read(const YAML::Node& root) {
    if (!root.IsMap()) {
      Add(root.IsNull() ? 0 : LineOf(root), "", "expected a map of settings");
      return std::move(mistakes_);
    }
    ReadSettings(root, "", TopSettings(), config_, {std::string(kClustersKey)});
    ReadClusters(root);
    CheckTogether();
    if (mistakes_.empty() || Planted(PlantedBug::kMistakesOverlooked)) return std::move(config_);
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(mistakes_);
  }

 private:
  void Add(int line, std::string key, std::string message) {
    mistakes_.push_back({line, std::move(key), std::move(message)});
  }

  /// The entries of a map; duplicates and keys that are no text are mistakes.
  std::vector<std::pair<std::string, YAML::Node>> Entries(const YAML::Node& map,
                                                          const std::string& path) {
    std::vector<std::pair<std::string, YAML::Node>> entries;
    std::map<std::string, int> seen;
    for (const auto& entry : map) {
      const int line = LineOf(entry.first);
      if (!entry.first.IsScalar()) {
        Add(line, path, "a key must be plain text");
        continue;
      }
      const std::string& key = entry.first.Scalar();
      const auto [first, fresh] = seen.emplace(key, line);
      if (!fresh) {
        Add(line, path + key, "given twice: first in line " + std::to_string(first->second));
        continue;
      }
      lines_[path + key] = line;
      entries.emplace_back(key, entry.second);
    }
    return entries;
  }

  /// Reads the settings of `target` from `map`, whose keys continue `path`. `others` are keys that
  /// the caller reads itself.
  template <typename Target>
  void ReadSettings(const YAML::Node& map, const std::string& path,
                    const std::vector<Setting<Target>>& settings, Target& target,
                    const std::set<std::string>& others) {
    std::set<std::string_view> given;
    ReadSection(map, path, "", settings, target, others, given);
    for (const auto& setting : settings) {
      if (given.contains(setting.key)) continue;
      if (setting.fallback.empty()) {
        Add(LineOf(map), path + std::string(setting.key), "is required");
      } else if (!setting.apply(target, setting.fallback).empty()) {
        std::abort();  // A default that its own setting refuses.
      }
    }
  }

  template <typename Target>
  void ReadSection(const YAML::Node& map, const std::string& path, const std::string& section,
                   const std::vector<Setting<Target>>& settings, Target& target,
                   const std::set<std::string>& others, std::set<std::string_view>& given) {
    for (const auto& [name, value] : Entries(map, path + section)) {
      const std::string key = section + name;
      if (others.contains(key)) continue;
      const bool plain = name.find('.') == std::string::npos;  // Dots are ours: they mean sections.
      const auto setting =
          std::find_if(settings.begin(), settings.end(), [&](auto& s) { return s.key == key; });
      if (plain && setting != settings.end()) {
        given.insert(setting->key);
        Apply(*setting, path + key, value, target);
      } else if (plain && IsSection(settings, key + ".")) {
        if (value.IsMap()) {
          ReadSection(value, path, key + ".", settings, target, others, given);
        } else {
          Add(lines_[path + key], path + key, "expected a map");
        }
      } else {
        const std::string advice = InlineSecretAdvice(key);
        Add(lines_[path + key], path + key,
            !advice.empty() ? advice
                            : "unknown; allowed here: " + Allowed(settings, section, others));
      }
    }
  }

  template <typename Target>
  void Apply(const Setting<Target>& setting, const std::string& path, const YAML::Node& value,
             Target& target) {
    const std::string problem = value.IsScalar() ? setting.apply(target, value.Scalar())
                                                 : "expected a value: " + setting.type;
    if (value.IsScalar()) config_.given[path] = value.Scalar();
    if (problem.empty()) return;
    Add(lines_[path], path, problem);
    failed_.insert(path);
  }

  template <typename Target>
  static bool IsSection(const std::vector<Setting<Target>>& settings, const std::string& prefix) {
    return std::any_of(settings.begin(), settings.end(),
                       [&](auto& setting) { return setting.key.starts_with(prefix); });
  }

  /// The keys that may stand in a section, as one line.
  template <typename Target>
  static std::string Allowed(const std::vector<Setting<Target>>& settings,
                             const std::string& section, const std::set<std::string>& others) {
    std::set<std::string> names;
    for (const auto& setting : settings) {
      if (!setting.key.starts_with(section)) continue;
      const std::string_view rest = setting.key.substr(section.size());
      names.emplace(rest.substr(0, rest.find('.')));
    }
    if (section.empty()) names.insert(others.begin(), others.end());
    std::string line;
    for (const auto& name : names) line += (line.empty() ? "" : ", ") + name;
    return line;
  }

  void ReadClusters(const YAML::Node& root) {
    const std::string key(kClustersKey);
    const YAML::Node clusters = root[key];
    if (!clusters || !clusters.IsSequence() || clusters.size() == 0) {
      Add(clusters ? lines_[key] : LineOf(root), key, "expected a list of at least one cluster");
      return;
    }
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      const std::string path = key + "[" + std::to_string(i) + "]";
      if (clusters[i].IsMap()) {
        ReadCluster(clusters[i], path + ".");
      } else {
        Add(LineOf(clusters[i]), path, "expected a map with name and bootstrap_servers");
      }
    }
  }

  void ReadCluster(const YAML::Node& map, const std::string& path) {
    ClusterConfig cluster;
    const std::string key(kLibrdkafkaKey);
    ReadSettings(map, path, ClusterSettings(), cluster, {key});
    if (const YAML::Node properties = map[key]; properties && !properties.IsMap()) {
      Add(lines_[path + key], path + key, "expected a map of librdkafka's properties");
    } else if (properties) {
      for (const auto& [name, value] : Entries(properties, path + key + ".")) {
        const std::string problem = value.IsScalar() ? CheckLibrdkafkaProperty(name, value.Scalar())
                                                     : "expected a single value";
        if (!problem.empty()) {
          Add(lines_[path + key + "." + name], path + key + "." + name, problem);
        }
        if (!value.IsScalar()) continue;
        cluster.librdkafka[name] = value.Scalar();
        config_.given[path + key + "." + name] = value.Scalar();
      }
    }
    CheckCluster(cluster, path, LineOf(map));
    cluster.given = TakeGiven(path);
    config_.clusters.push_back(std::move(cluster));
  }

  /// What was given below `path`, by what follows it.
  std::map<std::string, std::string> TakeGiven(const std::string& path) {
    std::map<std::string, std::string> below;
    auto& given = config_.given;
    for (auto entry = given.lower_bound(path);
         entry != given.end() && entry->first.starts_with(path); entry = given.erase(entry)) {
      below[entry->first.substr(path.size())] = entry->second;
    }
    return below;
  }

  /// The line of a setting, or `otherwise` if it is a default.
  int LineOfKey(const std::string& path, int otherwise) const {
    const auto line = lines_.find(path);
    return line == lines_.end() ? otherwise : line->second;
  }

  void CheckCluster(const ClusterConfig& cluster, const std::string& path, int line) {
    const bool knows_security = std::ranges::none_of(failed_, [&](const std::string& key) {
      return key.starts_with(path + "tls.") || key.starts_with(path + "sasl.") ||
             key == path + "security_protocol";
    });
    const auto problems =
        knows_security ? CheckSecurity(cluster) : decltype(CheckSecurity(cluster)){};
    for (const auto& [key, problem] : problems) {
      Add(LineOfKey(path + key, LineOfKey(path + "security_protocol", line)), path + key, problem);
    }
    if (!failed_.contains(path + "lanes.min") && !failed_.contains(path + "lanes.max") &&
        cluster.lanes_min > cluster.lanes_max) {
      Add(LineOfKey(path + "lanes.min", LineOfKey(path + "lanes.max", line)), path + "lanes.min",
          "must not be above lanes.max: " + std::to_string(cluster.lanes_min) + " > " +
              std::to_string(cluster.lanes_max));
    }
    for (const ClusterConfig& other : config_.clusters) {
      if (!cluster.name.get().empty() && other.name == cluster.name) {
        Add(LineOfKey(path + "name", line), path + "name",
            "'" + cluster.name.get() + "' is the name of another cluster above");
      }
      if (!cluster.bootstrap_servers.empty() &&
          other.bootstrap_servers == cluster.bootstrap_servers) {
        Add(LineOfKey(path + "bootstrap_servers", line), path + "bootstrap_servers",
            "the same brokers as cluster '" + other.name.get() +
                "': one Kafka cluster must have one name");
      }
    }
  }

  void CheckTogether() {
    const auto at_most = [this](const std::string& a, std::uint64_t a_value, const std::string& b,
                                std::uint64_t b_value, auto format) {
      if (a_value <= b_value || failed_.contains(a) || failed_.contains(b)) return;
      Add(LineOfKey(a, LineOfKey(b, 0)), a,
          "must not be above " + b + ": " + format(a_value) + " > " + format(b_value));
    };
    at_most("limits.record_bytes", config_.record_bytes, "limits.transaction_bytes",
            config_.transaction_bytes, FormatSize);
    at_most("limits.record_bytes", config_.record_bytes, "limits.message_bytes",
            config_.message_bytes, FormatSize);
    at_most("limits.transaction_bytes", config_.transaction_bytes, "limits.buffer_bytes",
            config_.buffer_bytes, FormatSize);
    at_most("limits.transaction_bytes", config_.transaction_bytes, "limits.client_buffer_bytes",
            config_.client_buffer_bytes, FormatSize);
    CheckListeners();
    for (std::size_t i = 0; i < config_.clusters.size(); ++i) {
      const std::string timeout = "clusters[" + std::to_string(i) + "].transaction_timeout";
      const std::string margin = "timeouts.deadline_margin";
      if (failed_.contains(timeout) || failed_.contains(margin)) continue;
      const auto& set = config_.clusters[i].transaction_timeout;
      if (!set || *set >= 2 * config_.deadline_margin) continue;
      Add(LineOfKey(timeout, LineOfKey(margin, 0)), timeout,
          "must be at least twice timeouts.deadline_margin (" +
              FormatDuration(config_.deadline_margin) + "), or nothing could commit");
    }
  }

  void CheckListeners() {
    const auto blame = [this](const std::string& key, const std::string& message) {
      if (!failed_.contains(key)) Add(LineOfKey(key, 0), key, message);
    };
    const TlsFiles& tls = config_.tls;
    if (tls.certificate_file.empty() != tls.key_file.empty()) {
      blame(tls.key_file.empty() ? "tls.certificate_file" : "tls.key_file",
            "tls.certificate_file and tls.key_file go together: give both or none");
    }
    if (!tls.client_ca_file.empty() && tls.certificate_file.empty()) {
      blame("tls.client_ca_file", "needs tls.certificate_file and tls.key");
    }
    const auto check = [&](const std::string& key, const ListenAddress& address) {
      if (!tls.certificate_file.empty() || config_.plaintext_on == "any" ||
          StaysOnMachine(address)) {
        return;
      }
      blame(
          key,
          ToString(address) +
              " would be served in plain text beyond this machine: set tls.certificate_file and "
              "tls.key_file, listen on a loopback address or unix:PATH, or say plaintext_on: any");
    };
    check("listen", config_.listen);
    if (!config_.admin_listen) return;
    check("admin_listen", *config_.admin_listen);
    const bool any_port = config_.listen.port == 0 && config_.listen.unix_path.empty();
    if (!any_port && ToString(*config_.admin_listen) == ToString(config_.listen)) {
      blame("admin_listen", "must differ from listen");
    }
  }

  Config config_;
  std::vector<ConfigMistake> mistakes_;
  std::map<std::string, int> lines_;  // Of each key that was given.
  std::set<std::string> failed_;      // Keys whose value was refused.
};

}  // namespace

std::string ToString(const ListenAddress& address) {
  if (!address.unix_path.empty()) return "unix:" + address.unix_path;
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool StaysOnMachine(const ListenAddress& address) {
  return !address.unix_path.empty() || address.host == "localhost" || address.host == "::1" ||
         address.host.starts_with("127.");
}

std::string ToString(const ConfigMistake& mistake, std::string_view file) {
  std::string line(file);
  if (mistake.line > 0) line += ":" + std::to_string(mistake.line);
  if (!mistake.key.empty()) line += ": " + mistake.key;
  return line + ": " + mistake.message;
}

namespace {

using Given = std::map<std::string, std::string>;

/// The keys that two files set differently, in order.
std::set<std::string> ChangedKeys(const Given& before, const Given& after) {
  std::set<std::string> changed;
  const auto collect = [&changed](const Given& one, const Given& other) {
    for (const auto& [key, text] : one) {
      const auto found = other.find(key);
      if (found == other.end() || found->second != text) changed.insert(key);
    }
  };
  collect(before, after);
  collect(after, before);
  return changed;
}

const ClusterConfig* Find(const Config& config, const ClusterName& name) {
  const auto found = std::ranges::find(config.clusters, name, &ClusterConfig::name);
  return found == config.clusters.end() ? nullptr : &*found;
}

bool IsLive(const std::string& key) {
  const auto& settings = TopSettings();
  const auto setting = std::ranges::find(settings, key, &Setting<Config>::key);
  return setting != settings.end() && setting->live;
}

}  // namespace

ConfigChange Compare(const Config& running, const Config& fresh) {
  ConfigChange change;
  for (const std::string& key : ChangedKeys(running.given, fresh.given)) {
    (IsLive(key) ? change.live : change.restart).push_back(key);
  }
  for (const ClusterConfig& cluster : running.clusters) {
    const ClusterConfig* now = Find(fresh, cluster.name);
    if (now == nullptr) {
      change.removed.push_back(cluster.name);
      continue;
    }
    for (const std::string& key : ChangedKeys(cluster.given, now->given)) {
      change.restart.push_back(key + " of cluster '" + cluster.name.get() + "'");
    }
  }
  for (const ClusterConfig& cluster : fresh.clusters) {
    if (Find(running, cluster.name) == nullptr) change.added.push_back(cluster);
  }
  return change;
}

Config TakeUp(const Config& running, const Config& fresh) {
  Config taken = running;
  for (const auto& setting : TopSettings()) {
    if (!setting.live) continue;
    const std::string key(setting.key);
    const auto given = fresh.given.find(key);
    const bool is_given = given != fresh.given.end();
    setting.apply(taken, is_given ? std::string_view(given->second) : setting.fallback);
    taken.given.erase(key);
    if (is_given) taken.given.insert(*given);
  }
  for (const ClusterConfig& cluster : Compare(running, fresh).added) {
    taken.clusters.push_back(cluster);
  }
  return taken;
}

ConfigResult ParseConfig(const std::string& yaml) {
  return ParseDocument<ConfigResult>(yaml,
                                     [](const YAML::Node& root) { return Reader().Read(root); });
}

ConfigResult LoadConfig(const std::string& path) { return LoadFile(path, &ParseConfig); }

}  // namespace lockstep::server
