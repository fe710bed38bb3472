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

struct FrameLimits {
  /// A longer one is refused with kResourceExhausted before any of it is kept.
  std::size_t max_frame = 0;
  std::string client_id;  ///< For the log-in's requests.
};

/// A SecurityConfig, and what its files held when they were last looked at. One for all connections
/// to a cluster: reading a bundle of CAs takes milliseconds. Loop thread only.
class Security {
 public:
  explicit Security(SecurityConfig config);
  ~Security();
  Security(const Security&) = delete;
  Security& operator=(const Security&) = delete;

  const SecurityConfig& config() const { return config_; }

 private:
  struct Tls;
  /// Takes up files that have changed; blocks for as long as the disk takes.
  Status Load();

  friend std::unique_ptr<Connection> OpenConnection(Io&, const Endpoint&, Security&,
                                                    const FrameLimits&, Connection::Events);
  const SecurityConfig config_;
  std::unique_ptr<Tls> tls_;
  std::string stamp_;  // Of the files that tls_ was made from.
};

/// Starts to open a connection; the events tell how it went. Errors beside kUnavailable: what an
/// operator must mend. kPermissionDenied: the broker's certificate is not accepted, or it does not
/// accept ours, or the log-in; kFailedPrecondition: a file of `security` cannot be used.
std::unique_ptr<Connection> OpenConnection(Io& io, const Endpoint& to, Security& security,
                                           const FrameLimits& limits, Connection::Events events);

}  // namespace lockstep::wire
