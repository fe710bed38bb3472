#include "kafka/settings.h"
#include "server/config_schema.h"

namespace lockstep::server {

std::string CheckLibrdkafkaProperty(const std::string& key, const std::string& value) {
  if (const auto because = kafka::OwnedBecause(key)) return "not yours to set: " + *because;
  // Each on its own, so that every mistake is found and named.
  kafka::ClusterConfig config;
  config.name = ClusterName("check");
  config.bootstrap_servers = {"127.0.0.1:9092"};
  config.librdkafka = {{key, value}};
  const Status status = kafka::Validate(config);
  if (status.ok()) return {};
  const std::string& message = status.error().message;
  const auto reason = message.find(key + ": ");
  return reason == std::string::npos ? message : message.substr(reason + key.size() + 2);
}

}  // namespace lockstep::server
