#include "kafka/settings.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::kafka {
namespace {

struct Owned {
  std::string_view key;
  std::string_view why;
};

constexpr std::string_view kProtocol = "the commit protocol rests on it";
constexpr std::string_view kWaiting = "Lockstep decides how long to wait and when to retry";
constexpr std::string_view kSecurity =
    "security_protocol, tls and sasl of the cluster say it, for all of its connections";
constexpr std::string_view kReports = "Lockstep counts the delivery reports itself";

constexpr Owned kOwned[] = {
    {"bootstrap.servers", "it is the cluster's bootstrap_servers"},
    {"metadata.broker.list", "it is the cluster's bootstrap_servers"},
    {"transactional.id", "Lockstep names its lanes"},
    {"transaction.timeout.ms", "it is the cluster's transaction_timeout"},
    {"enable.idempotence", kProtocol},
    {"enable.gapless.guarantee", kProtocol},
    {"acks", kProtocol},
    {"request.required.acks", kProtocol},
    {"retries", kWaiting},
    {"message.send.max.retries", kWaiting},
    {"message.timeout.ms", kWaiting},
    {"delivery.timeout.ms", kWaiting},
    {"partitioner", "keys go where Java's producers put them (murmur2_random)"},
    {"allow.auto.create.topics", "Lockstep never creates a topic"},
    {"security.protocol", kSecurity},
    {"enable.ssl.certificate.verification", kSecurity},
    {"enable.sasl.oauthbearer.unsecure.jwt", kSecurity},
    {"delivery.report.only.error", kReports},
    {"statistics.interval.ms", "nobody would read the statistics"},
    {"log.queue", "Lockstep routes the log"},
    {"plugin.library.paths", "a plugin could change what the commit protocol rests on"},
};

// Ours where the operator says nothing.
constexpr std::array<std::pair<const char*, const char*>, 5> kDefaults = {{
    // A transaction's records are all there when the first is sent: waiting gains nothing.
    {"linger.ms", "0"},
    // The broker judges what is too large, topic by topic. Batches stay below batch.size (1 MB).
    {"message.max.bytes", "33554432"},
    // A broker that came back should not be waited for.
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.connection.setup.timeout.ms", "3000"},
    // Brokers close idle connections, and we have a word of our own for a cluster that is away.
    {"log.connection.close", "false"},
}};

Status Set(rd_kafka_conf_t* conf, const std::string& key, const std::string& value) {
  char why[512];
  if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), why, sizeof why) == RD_KAFKA_CONF_OK) {
    return {};
  }
  return MakeError(Code::kInvalidArgument, "librdkafka." + key + ": " + why);
}

using Properties = std::vector<std::pair<std::string, std::string>>;

void AddUnlessEmpty(Properties& to, const char* key, const std::string& value) {
  if (!value.empty()) to.emplace_back(key, value);
}

Status AddTls(const wire::TlsConfig& tls, Properties& to) {
  AddUnlessEmpty(to, "ssl.ca.location", tls.ca_file);
  AddUnlessEmpty(to, "ssl.certificate.location", tls.certificate_file);
  AddUnlessEmpty(to, "ssl.key.location", tls.key_file);
  to.emplace_back("ssl.endpoint.identification.algorithm", tls.check_hostname ? "https" : "none");
  if (!tls.key_password.given()) return {};
  auto password = ReadSecret(tls.key_password, "tls.key_password");
  if (!password.ok()) return password.error();
  to.emplace_back("ssl.key.password", *std::move(password));
  return {};
}

Status AddSasl(const wire::SaslConfig& sasl, Properties& to) {
  to.emplace_back("sasl.mechanism", Name(sasl.mechanism));
  if (sasl.mechanism == wire::SaslMechanism::kOauthbearer) return {};
  auto password = ReadSecret(sasl.password, "sasl.password");
  if (!password.ok()) return password.error();
  to.emplace_back("sasl.username", sasl.username);
  to.emplace_back("sasl.password", *std::move(password));
  return {};
}

Status AddSecurity(const wire::SecurityConfig& security, Properties& to) {
  const bool tls = security.tls.has_value();
  const char* with_sasl = tls ? "sasl_ssl" : "sasl_plaintext";
  to.emplace_back("security.protocol", security.sasl ? with_sasl : tls ? "ssl" : "plaintext");
  if (tls) {
    if (Status added = AddTls(*security.tls, to); !added.ok()) return added;
  }
  return security.sasl ? AddSasl(*security.sasl, to) : Status();
}

std::string Join(const std::vector<std::string>& parts, std::string_view by) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : std::string(by)) + part;
  return joined;
}

}  // namespace

std::optional<std::string> OwnedBecause(const std::string& key) {
  for (const Owned& owned : kOwned) {
    if (owned.key == key) return std::string(owned.why);
  }
  const std::string_view text = key;
  if (text.starts_with("ssl.") || text.starts_with("ssl_") || text.starts_with("sasl.")) {
    return std::string(kSecurity);
  }
  // librdkafka would take a pointer in text for these.
  if (text == "opaque" || text == "interceptors" || text == "default_topic_conf" ||
      (text.size() > 3 && text.substr(text.size() - 3) == "_cb")) {
    return "it cannot be given as text";
  }
  return std::nullopt;
}

Status Validate(const ClusterConfig& config) {
  std::vector<std::string> mistakes;
  if (config.bootstrap_servers.empty()) mistakes.emplace_back("bootstrap_servers: none given");
  if (config.lanes_min < 1 || config.lanes_max < config.lanes_min) {
    mistakes.push_back("lanes: min " + std::to_string(config.lanes_min) + " and max " +
                       std::to_string(config.lanes_max) + "; wanted: 1 <= min <= max");
  }
  const ConfPtr scratch(rd_kafka_conf_new());
  for (const auto& [key, value] : config.librdkafka) {
    if (const auto why = OwnedBecause(key)) {
      mistakes.push_back("librdkafka." + key + ": not yours to set, because " + *why);
    } else if (const Status set = Set(scratch.get(), key, value); !set.ok()) {
      mistakes.push_back(set.error().message);
    }
  }
  if (mistakes.empty()) return {};
  return MakeError(Code::kInvalidArgument,
                   "cluster '" + config.name.get() + "': " + Join(mistakes, "; "));
}

Result<ConfPtr> ProducerConf(const ClusterConfig& config, const TransactionalId& id,
                             std::chrono::milliseconds transaction_timeout) {
  Properties settings(kDefaults.begin(), kDefaults.end());
  settings.emplace_back("client.id", id.get());
  // librdkafka refuses one that is longer than the transaction's.
  const auto socket_timeout = std::min(transaction_timeout, std::chrono::milliseconds(10'000));
  settings.emplace_back("socket.timeout.ms", std::to_string(socket_timeout.count()));
  settings.insert(settings.end(), config.librdkafka.begin(), config.librdkafka.end());
  settings.insert(settings.end(),
                  {{"bootstrap.servers", Join(config.bootstrap_servers, ",")},
                   {"transactional.id", id.get()},
                   {"transaction.timeout.ms", std::to_string(transaction_timeout.count())},
                   {"enable.idempotence", "true"},
                   {"acks", "all"},
                   {"partitioner", "murmur2_random"},
                   {"allow.auto.create.topics", "false"}});
  if (Status added = AddSecurity(config.security, settings); !added.ok()) return added.error();
  ConfPtr conf(rd_kafka_conf_new());
  for (const auto& [key, value] : settings) {
    if (Status set = Set(conf.get(), key, value); !set.ok()) return set.error();
  }
  return conf;
}

}  // namespace lockstep::kafka
