#include "server/config_schema.h"
#include "base/units.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <iterator>

namespace lockstep::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

template <typename T>
std::string OutOfRange(const T& low, const T& high) {
  return "must be from " + low + " to " + high;
}

template <typename Target>
Setting<Target> DurationSetting(std::string_view key, Duration Target::*field, Duration low,
                                Duration high, std::string_view fallback, std::string_view help) {
  auto apply = [=](Target& target, std::string_view text) -> std::string {
    const auto value = ParseDuration(text);
    if (!value) return value.error().message;
    if (*value < low || *value > high) {
      return OutOfRange(FormatDuration(low), FormatDuration(high)) + ", is " + std::string(text);
    }
    target.*field = *value;
    return {};
  };
  return {key,      "duration, " + FormatDuration(low) + " to " + FormatDuration(high),
          fallback, "",
          help,     apply};
}

template <typename Target>
Setting<Target> SizeSetting(std::string_view key, std::uint64_t Target::*field, std::uint64_t low,
                            std::uint64_t high, std::string_view fallback, std::string_view help) {
  auto apply = [=](Target& target, std::string_view text) -> std::string {
    const auto value = ParseSize(text);
    if (!value) return value.error().message;
    if (*value < low || *value > high) {
      return OutOfRange(FormatSize(low), FormatSize(high)) + ", is " + std::string(text);
    }
    target.*field = *value;
    return {};
  };
  return {key, "size, " + FormatSize(low) + " to " + FormatSize(high), fallback, "", help, apply};
}

template <typename Target, typename Number>
Setting<Target> NumberSetting(std::string_view key, Number Target::*field, Number low, Number high,
                              std::string_view fallback, std::string_view help) {
  auto apply = [=](Target& target, std::string_view text) -> std::string {
    Number value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
      return OutOfRange(std::to_string(low), std::to_string(high)) + ", is '" + std::string(text) +
             "'";
    }
    target.*field = value;
    return {};
  };
  return {key,      "number, " + std::to_string(low) + " to " + std::to_string(high),
          fallback, "",
          help,     apply};
}

std::string ParseListen(ListenAddress& address, std::string_view text) {
  const std::string bad =
      "expected HOST:PORT, such as 127.0.0.1:7420 or [::1]:7420, where port 0 takes any free one; "
      "or unix:PATH with an absolute path of at most 107 bytes; got '" +
      std::string(text) + "'";
  constexpr std::string_view kUnix = "unix:";
  constexpr std::size_t kMaxUnixPath = 107;  // sun_path, with its zero.
  if (text.starts_with(kUnix)) {
    text.remove_prefix(kUnix.size());
    if (text.empty() || text.front() != '/' || text.size() > kMaxUnixPath) return bad;
    address = {.host = {}, .port = 0, .unix_path = std::string(text)};
    return {};
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;
  }
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (problem != std::errc{} || end != port.data() + port.size() || host.empty()) return bad;
  address.host = std::string(host);
  address.unix_path.clear();
  return {};
}

std::string ApplyListen(Config& config, std::string_view text) {
  return ParseListen(config.listen, text);
}

std::string ApplyMetricsListen(Config& config, std::string_view text) {
  config.metrics_listen.reset();
  if (text == "off") return {};
  if (text.starts_with("unix:")) return "must be off or HOST:PORT, is '" + std::string(text) + "'";
  return ParseListen(config.metrics_listen.emplace(), text);
}

std::string ApplyAdminListen(Config& config, std::string_view text) {
  config.admin_listen.reset();
  if (text == "none") return {};
  return ParseListen(config.admin_listen.emplace(), text);
}

/// A file, or none.
template <typename Reach>
Setting<Config> FileSetting(std::string_view key, Reach field, std::string_view help) {
  auto apply = [=](Config& config, std::string_view text) -> std::string {
    std::string& path = field(config);
    path.clear();
    if (text == "none") return {};
    if (text.empty() || text.front() != '/') {
      return "must be none or an absolute path, is '" + std::string(text) + "'";
    }
    path = std::string(text);
    return {};
  };
  return {key, "none, or absolute path", "none", "", help, apply};
}

std::string ApplyDataDir(Config& config, std::string_view text) {
  if (text.empty() || text.front() != '/') {
    return "must be an absolute path, is '" + std::string(text) + "'";
  }
  config.data_dir = std::string(text);
  return {};
}

/// One of a few words.
template <typename Reach>
Setting<Config> ChoiceSetting(std::string_view key, Reach field,
                              std::vector<std::string_view> choices, std::string_view fallback,
                              std::string_view help) {
  std::string list;
  for (const auto choice : choices) list.append(list.empty() ? "" : ", ").append(choice);
  std::string type = list;
  type.replace(type.rfind(", "), 2, " or ");
  auto apply = [=](Config& config, std::string_view text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return "must be one of " + list + "; is '" + std::string(text) + "'";
    }
    std::invoke(field, config) = std::string(text);
    return {};
  };
  return {key, type, fallback, "", help, apply};
}

