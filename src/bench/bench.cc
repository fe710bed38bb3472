#include "bench/bench.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bench/mode.h"
#include "bench/open_transactions.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/server_counters.h"

namespace lockstep::bench {
namespace {

using nlohmann::json;

void Say(const std::string& text) { std::cerr << text << std::endl; }

/// What came of one run, in a line.
std::string Progress(const json& figures) {
  std::string text = figures["committed"].dump() + " transactions, p50 " +
                     std::to_string(figures["latency_us"]["p50"].get<int>()) + " us";
  if (figures.contains("failed")) {
    text +=
        ", FAILED " + figures["failed"].dump() + ": " + figures["first_failure"].get<std::string>();
  }
  if (figures.contains("dropped")) text += ", DROPPED " + figures["dropped"].dump();
  return text;
}

/// All counters that a run is measured by, as they stand.
struct Counters {
  std::map<std::string, std::chrono::microseconds> cpu;
  ServerCounts server;
  std::uint64_t own_requests = 0;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    for (const auto& [name, pid] : options.pids) {
      if (!CpuTime(pid)) {
        throw std::runtime_error("--pid " + name + ": there is no process " + std::to_string(pid));
      }
    }
    if (!options.server.empty()) AwaitServer();
    for (const std::string& name : options.modes) {
      Say("connecting for " + name);
      modes_.emplace_back(name, MakeMode(name, options));
    }
  }

  json Run() {
    json report = {{"schema", kSchema}, {"options", OptionsJson()}, {"rounds", json::object()}};
    report["server_version"] = server_version_;
    report["started_at_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
    report["rss_mib_at_start"] = Resident();
    for (const auto& [name, mode] : modes_) WarmUp(name, *mode);
    for (int round = 1; round <= options_.rounds; ++round) {
      for (const auto& [name, mode] : modes_) {
        json figures = RunOnce(*mode, PaceOf(name), RecordsOf(name));
        Say("round " + std::to_string(round) + " of " + std::to_string(options_.rounds) + ", " +
            name + ": " + Progress(figures));
        report["rounds"][name].push_back(std::move(figures));
      }
    }
    report["summary"] = Summarise(report["rounds"]);
    report["ratios"] = Ratios(report["rounds"]);
    if (options_.open_transactions > 0) {
      Say("opening " + std::to_string(options_.open_transactions) + " transactions");
      report["open_transactions"] = MeasureOpenTransactions(options_);
    }
    return report;
  }

 private:
  void AwaitServer() {
    server_.emplace(options_.server, options_.security);
    std::vector<std::string> clusters;
    for (const Cluster& cluster : options_.work.clusters) clusters.push_back(cluster.name);
    server_version_ = server_->AwaitReady(clusters);
  }

  Pace PaceOf(const std::string& mode) const {
    Pace pace = options_.pace;
    if (IsLarge(mode)) pace.per_second = 0;
    return pace;
  }

  /// In one transaction, on all clusters together.
  double RecordsOf(const std::string& mode) const {
    if (mode == "call") return 0;
    const int records = IsLarge(mode) ? options_.work.large_records : options_.work.records;
    return static_cast<double>(records) * static_cast<double>(options_.work.clusters.size());
  }

  void WarmUp(const std::string& name, Mode& mode) {
    if (options_.warmup.count() == 0) return;
    Say("warming " + name);
    Pace pace = PaceOf(name);
    pace.length = options_.warmup;
    const json figures = RunOnce(mode, pace, RecordsOf(name));
    if (figures["committed"] == 0) {
      throw std::runtime_error(name + ": nothing committed: " + figures.value("first_failure", ""));
    }
  }

  /// `records`: in one transaction.
  json RunOnce(Mode& mode, const Pace& pace, double records) {
    const Counters before = Count(mode);
    const TimePoint start = Clock::now();
    Tickets tickets(pace, start);
    const auto recorder = std::make_unique<Recorder>();
    mode.Run(tickets, *recorder);
    const std::chrono::duration<double> took = Clock::now() - start;
    const Counters after = Count(mode);

    const auto committed = static_cast<double>(recorder->committed());
    json figures = {{"seconds", took.count()},
                    {"committed", recorder->committed()},
                    {"transactions_per_second", committed / took.count()},
                    {"latency_us", Latencies(recorder->latency())},
                    {"rss_mib", Resident()}};
    if (records > 0) figures["records_per_second"] = committed * records / took.count();
    if (recorder->commit().count() > 0) figures["commit_us"] = Latencies(recorder->commit());
    if (recorder->failed() > 0) {
      figures["failed"] = recorder->failed();
      figures["first_failure"] = recorder->FirstFailure();
    }
    if (tickets.Dropped() > 0) figures["dropped"] = tickets.Dropped();
    if (committed > 0) AddCosts(before, after, committed, figures);
    return figures;
  }

  /// Each divided by the transactions that committed.
  static void AddCosts(const Counters& before, const Counters& after, double committed,
                       json& figures) {
    for (const auto& [name, cpu] : after.cpu) {
      const auto found = before.cpu.find(name);
      if (found == before.cpu.end()) continue;
      figures["cpu_us"][name] = static_cast<double>((cpu - found->second).count()) / committed;
    }
    const std::uint64_t syncs = after.server.syncs - before.server.syncs;
    if (syncs > 0) figures["syncs"] = static_cast<double>(syncs) / committed;
    const std::uint64_t requests = after.server.kafka_requests - before.server.kafka_requests +
                                   after.own_requests - before.own_requests;
    if (requests > 0) figures["kafka_requests"] = static_cast<double>(requests) / committed;
  }

  Counters Count(const Mode& mode) {
    Counters counters;
    for (const auto& [name, pid] : options_.pids) {
      if (const auto cpu = CpuTime(pid)) counters.cpu[name] = *cpu;
    }
    counters.cpu["lockstep-bench"] = CpuTime(getpid()).value_or(std::chrono::microseconds(0));
    if (server_) counters.server = server_->Read();
    counters.own_requests = mode.KafkaRequests();
    return counters;
  }

  json Resident() const {
    json all = json::object();
    for (const auto& [name, pid] : options_.pids) {
      if (const auto mib = ResidentMiB(pid)) all[name] = *mib;
    }
    return all;
  }

  json OptionsJson() const {
    std::vector<std::string> clusters;
    for (const Cluster& cluster : options_.work.clusters) clusters.push_back(cluster.name);
    const Work& work = options_.work;
    return {{"modes", options_.modes},
            {"clusters", clusters},
            {"partitions", work.partitions},
            {"records", work.records},
            {"large_records", work.large_records},
            {"bytes", work.bytes},
            {"rate", options_.pace.per_second},
            {"seconds", std::chrono::duration<double>(options_.pace.length).count()},
            {"count", options_.pace.count},
            {"rounds", options_.rounds},
            {"threads", options_.threads},
            {"large_threads", options_.large_threads},
            {"clients", options_.clients},
            {"in_flight", options_.in_flight},
            {"message", options_.message},
            {"plain_producers", options_.plain_producers},
            {"librdkafka", options_.librdkafka}};
  }

  const Options& options_;
  std::optional<ServerCounters> server_;
  std::string server_version_;
  std::vector<std::pair<std::string, std::unique_ptr<Mode>>> modes_;
};

}  // namespace

json RunBench(const Options& options) { return Bench(options).Run(); }

bool AllWell(const json& report) {
  for (const auto& [mode, rounds] : report["rounds"].items()) {
    for (const json& figures : rounds) {
      if (figures.contains("failed") || figures.contains("dropped")) return false;
    }
  }
  return true;
}

}  // namespace lockstep::bench
