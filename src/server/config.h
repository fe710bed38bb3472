#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "wire/security.h"

/// The configuration file of lockstepd: YAML, checked whole before anything starts. One table of
/// settings (config.cc) is the schema: it gives the checks, the defaults, `--print-defaults`, and
/// what docs/configuration.md is tested against.
namespace lockstep::server {

struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any free one.
  std::string unix_path;   ///< Of a Unix socket, instead.
};
/// "127.0.0.1:7420", "[::1]:7420", "unix:/run/lockstep.sock".
std::string ToString(const ListenAddress& address);
/// A loopback address, or a Unix socket: no other machine can get there.
bool StaysOnMachine(const ListenAddress& address);

/// PEM files; empty: none.
struct TlsFiles {
  std::string certificate_file;  ///< With its chain. Empty: no TLS.
  std::string key_file;
  std::string client_ca_file;       ///< Empty: no client certificates are asked for.
  std::string client_certificates;  ///< "required" or "optional".
};

struct ClusterConfig {
  ClusterName name;
  std::string bootstrap_servers;
  std::uint32_t lanes_min = 0;
  std::uint32_t lanes_max = 0;
  std::optional<Duration> transaction_timeout;  ///< None: the brokers' maximum, 15 minutes at most.
  std::string security_protocol;                ///< Kafka's name; see SecurityOf.
  wire::TlsConfig tls;                          ///< In force with SSL and SASL_SSL.
  bool has_sasl_mechanism = false;
  wire::SaslConfig sasl;                          ///< In force with SASL_PLAINTEXT and SASL_SSL.
  std::map<std::string, std::string> librdkafka;  ///< Passed through; none that Lockstep owns.
  /// What the file says of it, by key ("lanes.min", "librdkafka.linger.ms"); no defaults.
  std::map<std::string, std::string> given;
};

/// What of it is in force.
wire::SecurityConfig SecurityOf(const ClusterConfig& cluster);

struct Config {
  ListenAddress listen;
  std::optional<ListenAddress> admin_listen;  ///< None: operators' calls are served by `listen`.
  std::string plaintext_on;                   ///< "loopback" or "any".
  TlsFiles tls;
  std::string policy_file;                      ///< Empty: nobody is authenticated.
  std::string audit_log;                        ///< Empty: none is written.
  std::optional<ListenAddress> metrics_listen;  ///< None: metrics are off.
  std::string data_dir;
  std::string allow_data_dir_on;  ///< "none", "tmpfs" or "overlay".
  std::string log_level;          ///< A name that spdlog knows.
  std::string log_format;         ///< "text" or "json".
  std::vector<ClusterConfig> clusters;

  std::uint64_t open_transactions = 0;
  std::uint64_t transaction_bytes = 0;
  std::uint64_t transaction_records = 0;
  std::uint64_t batch_transactions = 0;
  std::uint64_t batch_bytes = 0;
  std::uint64_t client_buffer_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t message_bytes = 0;
  std::uint64_t concurrent_calls = 0;
  std::uint64_t streams_per_connection = 0;
  std::uint64_t metadata_bytes = 0;

  Duration max_transaction_timeout{};
  Duration prepare_timeout{};
  Duration deadline_margin{};
  Duration shutdown_timeout{};
  Duration handshake_timeout{};
  Duration idle_timeout{};

  Duration retention_time{};
  std::uint64_t retention_bytes = 0;

  /// How long a backup waits for its reader. Not in the file.
  Duration backup_patience = std::chrono::minutes(1);

  /// What the file says beside the clusters, by key ("limits.buffer_bytes"); no defaults.
  std::map<std::string, std::string> given;
};

struct ConfigMistake {
  int line = 0;         ///< From 1. 0: of no line, such as a file that cannot be read.
  std::string key;      ///< As "clusters[1].lanes.min"; empty where no key is to blame.
  std::string message;  ///< What is wrong and what is allowed.
};
/// "lockstep.yaml:12: clusters[1].lanes.min: expected ..."
std::string ToString(const ConfigMistake& mistake, std::string_view file);

/// The configuration, or every mistake in it, in the order of their lines.
using ConfigResult = std::variant<Config, std::vector<ConfigMistake>>;
ConfigResult ParseConfig(const std::string& yaml);
/// Blocking.
ConfigResult LoadConfig(const std::string& path);

/// What a new file means for a lockstepd that runs by an older one.
struct ConfigChange {
  std::vector<std::string> live;     ///< Keys that take effect at once.
  std::vector<std::string> restart;  ///< Keys that need a restart; "lanes.max of cluster 'west'".
  std::vector<ClusterConfig> added;
  std::vector<ClusterName> removed;  ///< Need a restart too.
};
/// Compares by the clusters' names, not by their places in the list. Pure.
ConfigChange Compare(const Config& running, const Config& fresh);
/// `running` with all of `fresh` that takes effect at once, added clusters included.
Config TakeUp(const Config& running, const Config& fresh);

/// One setting of the schema, for documentation.
struct SettingInfo {
  std::string key;       ///< As "limits.buffer_bytes", "clusters[].lanes.min".
  std::string type;      ///< As "size, 1MiB to 1TiB".
  std::string fallback;  ///< The default, as text; empty if it must be given.
  std::string help;
  bool live = false;  ///< SIGHUP takes it up; else it needs a restart.
};
std::vector<SettingInfo> AllSettings();

/// A complete file with every default and what each setting means: `--print-defaults`. Parses.
std::string DefaultConfigText();

}  // namespace lockstep::server
