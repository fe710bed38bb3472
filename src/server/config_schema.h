#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/config.h"

/// The table of settings behind config.h: private to the configuration.
namespace lockstep::server {

/// One scalar setting of a Target (Config or ClusterConfig). Its key is relative to the Target; a
/// dot makes a section.
template <typename Target>
struct Setting {
  std::string_view key;
  std::string type;
  std::string_view fallback;  ///< Default, as text. Empty: must be given.
  std::string_view sample;    ///< For the printed file, where there is no default.
  std::string_view help;
  /// Takes the value, or says what is wrong with it.
  std::function<std::string(Target&, std::string_view)> apply;
  bool live = false;  ///< SIGHUP takes it up.
};

const std::vector<Setting<Config>>& TopSettings();
const std::vector<Setting<ClusterConfig>>& ClusterSettings();

/// Those of them that are about the security of connections: config_security.cc.
std::vector<Setting<ClusterConfig>> SecuritySettings();
/// What does not go together: key, and why.
std::vector<std::pair<std::string, std::string>> CheckSecurity(const ClusterConfig& cluster);
/// For a key that would hold a secret itself: what to do instead. Empty: it is none.
std::string InlineSecretAdvice(std::string_view key);

inline constexpr std::string_view kClustersKey = "clusters";
inline constexpr std::string_view kLibrdkafkaKey = "librdkafka";

/// Empty, or why this librdkafka property cannot be set on a cluster's producers: Lockstep owns it,
/// or librdkafka refuses it.
std::string CheckLibrdkafkaProperty(const std::string& key, const std::string& value);

}  // namespace lockstep::server
