#include "server/daemon.h"

#include <future>
#include <utility>

namespace lockstep::server {
namespace {

coordinator::CoordinatorOptions OptionsOf(const Config& config) {
  coordinator::CoordinatorOptions options;
  options.limits.open_txns = config.open_transactions;
  options.limits.txn_bytes = config.transaction_bytes;
  options.limits.buffer_bytes = config.buffer_bytes;
  options.limits.max_txn_timeout = config.max_transaction_timeout;
  options.prepare_timeout = config.prepare_timeout;
  options.deadline_margin = config.deadline_margin;
  return options;
}

}  // namespace

Daemon::Daemon(const Config& config, coordinator::DecisionLog& log,
               std::vector<coordinator::Cluster*> clusters, AsioExecutor& executor,
               const SystemClock& clock, coordinator::Callback<Error> on_fatal)
    : config_(config),
      executor_(executor),
      coordinator_(OptionsOf(config), executor, clock, log, clusters, std::move(on_fatal)),
      api_{.coordinator = coordinator_,
           .executor = executor,
           .log = log,
           .clusters = std::move(clusters),
           .limits = {.message_bytes = config.message_bytes,
                      .record_bytes = config.record_bytes,
                      .concurrent_calls = config.concurrent_calls},
           .started_at = clock.WallNow()},
      watch_(coordinator_, executor, clock) {}

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
