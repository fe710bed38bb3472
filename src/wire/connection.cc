#include "wire/connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "wire/sasl_connection.h"
#include "wire/tls.h"

namespace lockstep::wire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kSizeBytes = 4;
/// What is asked for at once: many answers, most of them short.
constexpr std::size_t kReadBytes = 16'384;
/// Room that is kept for the next answers: a few may be long.
constexpr std::size_t kKeptBytes = 262'144;

std::uint32_t BigEndian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) value = (value << 8U) | static_cast<unsigned char>(byte);
  return value;
}

/// A TLS record where a frame's size should be: "alert", "handshake".
bool LooksLikeTls(std::string_view bytes) {
  return bytes.size() >= 2 && (bytes[0] == '\x15' || bytes[0] == '\x16') && bytes[1] == '\x03';
}

/// What a broken-off handshake means to whoever can mend it.
Error HandshakeError(const error_code& error, const CertificateProblem& certificate) {
  if (!certificate.text.empty()) {
    return MakeError(Code::kPermissionDenied,
                     "TLS: its certificate is not accepted: " + certificate.text);
  }
  if (error.category() != asio::error::get_ssl_category()) {
    return MakeError(Code::kUnavailable,
                     "TLS handshake: " + error.message() +
                         " (a listener without TLS does that, too: see security_protocol)");
  }
  return MakeError(Code::kPermissionDenied,
                   "TLS: " + error.message() +
                       ": does this listener speak TLS (security_protocol), and is our certificate "
                       "one that it accepts (tls.certificate_file)?");
}

/// The stream itself, in TLS if there is a context for it. Kept alive by its handlers; `events`
/// empty: the owner is gone.
class TcpStream : public std::enable_shared_from_this<TcpStream> {
 public:
  TcpStream(Io& io, std::size_t max_frame, Connection::Events events)
      : resolver_(io.context()),
        socket_(io.context()),
        max_frame_(max_frame),
        events_(std::make_shared<Connection::Events>(std::move(events))) {}

  void Secure(asio::ssl::context& context, const std::string& host, bool check_hostname) {
    tls_ = std::make_unique<Tls>(socket_, context);
    ExpectHost(tls_->stream.native_handle(), host, check_hostname, &tls_->certificate);
  }

  void Open(const Endpoint& to) {
    name_ = ToString(to);
    resolver_.async_resolve(
        to.host, std::to_string(to.port), tcp::resolver::numeric_service,
        [self = shared_from_this()](const error_code& error, const auto& found) {
          if (self->Failed(error, "name look-up")) return;
          self->Connect(found);
        });
  }

