#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "server/api.h"
#include "server/config.h"
#include "server/tls.h"

namespace lockstep::server {

/// The gRPC server: both services, health and reflection, on one listener, or the operators'
/// service on a second one of its own. Owns nothing but the sockets and gRPC's threads. One thread
/// at a time. Destroyed only once it was shut down and the executor stopped.
class Server {
 public:
  struct Options {
    ListenAddress listen;
    std::optional<ListenAddress> admin_listen;  ///< Where Admin is served then, and only there.
    std::shared_ptr<TlsIdentity> tls;           ///< Null: in plain text.
    std::size_t message_bytes = 4u << 20;
    std::size_t metadata_bytes = 8u << 10;
    std::size_t streams_per_connection = 10'000;
    Duration handshake_timeout = std::chrono::seconds(10);
    Duration idle_timeout = std::chrono::minutes(30);
  };

  /// Listens; calls are answered UNAVAILABLE until Open. `api` outlives the server. The port is not
  /// shared with another process. kUnavailable, naming why, if it cannot be listened on.
  static Result<std::unique_ptr<Server>> Listen(const Options& options, Api& api);
  ~Server();

  /// The real one, also if 0 was asked for. Of `listen`, and of `admin_listen` (0: none).
  std::uint16_t port() const;
  std::uint16_t admin_port() const;

  /// Serves, and says so to health checks.
  void Open();
  /// Health checks say NOT_SERVING from now on; calls go on.
  void Drain();
  /// Commits that still wait for COMPLETE are answered COMMITTING.
  void AnswerDecided();
  /// Takes no new call, waits `grace` for those under way, then cancels them. Blocks until every
  /// call is answered: the executor must still run. A second call does nothing.
  void Shutdown(Duration grace);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
