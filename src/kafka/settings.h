#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/security.h"

namespace lockstep::kafka {

/// What a cluster's lanes are made from: the configuration file's part on it.
struct ClusterConfig {
  ClusterName name;
  std::vector<std::string> bootstrap_servers;  ///< "host:port"; at least one.
  int lanes_min = 1;                           ///< Opened as soon as the cluster is ready.
  int lanes_max = 8;                           ///< Opened on demand, up to these.
  /// Kafka's transaction.timeout.ms. None: the brokers' maximum, 15 minutes at most.
  std::optional<std::chrono::milliseconds> transaction_timeout;
  wire::SecurityConfig security;  ///< Of librdkafka's connections and of the wire client's.
  std::map<std::string, std::string> librdkafka;  ///< Passed through; none that Lockstep owns.
  std::size_t max_waiting = 10'000;  ///< Participants that wait for a lane; more are refused.
  Duration request_timeout =
      std::chrono::seconds(5);                      ///< One question to a broker, retries included.
  Duration end_timeout = std::chrono::seconds(10);  ///< A commit or abort, before it is uncertain.
  Duration probe_interval = std::chrono::seconds(5);  ///< How often an idle cluster is looked at.
};

/// kInvalidArgument naming each mistake: a setting that Lockstep owns, that librdkafka does not
/// know, or whose value it does not take; lanes out of order; no address.
Status Validate(const ClusterConfig& config);

struct ConfDeleter {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};
using ConfPtr = std::unique_ptr<rd_kafka_conf_t, ConfDeleter>;

/// librdkafka's configuration of one lane's producer, without callbacks: the cluster's own settings
/// over our defaults, and what Lockstep owns over both. Reads the secrets that it needs; an
/// OAUTHBEARER token is not among them (see token.h).
Result<ConfPtr> ProducerConf(const ClusterConfig& config, const TransactionalId& id,
                             std::chrono::milliseconds transaction_timeout);

/// Why a setting may not be passed through; nothing if it may.
std::optional<std::string> OwnedBecause(const std::string& key);

}  // namespace lockstep::kafka
