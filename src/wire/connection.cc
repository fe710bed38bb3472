#include "wire/connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <string_view>
#include <utility>

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

/// The stream itself. Kept alive by its handlers; `events` empty: the owner is gone.
class TcpStream : public std::enable_shared_from_this<TcpStream> {
 public:
  TcpStream(Io& io, std::size_t max_frame, Connection::Events events)
      : resolver_(io.context()),
        socket_(io.context()),
        max_frame_(max_frame),
        events_(std::make_shared<Connection::Events>(std::move(events))) {}

  void Open(const Endpoint& to) {
    name_ = ToString(to);
    resolver_.async_resolve(
        to.host, std::to_string(to.port), tcp::resolver::numeric_service,
        [self = shared_from_this()](const error_code& error, const auto& found) {
          if (self->Failed(error, "name look-up")) return;
          self->Connect(found);
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
  /// True if there is nobody left to care, or after telling that it failed.
  bool Failed(const error_code& error, const char* what) {
    if (error && events_) {
      Fail(MakeError(Code::kUnavailable, std::string(what) + ": " + error.message()));
    }
    return events_ == nullptr;
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
                          self->Read();
                          const auto events = self->events_;
                          events->opened();
                        });
  }

  void Read() {
    socket_.async_read_some(asio::buffer(piece_),
                            [self = shared_from_this()](const error_code& error, std::size_t size) {
                              if (self->Failed(error, "read")) return;
                              self->received_.append(self->piece_.data(), size);
                              self->TakeFrames();
                              if (self->events_) self->Read();
                            });
  }

  /// Those that have come whole.
  void TakeFrames() {
    const auto events = events_;
    std::size_t at = 0;
    while (events_ && received_.size() - at >= kSizeBytes) {
      const std::size_t size = BigEndian(std::string_view(received_).substr(at, kSizeBytes));
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
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (self->Failed(error, "write")) return;
                        self->writing_ = !self->unsent_.empty();
                        if (self->writing_) self->Write();
                      });
  }

  tcp::resolver resolver_;
  tcp::socket socket_;
  std::size_t max_frame_;
  std::shared_ptr<Connection::Events> events_;  // Shared: an event may destroy the connection.
  std::string name_;
  std::array<char, kReadBytes> piece_{};
  std::string received_;  // Not a whole frame yet.
  std::string unsent_;
  std::string sending_;
  bool writing_ = false;
};

class PlaintextConnection : public Connection {
 public:
  explicit PlaintextConnection(std::shared_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
  ~PlaintextConnection() override { stream_->Close(); }
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

std::unique_ptr<Connection> OpenConnection(Io& io, const Endpoint& to,
                                           const SecurityConfig& security, std::size_t max_frame,
                                           Connection::Events events) {
  switch (security.protocol) {
    case SecurityConfig::Protocol::kPlaintext:
      break;
  }
  auto stream = std::make_shared<TcpStream>(io, max_frame, std::move(events));
  stream->Open(to);
  return std::make_unique<PlaintextConnection>(std::move(stream));
}

}  // namespace lockstep::wire
