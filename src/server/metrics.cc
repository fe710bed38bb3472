#include "server/metrics.h"

#include <lockstep/v1/error.pb.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "server/metrics_page.h"
#include "server/process_metrics.h"
#include "server/version.h"

namespace lockstep::server {
namespace {

using coordinator::ClusterState;
using coordinator::ClusterStatus;
using coordinator::Reading;
using txn::AbortReason;
using Page = MetricsPageBuilder;

constexpr auto kCounter = MetricKind::kCounter;
constexpr auto kGauge = MetricKind::kGauge;
constexpr auto kHistogram = MetricKind::kHistogram;

const std::vector<MetricInfo>& Table() {
  static const std::vector<MetricInfo> table = {
      {"lockstep_build_info", kGauge, "version", "Always 1: which version runs."},
      {"lockstep_incarnation", kGauge, "", "Counts the starts on this decision log."},
      {"lockstep_ready", kGauge, "", "1 if /readyz says so, else 0."},
      {"lockstep_draining", kGauge, "",
       "1 while new transactions are refused: stopping, or drained by an operator."},

      {"lockstep_transactions_begun_total", kCounter, "", "Transactions begun."},
      {"lockstep_transactions_ended_total", kCounter, "outcome, reason",
       "Transactions whose outcome became final; the reason is why one aborted, else NONE. Those "
       "that recovery took up are among them."},
      {"lockstep_open_transactions", kGauge, "", "Transactions begun and not ended."},
      {"lockstep_open_transactions_limit", kGauge, "", "limits.open_transactions."},
      {"lockstep_waiting_transactions", kGauge, "",
       "Transactions that are to commit, and wait for the batch before theirs."},
      {"lockstep_batches", kGauge, "",
       "Batches from their begin until nothing is left to do for them."},
      {"lockstep_batch_transactions", kHistogram, "",
       "How many transactions each batch began with."},

      {"lockstep_commit_seconds", kHistogram, "",
       "From Commit to COMMITTED, of each transaction that this start saw commit."},
      {"lockstep_commit_phase_seconds", kHistogram, "phase",
       "Where that time goes. line: each transaction, until its batch begins. Then each batch: "
       "prepare: until every participant votes YES; log: until the decision is durable; complete: "
       "until every participant's end is known."},
      {"lockstep_participant_seconds", kHistogram, "cluster, step",
       "The same on each cluster. prepare: from being asked to the vote; end: from EndTxn to the "
       "broker's OK; markers: from there until its markers are known to be there, which only takes "
       "time where brokers lose them."},
      {"lockstep_visibility_skew_seconds", kHistogram, "",
       "Between the first and the last cluster on which a batch was known to be committed. What "
       "recovery completes is not measured."},

      {"lockstep_in_doubt_transactions", kGauge, "",
       "Transactions that are decided, and whose end is not known everywhere. Each is, for a "
       "moment."},
      {"lockstep_in_doubt_branches", kGauge, "cluster", "The same for each cluster."},
      {"lockstep_in_doubt_oldest_age_seconds", kGauge, "cluster",
       "How long ago the oldest of them was decided; 0 if there is none."},
      {"lockstep_missing_marker_partitions", kGauge, "cluster",
       "Partitions on which a committed transaction's markers are late, or lost (KAFKA-20734): "
       "read_committed consumers wait there."},
      {"lockstep_heuristic_transactions", kGauge, "",
       "HEURISTIC transactions that no operator has acknowledged."},

      {"lockstep_cluster_state", kGauge, "cluster, state",
       "1 for the state in which the cluster is, 0 for the others."},
      {"lockstep_cluster_info", kGauge, "cluster, kafka_cluster_id, transaction_version",
       "Always 1: what the cluster said of itself; empty until it was reached."},
      {"lockstep_lanes", kGauge, "cluster, state",
       "Transactional producers: IDLE, BUSY with a transaction, RENEWING."},
      {"lockstep_lanes_limit", kGauge, "cluster", "lanes.max."},
      {"lockstep_kafka_requests_total", kCounter, "cluster", "Requests sent to its brokers."},

      {"lockstep_buffer_bytes", kGauge, "", "Buffered work of all transactions."},
      {"lockstep_buffer_limit_bytes", kGauge, "", "limits.buffer_bytes."},
      {"lockstep_calls", kGauge, "", "Calls under way, those that wait for a commit included."},
      {"lockstep_calls_limit", kGauge, "", "limits.concurrent_calls."},
      {"lockstep_refused_calls_total", kCounter, "reason",
       "Calls that were answered with an error, by the reason that it names (error.proto)."},

      {"lockstep_log_sync_seconds", kHistogram, "",
       "Each write of the decision log with its sync to the disk."},
      {"lockstep_log_queue", kGauge, "", "Records that wait to be written."},
      {"lockstep_log_decisions", kGauge, "", "Decisions that are kept."},
      {"lockstep_log_kept_bytes", kGauge, "", "What they weigh against retention.bytes."},
      {"lockstep_log_disk_bytes", kGauge, "", "The files of the data folder."},

      {"lockstep_recovery_decisions", kGauge, "", "Decisions that this start found in doubt."},
      {"lockstep_recovery_pending_decisions", kGauge, "", "Of them: not settled yet."},
      {"lockstep_recovery_seconds", kGauge, "",
       "From the start until all of them were settled, or until now."},

      {"process_cpu_seconds_total", kCounter, "", "User and system time of the process."},
      {"process_resident_memory_bytes", kGauge, "", "Its resident memory."},
      {"process_virtual_memory_bytes", kGauge, "", "Its virtual memory."},
      {"process_open_fds", kGauge, "", "Its open files and sockets."},
      {"process_max_fds", kGauge, "", "The most that it may have."},
      {"process_threads", kGauge, "", "Its threads."},
      {"process_start_time_seconds", kGauge, "", "When it started, since the Unix epoch."},
  };
  return table;
}

void Transactions(Page& page, const Reading& reading) {
  const coordinator::Stats& stats = reading.stats;
  page.Set("lockstep_transactions_begun_total", static_cast<double>(stats.begun));
  const auto ended = [&](std::string_view outcome, std::string_view reason, std::uint64_t count) {
    page.Set("lockstep_transactions_ended_total", static_cast<double>(count), {outcome, reason});
  };
  ended("COMMITTED", "NONE", stats.committed);
  ended("HEURISTIC", "NONE", stats.heuristic);
  for (std::size_t reason = 0; reason < stats.aborted.size(); ++reason) {
    ended("ABORTED", Name(static_cast<AbortReason>(reason)), stats.aborted[reason]);
  }
  page.Set("lockstep_open_transactions", static_cast<double>(reading.open_txns));
  page.Set("lockstep_waiting_transactions", static_cast<double>(reading.in_line));
  page.Set("lockstep_batches", static_cast<double>(reading.batches));
  page.Set("lockstep_batch_transactions", stats.batch_txns);
}

void Times(Page& page, const coordinator::Stats& stats) {
  page.Set("lockstep_commit_seconds", stats.commit);
  page.Set("lockstep_commit_phase_seconds", stats.in_line, {"line"});
  page.Set("lockstep_commit_phase_seconds", stats.prepare, {"prepare"});
  page.Set("lockstep_commit_phase_seconds", stats.log, {"log"});
  page.Set("lockstep_commit_phase_seconds", stats.complete, {"complete"});
  for (const auto& [cluster, times] : stats.clusters) {
    page.Set("lockstep_participant_seconds", times.prepare, {cluster.get(), "prepare"});
    page.Set("lockstep_participant_seconds", times.end, {cluster.get(), "end"});
    page.Set("lockstep_participant_seconds", times.markers, {cluster.get(), "markers"});
  }
  page.Set("lockstep_visibility_skew_seconds", stats.skew);
}

void InDoubt(Page& page, const Reading& reading, WallTime now) {
  page.Set("lockstep_in_doubt_transactions", static_cast<double>(reading.in_doubt_txns));
  page.Set("lockstep_heuristic_transactions", static_cast<double>(reading.heuristic_txns));
  for (const auto& [cluster, there] : reading.in_doubt) {
    const std::int64_t age_ms = there.decided_at ? now.ms - there.decided_at->ms : 0;
    page.Set("lockstep_in_doubt_branches", static_cast<double>(there.txns), {cluster.get()});
    page.Set("lockstep_in_doubt_oldest_age_seconds",
             static_cast<double>(std::max<std::int64_t>(age_ms, 0)) / 1000, {cluster.get()});
    page.Set("lockstep_missing_marker_partitions", static_cast<double>(there.missing_markers),
             {cluster.get()});
  }
}

void Cluster(Page& page, const std::string& name, const ClusterStatus& status) {
  for (const ClusterState state :
       {ClusterState::kConnecting, ClusterState::kReady, ClusterState::kUnreachable,
        ClusterState::kMismatch, ClusterState::kRefused}) {
    page.Set("lockstep_cluster_state", status.state == state ? 1 : 0, {name, Name(state)});
  }
  page.Set("lockstep_cluster_info", 1,
           {name, status.kafka_cluster_id.get(), std::to_string(status.transaction_version)});
  page.Set("lockstep_lanes", status.lanes_idle, {name, "IDLE"});
  page.Set("lockstep_lanes", status.lanes_busy, {name, "BUSY"});
  page.Set("lockstep_lanes", status.lanes_renewing, {name, "RENEWING"});
  page.Set("lockstep_lanes_limit", status.lanes_max, {name});
  page.Set("lockstep_kafka_requests_total", static_cast<double>(status.kafka_requests), {name});
}

void Calls(Page& page, const Api& api, const Reading& reading) {
  const auto limits = api.limits.Get();
  page.Set("lockstep_open_transactions_limit", static_cast<double>(limits->coordinator.open_txns));
  page.Set("lockstep_buffer_bytes", static_cast<double>(reading.buffered_bytes));
  page.Set("lockstep_buffer_limit_bytes", static_cast<double>(limits->coordinator.buffer_bytes));
  page.Set("lockstep_calls", static_cast<double>(*api.calls));
  page.Set("lockstep_calls_limit", static_cast<double>(limits->concurrent_calls));
  constexpr std::string_view kPrefix = "REASON_";
  const auto* reasons = v1::Reason_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    const auto& reason = *reasons->value(i);
    page.Set("lockstep_refused_calls_total",
             static_cast<double>(api.refused.count(reason.number())),
             {reason.name().substr(kPrefix.size())});
  }
}

void Log(Page& page, const coordinator::LogStats& log) {
  page.Set("lockstep_log_sync_seconds", log.sync_seconds);
  page.Set("lockstep_log_queue", static_cast<double>(log.queued));
  page.Set("lockstep_log_decisions", static_cast<double>(log.decisions));
  page.Set("lockstep_log_kept_bytes", static_cast<double>(log.kept_bytes));
  page.Set("lockstep_log_disk_bytes", static_cast<double>(log.disk_bytes));
}

void Process(Page& page) {
  const ProcessMetrics process = ReadProcessMetrics();
  page.Set("process_cpu_seconds_total", process.cpu_seconds);
  page.Set("process_resident_memory_bytes", process.resident_bytes);
  page.Set("process_virtual_memory_bytes", process.virtual_bytes);
  page.Set("process_open_fds", process.open_fds);
  page.Set("process_max_fds", process.max_fds);
  page.Set("process_threads", process.threads);
  page.Set("process_start_time_seconds", process.start_time_seconds);
}

void Always(Page& page, bool ready) {
  page.Set("lockstep_build_info", 1, {kVersion});
  page.Set("lockstep_ready", ready ? 1 : 0);
  Process(page);
}

}  // namespace

std::string_view Name(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  std::abort();
}

const std::vector<MetricInfo>& AllMetrics() { return Table(); }

std::string MetricsPage() {
  Page page;
  Always(page, false);
  return page.Text();
}

std::string MetricsPage(const Api& api, const Reading& reading, bool ready, WallTime now) {
  Page page;
  Always(page, ready);
  page.Set("lockstep_incarnation", static_cast<double>(api.log.recovered().incarnation.get()));
  page.Set("lockstep_draining", api.draining || api.drained ? 1 : 0);
  Transactions(page, reading);
  Times(page, reading.stats);
  InDoubt(page, reading, now);
  for (const coordinator::Cluster* cluster : *api.clusters.Get()) {
    Cluster(page, cluster->name().get(), cluster->status());
  }
  Calls(page, api, reading);
  if (const auto log = api.log.Stats(); log.ok()) Log(page, *log);
  page.Set("lockstep_recovery_decisions", static_cast<double>(reading.recovered));
  page.Set("lockstep_recovery_pending_decisions", static_cast<double>(reading.recovering));
  page.Set("lockstep_recovery_seconds", std::chrono::duration<double>(reading.recovery).count());
  return page.Text();
}

}  // namespace lockstep::server
