#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "server/metrics.h"

namespace lockstep::server {

/// Collects values for the metrics of the table, and writes them down. A name that is not in the
/// table, or other labels than it has, is a defect: abort.
class MetricsPageBuilder {
 public:
  using LabelValues = std::initializer_list<std::string_view>;

  MetricsPageBuilder();
  void Set(std::string_view name, double value, LabelValues labels = {});
  void Set(std::string_view name, const Histogram& value, LabelValues labels = {});
  std::string Text() const;

 private:
  prometheus::ClientMetric& Add(std::string_view name, bool histogram, LabelValues labels);

  std::vector<prometheus::MetricFamily> families_;  // As AllMetrics.
};

}  // namespace lockstep::server
