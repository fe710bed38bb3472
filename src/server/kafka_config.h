#pragma once

#include "kafka/settings.h"
#include "server/config.h"

namespace lockstep::server {

/// A cluster of the file, as src/kafka takes it.
kafka::ClusterConfig ToKafka(const ClusterConfig& config);

}  // namespace lockstep::server
