#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "server/api.h"
#include "server/config.h"

namespace lockstep::server {

/// The gRPC server: both services, health and reflection. Owns nothing but the sockets and gRPC's
/// threads. One thread at a time. Destroyed only once it was shut down and the executor stopped.
class Server {
 public:
  struct Options {
    ListenAddress listen;
    std::size_t message_bytes = 4u << 20;
  };

  /// Listens; calls are answered UNAVAILABLE until Open. `api` outlives the server. The port is not
  /// shared with another process. kUnavailable, naming why, if it cannot be listened on.
  static Result<std::unique_ptr<Server>> Listen(const Options& options, Api& api);
  ~Server();

  /// The real one, also if 0 was asked for.
  std::uint16_t port() const;

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
