#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/client.h"

namespace lockstep::bench {

/// What lockstepd counts since its start.
struct ServerCounts {
  std::uint64_t syncs = 0;           ///< Of its decision log.
  std::uint64_t kafka_requests = 0;  ///< To all clusters.
};

/// Asks one lockstepd for them. One thread.
class ServerCounters {
 public:
  ServerCounters(const std::string& server, const client::Security& security);
  ~ServerCounters();
  ServerCounters(const ServerCounters&) = delete;
  ServerCounters& operator=(const ServerCounters&) = delete;

  /// Its version. Blocks until it answers; throws std::runtime_error, for people, after 30 s, or
  /// where a cluster that is named is not ready by then.
  std::string AwaitReady(const std::vector<std::string>& clusters);
  /// Throws where it does not answer.
  ServerCounts Read();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::bench
