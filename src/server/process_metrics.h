#pragma once

namespace lockstep::server {

/// What /proc says of this process, under the names that Prometheus's own clients use. Base units.
struct ProcessMetrics {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
  double threads = 0;
  double start_time_seconds = 0;  ///< Since the Unix epoch.
};

/// What cannot be read stays 0. Blocking, for a moment.
ProcessMetrics ReadProcessMetrics();

}  // namespace lockstep::server
