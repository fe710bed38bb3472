#include "server/daemon.h"

#include <spdlog/spdlog.h>

#include <future>
#include <string>
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
           .gate = gate_,
           .clusters = std::move(clusters),
           .limits = LimitsOf(config),
           .started_at = clock.WallNow()},
      watch_(coordinator_, executor, clock, api_.traces) {}

Status Daemon::Listen() {
  if (!config_.audit_log.empty()) {
    auto audit = AuditLog::Open(config_.audit_log);
    if (!audit) return MakeError(Code::kInvalidArgument, audit.error().message);
    audit_ = *std::move(audit);
    gate_.SetAudit(audit_.get());
  }
  const std::vector<ConfigMistake> mistakes = gate_.Load(config_.policy_file);
  if (!mistakes.empty()) {
    std::string all;
    for (const ConfigMistake& mistake : mistakes) {
      all += (all.empty() ? "" : "\n") + ToString(mistake, config_.policy_file);
    }
    return MakeError(Code::kInvalidArgument, all);
  }
  if (!config_.tls.certificate_file.empty()) {
    auto tls = TlsIdentity::Load(config_.tls);
    if (!tls) return tls.error();
    tls_ = *std::move(tls);
    spdlog::info("{}: {}", config_.tls.certificate_file, tls_->material()->summary);
  }
  auto server = Server::Listen({.listen = config_.listen,
                                .admin_listen = config_.admin_listen,
                                .tls = tls_,
                                .message_bytes = config_.message_bytes,
                                .metadata_bytes = config_.metadata_bytes,
                                .streams_per_connection = config_.streams_per_connection,
                                .handshake_timeout = config_.handshake_timeout,
                                .idle_timeout = config_.idle_timeout},
                               api_);
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

void Daemon::RereadFiles() {
  if (tls_ != nullptr) {
    const Result<bool> taken = tls_->Reload();
    if (!taken.ok()) {
      spdlog::error("{}: the certificate before goes on", taken.error().message);
    } else if (*taken) {
      spdlog::info("{} is taken up: {}", config_.tls.certificate_file, tls_->material()->summary);
    }
  }
  const auto policy = gate_.Reload();
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&policy)) {
    for (const ConfigMistake& mistake : *mistakes) {
      spdlog::error("{}", ToString(mistake, config_.policy_file));
    }
    spdlog::error("{} is not taken up: the policy before goes on", config_.policy_file);
  } else if (std::get<bool>(policy)) {
    spdlog::info("{} is taken up", config_.policy_file);
  }
}

void Daemon::ReopenAuditLog() {
  if (audit_ != nullptr) audit_->Reopen();
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
