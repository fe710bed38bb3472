#include "server/http_server.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string_view>
#include <thread>

namespace lockstep::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kAnswerWithin = std::chrono::seconds(5);
constexpr std::size_t kMaxConnections = 256;
constexpr std::uint32_t kMaxHeaderBytes = 8 << 10;

/// One connection. Lives as long as an operation on it runs, on the server's thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(const std::shared_ptr<asio::io_context>& io, tcp::socket socket,
          const HttpServer::Handler& handler, std::shared_ptr<std::size_t> connections)
      : io_(io),
        stream_(std::move(socket)),
        deadline_(stream_.get_executor()),
        handler_(handler),
        connections_(std::move(connections)) {
    ++*connections_;
  }
  ~Session() { --*connections_; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) {
                       if (!error) self->Handle();
                     });
  }

 private:
  void Handle() {
    const http::verb method = parser_->get().method();
    ++request_;
    answered_ = false;
    if (method != http::verb::get && method != http::verb::head) {
      return Answer(request_, [] { return HttpResponse{.status = 405, .body = "GET only\n"}; });
    }
    stream_.expires_never();  // It is on us now.
    deadline_.expires_after(kAnswerWithin);
    deadline_.async_wait([self = shared_from_this(), number = request_](error_code error) {
      if (error) return;
      self->Answer(number,
                   [] { return HttpResponse{.status = 503, .body = "no answer in 5 s\n"}; });
    });
    const beast::string_view target = parser_->get().target();
    const beast::string_view path = target.substr(0, target.find('?'));
    handler_({.path = std::string(path)},
             [weak = weak_from_this(), io = io_, number = request_](HttpServer::Render render) {
               // It may come after the server has gone.
               const auto alive = io.lock();
               if (alive == nullptr) return;
               asio::post(*alive, [weak, number, render = std::move(render)] {
                 if (const auto self = weak.lock()) self->Answer(number, render);
               });
             });
  }

  void Answer(std::uint64_t number, const HttpServer::Render& render) {
    if (number != request_ || std::exchange(answered_, true)) return;
    deadline_.cancel();
    HttpResponse response = render();
    const auto& request = parser_->get();
    const bool head = request.method() == http::verb::head;
    message_.emplace(http::int_to_status(response.status), request.version());
    message_->set(http::field::content_type, response.content_type);
    message_->set(http::field::cache_control, "no-store");
    message_->keep_alive(request.keep_alive());
    message_->content_length(response.body.size());
    if (!head) message_->body() = std::move(response.body);
    stream_.expires_after(kPatience);
    serializer_.emplace(*message_);
    const auto written = [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return;
      if (self->message_->keep_alive()) return self->Read();
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    };
    if (head) return http::async_write_header(stream_, *serializer_, written);
    http::async_write(stream_, *serializer_, written);
  }

  const std::weak_ptr<asio::io_context> io_;
  beast::tcp_stream stream_;
  asio::steady_timer deadline_;
  const HttpServer::Handler& handler_;
  const std::shared_ptr<std::size_t> connections_;
  beast::flat_buffer buffer_{kMaxHeaderBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> message_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  std::uint64_t request_ = 0;
  bool answered_ = false;
};

Error CannotListen(const ListenAddress& address, const std::string& why) {
  return MakeError(Code::kUnavailable, "cannot listen on " + ToString(address) + ": " + why);
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(Handler handler) : handler_(std::move(handler)) {}
  ~Impl() {
    io_->stop();
    if (thread_.joinable()) thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status Listen(const ListenAddress& address) {
    error_code error;
    const auto found = tcp::resolver(*io_).resolve(address.host, std::to_string(address.port),
                                                   tcp::resolver::passive, error);
    if (error || found.empty()) return CannotListen(address, error.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return CannotListen(address, error.message());
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "http");
      io_->run();
    });
    return {};
  }

  std::uint16_t port() const { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error) return AcceptLater();
      // One too many is closed again at once.
      if (*connections_ < kMaxConnections) {
        std::make_shared<Session>(io_, std::move(socket), handler_, connections_)->Read();
      }
      Accept();
    });
  }
  /// Out of files, mostly: those who are served give theirs back.
  void AcceptLater() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  const Handler handler_;
  const std::shared_ptr<std::size_t> connections_ = std::make_shared<std::size_t>(0);
  const std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);
  tcp::acceptor acceptor_{*io_};
  asio::steady_timer retry_{*io_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const ListenAddress& address,
                                                       Handler handler) {
  auto impl = std::make_unique<Impl>(std::move(handler));
  if (Status status = impl->Listen(address); !status.ok()) return status.error();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const { return impl_->port(); }

}  // namespace lockstep::server
