#include "server/kafka_config.h"

#include <algorithm>
#include <string_view>

namespace lockstep::server {

kafka::ClusterConfig ToKafka(const ClusterConfig& config) {
  kafka::ClusterConfig out;
  out.name = config.name;
  std::string_view rest = config.bootstrap_servers;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    out.bootstrap_servers.emplace_back(one);
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  out.lanes_min = static_cast<int>(config.lanes_min);
  out.lanes_max = static_cast<int>(config.lanes_max);
  if (config.transaction_timeout) {
    out.transaction_timeout =
        std::chrono::duration_cast<std::chrono::milliseconds>(*config.transaction_timeout);
  }
  out.security = SecurityOf(config);
  out.librdkafka = config.librdkafka;
  return out;
}

}  // namespace lockstep::server
