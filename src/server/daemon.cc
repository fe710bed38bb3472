#include "server/daemon.h"

#include <future>
#include <utility>

namespace lockstep::server {
namespace {

coordinator::CoordinatorOptions OptionsOf(const Config& config) {
  coordinator::CoordinatorOptions options;
  options.limits.open_txns = config.open_transactions;
  options.limits.txn_bytes = config.transaction_bytes;
  options.limits.txn_records = config.transaction_records;
  options.limits.batch_txns = config.batch_transactions;
  options.limits.batch_bytes = config.batch_bytes;
  options.limits.client_buffer_bytes = config.client_buffer_bytes;
  options.limits.buffer_bytes = config.buffer_bytes;
  options.limits.max_txn_timeout = config.max_transaction_timeout;
  options.prepare_timeout = config.prepare_timeout;
  options.deadline_margin = config.deadline_margin;
  return options;
}

ApiLimits LimitsOf(const Config& config) {
  return {.coordinator = OptionsOf(config).limits,
          .message_bytes = config.message_bytes,
          .record_bytes = config.record_bytes,
          .concurrent_calls = config.concurrent_calls,
          .backup_patience = config.backup_patience};
}

}  // namespace

Daemon::Daemon(const Config& config, coordinator::DecisionLog& log,
               std::vector<coordinator::Cluster*> clusters, ThreadExecutor& executor,
               const SystemClock& clock, coordinator::Callback<Error> on_fatal)
    : config_(config),
      executor_(executor),
      coordinator_(OptionsOf(config), executor, clock, log, clusters, std::move(on_fatal)),
      api_{.coordinator = coordinator_,
           .executor = executor,
           .log = log,
           .clusters = std::move(clusters),
           .limits = LimitsOf(config),
           .started_at = clock.WallNow()},
      watch_(coordinator_, executor, clock, api_.traces) {}

Status Daemon::Listen() {
  auto server =
      Server::Listen({.listen = config_.listen, .message_bytes = config_.message_bytes}, api_);
  if (!server) return server.error();
  server_ = *std::move(server);
  return {};
}

Status Daemon::Serve() {
  // On the executor, as everything that the clusters are told.
  std::promise<Status> started;
  executor_.Post([&] { started.set_value(coordinator_.Start()); });
  if (Status status = started.get_future().get(); !status.ok()) return status;
  watch_.Start();
  server_->Open();
  return {};
}

void Daemon::Reconfigure(const Config& config) {
  coordinator_.Reconfigure(OptionsOf(config));
  ApiLimits limits = LimitsOf(config);
  limits.message_bytes = config_.message_bytes;  // gRPC's, for as long as it listens.
  api_.limits.Set(limits);
}

void Daemon::AddCluster(coordinator::Cluster* cluster) {
  coordinator_.AddCluster(cluster);
  // In this order: a call that finds it configured finds it in the coordinator.
  std::vector<coordinator::Cluster*> clusters = *api_.clusters.Get();
  clusters.push_back(cluster);
  api_.clusters.Set(std::move(clusters));
}

void Daemon::Drain(coordinator::Callback<> drained) {
  api_.draining = true;
  server_->Drain();
  coordinator_.Drain(std::move(drained));
}

void Daemon::Stop(Duration grace) {
  server_->AnswerDecided();
  server_->Shutdown(grace);
  executor_.Stop();
}

}  // namespace lockstep::server