  /// As if opening it had failed, with `error`.
  void FailSoon(const Endpoint& to, Error error) {
    name_ = ToString(to);
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), error = std::move(error)]() mutable {
                 if (self->events_) self->Fail(std::move(error));
               });
  }

  void Send(const std::string& frame) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    for (int shift = 24; shift >= 0; shift -= 8) {
      unsent_ += static_cast<char>(size >> static_cast<unsigned>(shift));
    }
    unsent_ += frame;
    if (std::exchange(writing_, true)) return;
    // Not yet: whoever runs next in this turn of the loop may have something to send, too.
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (self->events_) self->Write();
    });
  }

  void Close() {
    events_.reset();
    resolver_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  struct Tls {
    Tls(tcp::socket& socket, asio::ssl::context& context) : stream(socket, context) {}
    CertificateProblem certificate;  // Before what points to it.
    asio::ssl::stream<tcp::socket&> stream;
  };

  /// True if there is nobody left to care, or after telling that it failed.
  bool Failed(const error_code& error, const char* what) {
    if (!error || !events_) return events_ == nullptr;
    // A broker that wants another certificate of ours says so after its part of the handshake.
    const bool is_tls = tls_ && error.category() == asio::error::get_ssl_category();
    Fail(is_tls ? HandshakeError(error, tls_->certificate)
                : MakeError(Code::kUnavailable, std::string(what) + ": " + error.message()));
    return true;
  }

  void Fail(Error error) {
    const auto events = std::exchange(events_, nullptr);
    Close();
    error.message = "broker " + name_ + ": " + error.message;
    events->closed(std::move(error));
  }

  void Connect(const tcp::resolver::results_type& found) {
    asio::async_connect(socket_, found,
                        [self = shared_from_this()](const error_code& error, const auto&) {
                          if (self->Failed(error, "connect")) return;
                          error_code ignored;
                          self->socket_.set_option(tcp::no_delay(true), ignored);
                          self->tls_ ? self->ShakeHands() : self->Opened();
                        });
  }

  void ShakeHands() {
    tls_->stream.async_handshake(asio::ssl::stream_base::client,
                                 [self = shared_from_this()](const error_code& error) {
                                   if (!self->events_) return;
                                   if (!error) return self->Opened();
                                   self->Fail(HandshakeError(error, self->tls_->certificate));
                                 });
  }

  void Opened() {
    Read();
    const auto events = events_;
    events->opened();
  }

  /// Runs `use` with the stream that carries the frames.
  template <typename Use>
  void WithStream(Use use) {
    if (tls_) {
      use(tls_->stream);
    } else {
      use(socket_);
    }
  }

  void Read() {
    WithStream([this](auto& stream) {
      stream.async_read_some(asio::buffer(piece_), [self = shared_from_this()](
                                                       const error_code& error, std::size_t size) {
        if (self->Failed(error, "read")) return;
        self->received_.append(self->piece_.data(), size);
        self->TakeFrames();
        if (self->events_) self->Read();
      });
    });
  }

  /// Those that have come whole.
  void TakeFrames() {
    const auto events = events_;
    std::size_t at = 0;
    while (events_ && received_.size() - at >= kSizeBytes) {
      const std::size_t size = BigEndian(std::string_view(received_).substr(at, kSizeBytes));
      if (size > max_frame_ && LooksLikeTls(received_)) {
        return Fail(MakeError(Code::kPermissionDenied,
                              "it speaks TLS, and we do not: set security_protocol to SSL or "
                              "SASL_SSL"));
      }
      if (size > max_frame_) {
        return Fail(MakeError(Code::kResourceExhausted, "an answer of " + std::to_string(size) +
                                                            " bytes is longer than allowed"));
      }
      if (received_.size() - at - kSizeBytes < size) break;
      events->received(received_.substr(at + kSizeBytes, size));
      at += kSizeBytes + size;
    }
    received_.erase(0, at);
    if (received_.empty() && received_.capacity() > kKeptBytes) received_ = {};
  }

  void Write() {
    sending_ = std::exchange(unsent_, {});
    WithStream([this](auto& stream) {
      asio::async_write(stream, asio::buffer(sending_),
                        [self = shared_from_this()](const error_code& error, std::size_t) {
                          if (self->Failed(error, "write")) return;
                          self->writing_ = !self->unsent_.empty();
                          if (self->writing_) self->Write();
                        });
    });
  }

  tcp::resolver resolver_;
  tcp::socket socket_;
  std::unique_ptr<Tls> tls_;  // None: in plain text.
  std::size_t max_frame_;
  std::shared_ptr<Connection::Events> events_;  // Shared: an event may destroy the connection.
  std::string name_;
  std::array<char, kReadBytes> piece_{};
  std::string received_;  // Not a whole frame yet.
  std::string unsent_;
  std::string sending_;
  bool writing_ = false;
};

class TcpConnection : public Connection {
 public:
  explicit TcpConnection(std::shared_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
  ~TcpConnection() override { stream_->Close(); }
  void Send(const std::string& frame) override { stream_->Send(frame); }

 private:
  std::shared_ptr<TcpStream> stream_;
};

}  // namespace

std::string ToString(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Result<Endpoint> ParseEndpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool bare_v6 = !bracketed && host.find(':') != std::string::npos;
  Endpoint endpoint{bracketed ? host.substr(1, host.size() - 2) : host, 0};
  if (colon != std::string::npos && !host.empty() && !bare_v6) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    if (parsed.ec == std::errc() && parsed.ptr == end && endpoint.port != 0) return endpoint;
  }
  return MakeError(Code::kInvalidArgument,
                   "\"" + text + "\" is not a broker's address: HOST:PORT is wanted");
}

struct Security::Tls {
  explicit Tls(SslCtx from) : context(from.release()) {}
  asio::ssl::context context;
};

Security::Security(SecurityConfig config) : config_(std::move(config)) {}
Security::~Security() = default;

Status Security::Load() {
  if (!config_.tls) return {};
  std::string stamp = Stamp(config_);
  if (tls_ != nullptr && stamp == stamp_) return {};
  auto fresh = MakeTlsContext(*config_.tls);
  if (!fresh.ok()) return fresh.error();
  tls_ = std::make_unique<Tls>(*std::move(fresh));
  stamp_ = std::move(stamp);
  return {};
}

std::unique_ptr<Connection> OpenConnection(Io& io, const Endpoint& to, Security& security,
                                           const FrameLimits& limits, Connection::Events events) {
  const auto open = [&](Connection::Events its_events) -> std::unique_ptr<Connection> {
    auto stream = std::make_shared<TcpStream>(io, limits.max_frame, std::move(its_events));
    if (Status loaded = security.Load(); !loaded.ok()) {
      stream->FailSoon(to, loaded.error());
    } else {
      if (security.config().tls) {
        stream->Secure(security.tls_->context, to.host, security.config().tls->check_hostname);
      }
      stream->Open(to);
    }
    return std::make_unique<TcpConnection>(std::move(stream));
  };
  if (!security.config().sasl) return open(std::move(events));
  return OpenSaslConnection(io, ToString(to), *security.config().sasl, limits.client_id, open,
                            std::move(events));
}

}  // namespace lockstep::wire
