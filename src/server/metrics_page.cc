#include "server/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

namespace lockstep::server {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  std::abort();
}

std::vector<std::string_view> LabelsOf(const MetricInfo& info) {
  std::vector<std::string_view> names;
  for (std::string_view rest = info.labels; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(", "));
    names.push_back(name);
    rest.remove_prefix(std::min(rest.size(), name.size() + 2));
  }
  return names;
}

}  // namespace

MetricsPageBuilder::MetricsPageBuilder() {
  for (const MetricInfo& info : AllMetrics()) {
    families_.push_back({std::string(info.name), std::string(info.help), TypeOf(info.kind), {}});
  }
}

prometheus::ClientMetric& MetricsPageBuilder::Add(std::string_view name, bool histogram,
                                                  LabelValues labels) {
  const auto& infos = AllMetrics();
  const auto info = std::ranges::find(infos, name, &MetricInfo::name);
  if (info == infos.end() || (info->kind == MetricKind::kHistogram) != histogram) std::abort();
  const std::vector<std::string_view> names = LabelsOf(*info);
  if (names.size() != labels.size()) std::abort();
  auto& metric = families_[static_cast<std::size_t>(info - infos.begin())].metric.emplace_back();
  std::ranges::transform(
      names, labels, std::back_inserter(metric.label),
      [](std::string_view label, std::string_view value) {
        return prometheus::ClientMetric::Label{std::string(label), std::string(value)};
      });
  return metric;
}

void MetricsPageBuilder::Set(std::string_view name, double value, LabelValues labels) {
  prometheus::ClientMetric& metric = Add(name, false, labels);
  metric.counter.value = value;  // The family's type says which of the two is told.
  metric.gauge.value = value;
}

void MetricsPageBuilder::Set(std::string_view name, const Histogram& value, LabelValues labels) {
  auto& out = Add(name, true, labels).histogram;
  out.sample_count = value.count();
  out.sample_sum = value.sum();
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < value.counts().size(); ++i) {
    below += value.counts()[i];
    const bool last = i == value.bounds().size();
    out.bucket.push_back(
        {below, last ? std::numeric_limits<double>::infinity() : value.bounds()[i]});
  }
}

std::string MetricsPageBuilder::Text() const {
  std::vector<prometheus::MetricFamily> told;
  std::ranges::copy_if(families_, std::back_inserter(told),
                       [](const auto& family) { return !family.metric.empty(); });
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, told);
  return std::move(out).str();
}

}  // namespace lockstep::server