// It becomes part of a transactional.id, of log lines and of metrics.
std::string ApplyClusterName(ClusterConfig& cluster, std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), allowed)) {
    return "must be 1 to 64 of letters, digits, '.', '_' and '-'; is '" + std::string(text) + "'";
  }
  cluster.name = ClusterName(std::string(text));
  return {};
}

std::string ApplyBootstrapServers(ClusterConfig& cluster, std::string_view text) {
  std::string_view rest = text;
  while (true) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const auto colon = one.rfind(':');
    std::uint16_t port = 0;
    const std::string_view digits =
        colon == std::string_view::npos ? std::string_view() : one.substr(colon + 1);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (problem != std::errc{} || end != digits.data() + digits.size() || port == 0 || colon == 0 ||
        one.find(' ') != std::string_view::npos) {
      return "expected HOST:PORT, or several with commas and no spaces; got '" + std::string(text) +
             "'";
    }
    if (one.size() == rest.size()) break;
    rest.remove_prefix(one.size() + 1);
  }
  cluster.bootstrap_servers = std::string(text);
  return {};
}

std::string ApplyTransactionTimeout(ClusterConfig& cluster, std::string_view text) {
  cluster.transaction_timeout.reset();
  if (text == "auto") return {};
  const auto value = ParseDuration(text);
  if (!value || *value < seconds(10) || *value > hours(24 * 7)) {
    return "must be auto, or a duration from 10s to 7d; is '" + std::string(text) + "'";
  }
  cluster.transaction_timeout = *value;
  return {};
}

Setting<Config> Live(Setting<Config> setting) {
  setting.live = true;
  return setting;
}

constexpr std::uint64_t kKiB = 1u << 10;
constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kGiB = 1u << 30;

