#include "bench/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::bench {
namespace {

using nlohmann::json;
using Numbers = std::map<std::string, double>;

/// The numbers in it, by their path: "latency_us/p50".
Numbers NumbersIn(const json& figures) {
  Numbers numbers;
  const json flat = figures.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (value.is_number()) numbers[pointer.substr(1)] = value.get<double>();
  }
  return numbers;
}

json Spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {{"min", values.front()}, {"median", median}, {"max", values.back()}};
}

json SpreadOfEach(const std::vector<Numbers>& rounds) {
  std::map<std::string, std::vector<double>> by_name;
  for (const Numbers& numbers : rounds) {
    for (const auto& [name, value] : numbers) by_name[name].push_back(value);
  }
  json spreads = json::object();
  for (auto& [name, values] : by_name) spreads[name] = Spread(std::move(values));
  return spreads;
}

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char line[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

std::string Row(const std::string& name, const json& spread, double factor, const char* unit) {
  const double median = spread["median"].get<double>() * factor;
  const int digits = median < 10 ? 3 : median < 1000 ? 1 : 0;
  return Format("  %-34s %11.*f %11.*f %11.*f  %s\n", name.c_str(), digits,
                spread["min"].get<double>() * factor, digits, median, digits,
                spread["max"].get<double>() * factor, unit);
}

/// How a figure is told: what is not listed is in the JSON only.
struct Told {
  const char* path;  // Or the start of one: what follows is part of the name.
  const char* name;
  double factor;
  const char* unit;
};
constexpr Told kTold[] = {
    {"transactions_per_second", "transactions", 1, "/s"},
    {"records_per_second", "records", 1, "/s"},
    {"latency_us/p50", "latency p50", 1e-3, "ms"},
    {"latency_us/p90", "latency p90", 1e-3, "ms"},
    {"latency_us/p99", "latency p99", 1e-3, "ms"},
    {"latency_us/p999", "latency p99.9", 1e-3, "ms"},
    {"latency_us/max", "latency max", 1e-3, "ms"},
    {"commit_us/p50", "of it Commit p50", 1e-3, "ms"},
    {"commit_us/p99", "of it Commit p99", 1e-3, "ms"},
    {"cpu_us/", "CPU a transaction, ", 1, "us"},
    {"syncs", "log syncs a transaction", 1, ""},
    {"kafka_requests", "Kafka requests a transaction", 1, ""},
    {"rss_mib/", "resident memory after, ", 1, "MiB"},
    {"failed", "FAILED", 1, ""},
    {"dropped", "DROPPED, as all workers were busy", 1, ""},
};
constexpr const char* kRatios[][2] = {{"transactions_per_second", "transactions"},
                                      {"latency_us/p50", "latency p50"},
                                      {"latency_us/p99", "latency p99"},
                                      {"commit_us/p50", "Commit p50"},
                                      {"commit_us/p99", "Commit p99"}};

std::string RowsOf(const json& summary) {
  std::string rows;
  for (const Told& told : kTold) {
    for (const auto& [path, spread] : summary.items()) {
      const std::string_view wanted = told.path;
      const bool whole = path == wanted;
      if (!whole && !(wanted.back() == '/' && path.starts_with(wanted))) continue;
      rows += Row(told.name + path.substr(whole ? path.size() : wanted.size()), spread, told.factor,
                  told.unit);
    }
  }
  return rows;
}

}  // namespace

json Latencies(const Histogram& histogram) {
  const auto us = [](Histogram::Value value) { return static_cast<double>(value.count()) / 1000; };
  return {{"p50", us(histogram.Percentile(0.5))},
          {"p90", us(histogram.Percentile(0.9))},
          {"p99", us(histogram.Percentile(0.99))},
          {"p999", us(histogram.Percentile(0.999))},
          {"max", us(histogram.max())},
          {"mean", us(histogram.Mean())}};
}

json Summarise(const json& rounds) {
  json summary = json::object();
  for (const auto& [mode, each] : rounds.items()) {
    std::vector<Numbers> numbers;
    for (const json& figures : each) numbers.push_back(NumbersIn(figures));
    summary[mode] = SpreadOfEach(numbers);
  }
  return summary;
}

json Ratios(const json& rounds) {
  json ratios = json::object();
  for (const auto& [mode, each] : rounds.items()) {
    const std::string base = BaseOf(mode);
    if (mode == base || !rounds.contains(base)) continue;
    std::vector<Numbers> numbers;
    for (std::size_t round = 0; round < each.size(); ++round) {
      const Numbers below = NumbersIn(rounds[base][round]);
      Numbers& quotients = numbers.emplace_back();
      for (const auto& [name, value] : NumbersIn(each[round])) {
        // The plain pair's transaction is its commit: there is nothing before it.
        const std::string other =
            name.starts_with("commit_us/") ? "latency_us/" + name.substr(10) : name;
        const auto found = below.find(other);
        if (found != below.end() && found->second != 0) quotients[name] = value / found->second;
      }
    }
    ratios[mode] = SpreadOfEach(numbers);
  }
  return ratios;
}

std::string Table(const json& report) {
  std::string text = Format("  %-34s %11s %11s %11s\n", "", "min", "median", "max");
  for (const json& name : report["options"]["modes"]) {
    const auto mode = name.get<std::string>();
    text += mode + "\n" + RowsOf(report["summary"][mode]);
    if (!report["ratios"].contains(mode)) continue;
    for (const auto& [path, title] : kRatios) {
      const json& spreads = report["ratios"][mode];
      if (spreads.contains(path)) {
        text += Row(std::string(title) + ", to " + BaseOf(mode), spreads[path], 1, "x");
      }
    }
  }
  return text;
}

}  // namespace lockstep::bench
