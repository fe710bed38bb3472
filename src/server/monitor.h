#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "coordinator/ports.h"
#include "coordinator/stats.h"
#include "server/api.h"
#include "server/http_server.h"

namespace lockstep::server {

/// What operators' machines ask, over HTTP, from before the decision log is opened:
///   /metrics  for Prometheus: docs/metrics.md.
///   /livez    200 while the coordinator's thread answers; what does not should be restarted.
///   /readyz   200 while new transactions are taken; else 503, saying why not.
///   /         these.
class Monitor {
 public:
  /// What recovery found in doubt keeps a server from being ready for so long at most: a cluster
  /// that stays away must not keep it from serving the others.
  static constexpr Duration kRecoveryPatience = std::chrono::seconds(30);

  /// `clock` outlives it. kUnavailable, naming why, if it cannot be listened on.
  static Result<std::unique_ptr<Monitor>> Listen(const ListenAddress& address,
                                                 const coordinator::Clock& clock);
  std::uint16_t port() const { return server_->port(); }

  /// Tells of a daemon, from now until it is destroyed.
  class Watch {
   public:
    /// Both outlive it.
    Watch(Monitor& monitor, const Api& api) : monitor_(monitor) { monitor_.Set(&api); }
    ~Watch() { monitor_.Set(nullptr); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Monitor& monitor_;
  };

 private:
  explicit Monitor(const coordinator::Clock& clock) : clock_(clock) {}
  void Set(const Api* api);
  void Handle(const HttpRequest& request, const HttpServer::Respond& respond);
  /// On the server's thread.
  HttpResponse Render(const std::string& path, const coordinator::Reading& reading);

  const coordinator::Clock& clock_;
  std::mutex mutex_;
  const Api* api_ = nullptr;            // Guarded by mutex_, and so is what it refers to.
  std::unique_ptr<HttpServer> server_;  // Last: it calls the others.
};

}  // namespace lockstep::server