std::vector<Setting<Config>> MakeTopSettings() {
  std::vector<Setting<Config>> all;
  all.push_back({"listen", "HOST:PORT, or unix:PATH", "127.0.0.1:7420", "",
                 "Where the API is served. Port 0 takes any free one.", ApplyListen});
  all.push_back({"admin_listen", "none, HOST:PORT, or unix:PATH", "none", "",
                 "Where operators' calls (lockstep.v1.Admin) are served, and all others too; then "
                 "they are served nowhere else. none: by listen.",
                 ApplyAdminListen});
  all.push_back({"metrics.listen", "off, or HOST:PORT", "off", "",
                 "Where /metrics, /livez and /readyz are served over HTTP, to whoever can reach "
                 "it: names of clusters and numbers, no data. Port 0 takes any free one.",
                 ApplyMetricsListen});
  all.push_back(
      ChoiceSetting("plaintext_on", &Config::plaintext_on, {"loopback", "any"}, "loopback",
                    "Where to serve without TLS. loopback: on loopback addresses and Unix "
                    "sockets. any: everywhere, to whoever can read or change what is "
                    "sent; only on a network of your own."));
  all.push_back(FileSetting(
      "tls.certificate_file", [](Config& c) -> std::string& { return c.tls.certificate_file; },
      "The server's certificate with its chain, PEM. The files of this section are read again "
      "within seconds of a change, for connections from then on."));
  all.push_back(FileSetting(
      "tls.key_file", [](Config& c) -> std::string& { return c.tls.key_file; },
      "Its private key, PEM, without a pass phrase."));
  all.push_back(FileSetting(
      "tls.client_ca_file", [](Config& c) -> std::string& { return c.tls.client_ca_file; },
      "Whose client certificates are accepted, PEM. none: no client certificate is asked for."));
  all.push_back(ChoiceSetting(
      "tls.client_certificates",
      [](Config& c) -> std::string& { return c.tls.client_certificates; }, {"required", "optional"},
      "required",
      "With tls.client_ca_file: whether a client without a certificate may connect, to show a "
      "token "
      "instead."));
  all.push_back(FileSetting(
      "policy_file", [](Config& c) -> std::string& { return c.policy_file; },
      "Who may do what (docs/security.md); read again within seconds of a change. none: nobody is "
      "authenticated, and everybody may do everything."));
  all.push_back(FileSetting(
      "audit_log", [](Config& c) -> std::string& { return c.audit_log; },
      "Where to append who decided, resolved, drained and was refused, a JSON object a line. "
      "SIGHUP opens it anew, after a rotation."));
  all.push_back({"data_dir", "absolute path", "", "/var/lib/lockstep",
                 "Folder of the decision log, made if missing. Losing it loses the decisions: put "
                 "it on a disk that survives.",
                 ApplyDataDir});
  all.push_back(ChoiceSetting("allow_data_dir_on", &Config::allow_data_dir_on,
                              {"none", "tmpfs", "overlay"}, "none",
                              "A file system that loses what is on it, and that data_dir may be on "
                              "all the same: for trying things out."));
  all.push_back(Live(ChoiceSetting("log_level", &Config::log_level,
                                   {"trace", "debug", "info", "warn", "error"}, "info",
                                   "The least that is written to stderr.")));
  all.push_back(
      ChoiceSetting("log_format", &Config::log_format, {"text", "json"}, "text",
                    "How: a line of text, or a JSON object with time, level and message."));
  all.push_back(Live(NumberSetting<Config, std::uint64_t>(
      "limits.open_transactions", &Config::open_transactions, 1, 1'000'000, "10000",
      "Transactions begun and not ended.")));
  all.push_back(Live(DurationSetting<Config>(
      "limits.transaction_timeout", &Config::max_transaction_timeout, seconds(1), hours(24 * 7),
      "15m", "The longest timeout that BeginGlobalTxn accepts.")));
  all.push_back(
      Live(SizeSetting<Config>("limits.transaction_bytes", &Config::transaction_bytes, 64 * kKiB,
                               kGiB, "16MiB", "Buffered work of one transaction.")));
  all.push_back(
      Live(SizeSetting<Config>("limits.buffer_bytes", &Config::buffer_bytes, kMiB, 1024 * kGiB,
                               "256MiB", "Buffered work of all transactions together.")));
  all.push_back(Live(NumberSetting<Config, std::uint64_t>(
      "limits.transaction_records", &Config::transaction_records, 1, 10'000'000, "100000",
      "Records and offsets of one transaction.")));
  all.push_back(Live(NumberSetting<Config, std::uint64_t>(
      "limits.batch_transactions", &Config::batch_transactions, 1, 100'000, "1000",
      "Transactions that commit together. 1: each has Kafka transactions of its own.")));
  all.push_back(Live(SizeSetting<Config>(
      "limits.batch_bytes", &Config::batch_bytes, kKiB, kGiB, "1MiB",
      "Buffered work of those that commit together; a transaction of more shares with none, "
      "and is written before Commit.")));
  all.push_back(Live(SizeSetting<Config>(
      "limits.client_buffer_bytes", &Config::client_buffer_bytes, 64 * kKiB, 1024 * kGiB, "128MiB",
      "Buffered work of all transactions begun over one connection.")));
  all.push_back(Live(SizeSetting<Config>(
      "limits.record_bytes", &Config::record_bytes, kKiB, kGiB, "1MiB",
      "One record with key and headers. The brokers have limits of their own.")));
  all.push_back(SizeSetting<Config>("limits.message_bytes", &Config::message_bytes, 64 * kKiB,
                                    1 * kGiB, "4MiB", "One request to the API."));
  all.push_back(Live(NumberSetting<Config, std::uint64_t>(
      "limits.concurrent_calls", &Config::concurrent_calls, 1, 1'000'000, "10000",
      "Calls under way, those that wait for a commit included.")));
  all.push_back(NumberSetting<Config, std::uint64_t>(
      "limits.streams_per_connection", &Config::streams_per_connection, 1, 1'000'000, "10000",
      "Calls under way on one connection; the client's library holds back what is more."));
  all.push_back(SizeSetting<Config>("limits.metadata_bytes", &Config::metadata_bytes, kKiB, kMiB,
                                    "8KiB", "Headers of one call, as HTTP/2 counts them."));
  all.push_back(Live(DurationSetting<Config>(
      "timeouts.prepare", &Config::prepare_timeout, milliseconds(100), minutes(15), "30s",
      "A batch that is not prepared on every cluster by then aborts. A transaction may wait as "
      "long for the one before.")));
  // Not live: it must fit to the clusters' transaction_timeout, which is not either.
  all.push_back(DurationSetting<Config>(
      "timeouts.deadline_margin", &Config::deadline_margin, seconds(1), hours(1), "10s",
      "COMMIT is not decided unless this much remains before Kafka may abort a participant."));
  all.push_back(Live(DurationSetting<Config>(
      "timeouts.shutdown", &Config::shutdown_timeout, Duration(0), hours(1), "30s",
      "On SIGTERM, how long to wait for transactions that are decided.")));
  all.push_back(DurationSetting<Config>(
      "timeouts.handshake", &Config::handshake_timeout, milliseconds(100), minutes(2), "10s",
      "A connection on which TLS and HTTP/2 are not set up by then is closed."));
  all.push_back(DurationSetting<Config>(
      "timeouts.idle_connection", &Config::idle_timeout, seconds(1), hours(24 * 7), "30m",
      "A connection without calls for so long is closed; clients connect anew."));
  all.push_back(DurationSetting<Config>("retention.time", &Config::retention_time, minutes(1),
                                        hours(24 * 365), "7d",
                                        "How long the outcome of a finished transaction is kept."));
  all.push_back(SizeSetting<Config>("retention.bytes", &Config::retention_bytes, kMiB, 1024 * kGiB,
                                    "4GiB",
                                    "The most that kept outcomes may take; oldest go first."));
  return all;
}

