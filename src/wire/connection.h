#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "wire/io.h"
#include "wire/types.h"

namespace lockstep::wire {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};
std::string ToString(const Endpoint& endpoint);  ///< "host:port", "[v6]:port".
/// Error: kInvalidArgument with the text and the form that is wanted.
Result<Endpoint> ParseEndpoint(const std::string& text);

/// A byte stream to one broker that carries frames (a size of four bytes, then so many), with the
/// security that was asked for: whoever uses it sees frames of Kafka's protocol, and neither TLS
/// nor SASL. Loop thread only. Its destructor closes it, and no event comes afterwards.
class Connection {
 public:
  /// `opened` comes once, when frames may be sent (TLS is up, SASL has authenticated). `closed`
  /// comes once, with or without `opened` before, and is the last event; after it no frame is sent
  /// or received. The owner may destroy the connection inside an event.
  struct Events {
    std::function<void()> opened;
    std::function<void(std::string frame)> received;
    std::function<void(Error)> closed;
  };

  virtual ~Connection() = default;
  /// Queues a frame, the size not included; never blocks. After this, it may have reached the
  /// broker.
  virtual void Send(const std::string& frame) = 0;
};

/// Starts to open a connection; the events tell how it went. `max_frame`: a longer one is refused
/// with kResourceExhausted before any of it is kept.
std::unique_ptr<Connection> OpenConnection(Io& io, const Endpoint& to,
                                           const SecurityConfig& security, std::size_t max_frame,
                                           Connection::Events events);

}  // namespace lockstep::wire
