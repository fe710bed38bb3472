#pragma once

#include <optional>
#include <string>

#include "kafka/settings.h"
#include "wire/types.h"

namespace lockstep::kafka {

/// Brokers from 4.3 on check the nonce in SCRAM's last message, which librdkafka got wrong until
/// 2.6.1. Nothing, or why the pair cannot work and what to do.
std::optional<std::string> ScramProblem(const ClusterConfig& config,
                                        const wire::ClusterFacts& facts);

}  // namespace lockstep::kafka
