#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "check/finding.h"
#include "server/config.h"

namespace lockstep::check {

/// What transactions are to touch on one cluster; the configuration does not say it.
struct Wanted {
  std::vector<std::string> topics;
  std::vector<std::string> groups;
};

/// Asks one cluster; blocking, for some times `timeout` at most. Changes nothing there.
Section CheckCluster(const server::ClusterConfig& cluster, const server::Config& config,
                     const Wanted& wanted, Duration timeout);

/// How long data_dir's disk takes for a write that survives a power cut. Blocking: about a second.
/// Leaves nothing behind. The folder need not exist: then the one is tried that it would be in.
Section CheckDisk(const server::Config& config);

}  // namespace lockstep::check