std::vector<Setting<ClusterConfig>> MakeClusterSettings() {
  std::vector<Setting<ClusterConfig>> all;
  all.push_back({"name", "1 to 64 of letters, digits, '.', '_' and '-'", "", "east",
                 "What the API calls the cluster. It is part of the names in the decision log: "
                 "never give a name to another cluster.",
                 ApplyClusterName});
  all.push_back({"bootstrap_servers", "HOST:PORT, or several with commas", "", "127.0.0.1:9092",
                 "Brokers to ask first.", ApplyBootstrapServers});
  all.push_back(NumberSetting<ClusterConfig, std::uint32_t>(
      "lanes.min", &ClusterConfig::lanes_min, 1, 256, "4",
      "Transactional producers kept ready. Each costs about four threads."));
  all.push_back(NumberSetting<ClusterConfig, std::uint32_t>(
      "lanes.max", &ClusterConfig::lanes_max, 1, 256, "16",
      "The most of them: as many transactions can be committing on this cluster at once."));
  all.push_back({"transaction_timeout", "auto, or duration, 10s to 7d", "auto", "",
                 "Kafka's transaction.timeout.ms, counted from Commit's first record. auto: the "
                 "brokers' transaction.max.timeout.ms, 15m at most; more than that the brokers "
                 "refuse. Longer survives longer outages between decision and completion; a lost "
                 "data_dir then blocks readers as long.",
                 ApplyTransactionTimeout});
  std::ranges::move(SecuritySettings(), std::back_inserter(all));
  return all;
}

/// `text` as YAML comments, wrapped, each line after `indent`.
std::string Comment(std::string_view text, const std::string& indent) {
  constexpr std::size_t kWidth = 98;
  std::string out;
  std::string line = indent + "#";
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = indent + "#";
    }
    line.append(" ").append(word);
  }
  return out + line + "\n";
}

/// The settings of one map as YAML, at `indent`.
template <typename Target>
std::string Print(const std::vector<Setting<Target>>& settings, const std::string& indent) {
  std::string out;
  std::string section;
  for (const auto& setting : settings) {
    std::string inner = indent;
    std::string_view name = setting.key;
    if (const auto dot = name.find('.'); dot != std::string_view::npos) {
      if (name.substr(0, dot) != section) {
        section = std::string(name.substr(0, dot));
        out += indent + section + ":\n";
      }
      inner += "  ";
      name.remove_prefix(dot + 1);
    }
    out += Comment(std::string(setting.help) + " (" + setting.type + ")", inner);
    const auto value = setting.fallback.empty() ? setting.sample : setting.fallback;
    out += inner + std::string(name) + ": " + std::string(value) + "\n";
  }
  return out;
}

template <typename Target>
void Append(const std::vector<Setting<Target>>& settings, const std::string& prefix,
            std::vector<SettingInfo>& all) {
  for (const auto& setting : settings) {
    all.push_back({prefix + std::string(setting.key), setting.type, std::string(setting.fallback),
                   std::string(setting.help), setting.live});
  }
}

constexpr std::string_view kLibrdkafkaHelp =
    "Properties of librdkafka for the producers of this cluster, passed through: compression, "
    "linger and so on. Those that Lockstep needs for its promises are refused by name.";

}  // namespace

std::vector<SettingInfo> AllSettings() {
  std::vector<SettingInfo> all;
  Append(TopSettings(), "", all);
  Append(ClusterSettings(), "clusters[].", all);
  all.push_back({"clusters[].librdkafka", "map", "{}", std::string(kLibrdkafkaHelp)});
  return all;
}

std::string DefaultConfigText() {
  std::string cluster = Print(ClusterSettings(), "    ");
  // The first comment stays above the list's dash; the name comes first.
  const auto name = cluster.find("    name:");
  cluster.replace(name, 4, "  - ");
  return "# Every setting of lockstepd, with its default. A file needs data_dir and a "
         "cluster.\n\n" +
         Print(TopSettings(), "") + std::string(kClustersKey) + ":\n" + cluster +
         Comment(kLibrdkafkaHelp, "    ") + "    " + std::string(kLibrdkafkaKey) + ": {}\n";
}

const std::vector<Setting<Config>>& TopSettings() {
  static const std::vector<Setting<Config>> all = MakeTopSettings();
  return all;
}

const std::vector<Setting<ClusterConfig>>& ClusterSettings() {
  static const std::vector<Setting<ClusterConfig>> all = MakeClusterSettings();
  return all;
}

}  // namespace lockstep::server
