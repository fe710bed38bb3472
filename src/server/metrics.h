#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/stats.h"
#include "server/api.h"

/// What lockstepd tells Prometheus. One table of metrics is the schema: nothing else can be told,
/// and docs/metrics.md, the alerts and the dashboard are tested against it.
namespace lockstep::server {

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };
std::string_view Name(MetricKind kind);

struct MetricInfo {
  std::string_view name;
  MetricKind kind = MetricKind::kGauge;
  std::string_view labels;  ///< Their names, with commas.
  std::string_view help;
};
const std::vector<MetricInfo>& AllMetrics();

/// The page in Prometheus's text format, while the log is opened: of the process alone.
std::string MetricsPage();
/// The whole page. Blocking: looks at the files of the log's folder, and of /proc.
std::string MetricsPage(const Api& api, const coordinator::Reading& reading, bool ready,
                        WallTime now);

}  // namespace lockstep::server
