#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"
#include "server/api.h"
#include "server/audit_log.h"
#include "server/config.h"
#include "server/gate.h"
#include "server/in_doubt_watch.h"
#include "server/server.h"
#include "server/thread_executor.h"
#include "server/tls.h"

namespace lockstep::server {

/// The running parts of lockstepd around a log and clusters that somebody else made: executor,
/// coordinator, API. One thread; calls may block.
///
/// The order is Listen, Serve, then, once, either Stop or the end of the process.
class Daemon {
 public:
  /// `log` and `clusters` outlive it. `on_fatal` is called on another thread when the log failed;
  /// who waited has been answered by then, and the process must exit.
  Daemon(const Config& config, coordinator::DecisionLog& log,
         std::vector<coordinator::Cluster*> clusters, ThreadExecutor& executor,
         const SystemClock& clock, coordinator::Callback<Error> on_fatal);

  /// Reads certificates and policy, opens the audit log, and takes the port. No cluster has heard
  /// of us yet. kInvalidArgument: a file that the configuration names is not as it must be.
  /// Blocking.
  Status Listen();
  std::uint16_t port() const { return server_->port(); }
  std::uint16_t admin_port() const { return server_->admin_port(); }
  /// For Monitor.
  const Api& api() const { return api_; }

  /// Recovery starts, and the API is served. kFailedPrecondition as in Coordinator::Start.
  Status Serve();

  /// Takes up the limits and timeouts of another configuration: see SettingInfo::live. Once it
  /// serves.
  void Reconfigure(const Config& config);
  /// Takes up certificates and the policy if their files have changed; a mistake in them is logged,
  /// and what was there before goes on. Blocking; once it listens.
  void RereadFiles();
  /// After a rotation.
  void ReopenAuditLog();
  /// Takes another cluster into service, whose name is new; it outlives this. Once it serves.
  void AddCluster(coordinator::Cluster* cluster);

  /// Refuses new transactions, aborts what is undecided; `drained` is called on another thread once
  /// nothing is in flight, which a cluster that is down can put off for ever.
  void Drain(coordinator::Callback<> drained);

  /// Answers whoever still waits (COMMITTING where decided, which stays in the log), closes the
  /// connections and stops the executor. Returns within `grace` and a little.
  void Stop(Duration grace);

 private:
  const Config& config_;
  ThreadExecutor& executor_;
  std::unique_ptr<AuditLog> audit_;
  Gate gate_;
  std::shared_ptr<TlsIdentity> tls_;
  coordinator::Coordinator coordinator_;
  Api api_;
  InDoubtWatch watch_;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::server
