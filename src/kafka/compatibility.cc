#include "kafka/compatibility.h"

#include <librdkafka/rdkafka.h>

namespace lockstep::kafka {

std::optional<std::string> ScramProblem(const ClusterConfig& config,
                                        const wire::ClusterFacts& facts) {
  constexpr int kMended = 0x020601ff;
  const bool scram = config.security.sasl && IsScram(config.security.sasl->mechanism);
  if (!scram || !facts.checks_scram_nonce || rd_kafka_version() >= kMended) return std::nullopt;
  return std::string("librdkafka ") + rd_kafka_version_str() +
         " cannot log in by SCRAM to Kafka 4.3 and later, which some broker here is. Run with "
         "librdkafka 2.6.1 or later (Debian 13 has it), or set sasl.mechanism to PLAIN (with "
         "SASL_SSL) or OAUTHBEARER";
}

}  // namespace lockstep::kafka
