#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/config.h"

namespace lockstep::server {

struct HttpRequest {
  std::string path;  ///< Without the query.
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// A small HTTP/1.1 server for what operators and their machines read: GET and HEAD, no bodies. All
/// connections live on one thread of its own, so that slow or silent ones cost the others nothing:
/// each has 10 s for a request, and as long to take the answer; there are 256 of them at most.
class HttpServer {
 public:
  using Render = std::function<HttpResponse()>;
  /// Answers one request: has `render` run on the server's thread, which it may block for a moment.
  /// Any thread; the first call counts, and one that comes too late is dropped.
  using Respond = std::function<void(Render render)>;
  /// Called on the server's thread, must not block. Who does not respond within 5 s has the client
  /// told 503.
  using Handler = std::function<void(const HttpRequest&, Respond)>;

  /// Listens, and serves at once. kUnavailable, naming why, if it cannot be listened on.
  static Result<std::unique_ptr<HttpServer>> Listen(const ListenAddress& address, Handler handler);
  /// Closes all connections. Afterwards no handler and no `render` runs.
  ~HttpServer();

  /// The real one, also if 0 was asked for.
  std::uint16_t port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
