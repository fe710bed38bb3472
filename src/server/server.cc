#include "server/server.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "server/admin_service.h"
#include "server/coordinator_service.h"

namespace lockstep::server {
namespace {

/// gRPC tells why it could not listen to its own log only: try it again ourselves, for the reason.
std::string WhyNotListening(const ListenAddress& address) {
  if (!address.unix_path.empty()) {
    const auto folder = std::filesystem::path(address.unix_path).parent_path();
    return access(folder.c_str(), W_OK | X_OK) == 0 ? "gRPC refuses it"
                                                    : folder.string() + ": " + std::strerror(errno);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found)) {
    return gai_strerror(error);
  }
  std::string why = "gRPC refuses it";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, info->ai_socktype, info->ai_protocol);
    const int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0) {
      why = std::strerror(errno);
    }
    if (fd >= 0) close(fd);
  }
  freeaddrinfo(found);
  return why;
}

void LogFromGrpc(gpr_log_func_args* args) {
  // What gRPC calls an error is about one connection; it has no consequence for a transaction.
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", args->message);
}

}  // namespace

namespace {

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

/// What is the same for every listener.
void Configure(grpc::ServerBuilder& builder, const Server::Options& options) {
  // By default two processes may listen on one port, and share its calls at random.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client whose machine is gone says nothing: without this its calls would count for hours.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // Clients that wait for a commit may ask whether we are still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  // Who connects and says nothing, or nothing more, gets no more than this.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.idle_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.streams_per_connection));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.metadata_bytes));
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
  // Our services run on gRPC's callback threads. Only reflection is synchronous: one thread waits
  // for it, and no crowd of calls makes more than a few.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  grpc::ResourceQuota quota("lockstepd");
  quota.SetMaxThreads(4);
  // What is on its way in, before any limit of ours can count it.
  quota.Resize(std::max<std::size_t>(64u << 20, 8 * options.message_bytes));
  builder.SetResourceQuota(quota);
}

/// One address and what is served there.
class Listener {
 public:
  explicit Listener(Api& api) : coordinator_(api), admin_(api) {}

  Status Listen(const Server::Options& options, const ListenAddress& address, bool with_admin) {
    grpc::ServerBuilder builder;
    Configure(builder, options);
    // What passes through a socket of this machine, its kernel keeps: TLS would only ask those who
    // bring a token for a certificate, too.
    const bool tls = options.tls != nullptr && address.unix_path.empty();
    credentials_ = tls ? options.tls->Credentials() : grpc::InsecureServerCredentials();
    builder.AddListeningPort(ToString(address), credentials_, &port_);
    builder.RegisterService(&coordinator_);
    if (with_admin) builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      server_.reset();
      return MakeError(Code::kUnavailable,
                       "cannot listen on " + ToString(address) + ": " + WhyNotListening(address));
    }
    if (!address.unix_path.empty()) port_ = 0;  // gRPC calls it 1.
    return {};
  }

  void SetServing(bool serving) { server_->GetHealthCheckService()->SetServingStatus(serving); }

  void AnswerDecided() { coordinator_.AnswerDecided(); }

  void Shutdown(std::chrono::system_clock::time_point deadline) {
    if (server_ == nullptr) return;
    server_->Shutdown(deadline);
    server_->Wait();
    server_.reset();
  }

  std::uint16_t port() const { return static_cast<std::uint16_t>(port_); }

 private:
  CoordinatorService coordinator_;
  AdminService admin_;
  int port_ = 0;
  // gRPC keeps what it makes of them, and goes on asking them for certificates.
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(Api& api) : api_(api), main_(api) {
    // Called while calls are answered, hence before Shutdown ends.
    api_.set_serving = [this](bool serving) { SetServing(serving); };
  }

  Status Listen(const Options& options) {
    gpr_set_log_function(LogFromGrpc);
    // Of every lock that gRPC takes Debian's Abseil keeps account, to find dead-locks: that is for
    // gRPC's own developers, and takes a twentieth of our time.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();

    Status status = main_.Listen(options, options.listen, !options.admin_listen);
    if (!status.ok()) return status;
    if (options.admin_listen) {
      auto admin = std::make_unique<Listener>(api_);
      status = admin->Listen(options, *options.admin_listen, true);
      if (!status.ok()) {
        Shutdown(Duration::zero());
        return status;
      }
      admin_ = std::move(admin);
    }
    SetServing(false);
    return {};
  }

  void Open() {
    api_.open = true;
    SetServing(true);
  }

  void SetServing(bool serving) {
    main_.SetServing(serving);
    if (admin_ != nullptr) admin_->SetServing(serving);
  }

  void AnswerDecided() {
    main_.AnswerDecided();
    if (admin_ != nullptr) admin_->AnswerDecided();
  }

  void Shutdown(Duration grace) {
    const auto deadline = std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(grace);
    main_.Shutdown(deadline);
    if (admin_ != nullptr) admin_->Shutdown(deadline);
  }

  std::uint16_t port() const { return main_.port(); }
  std::uint16_t admin_port() const { return admin_ == nullptr ? std::uint16_t{0} : admin_->port(); }

 private:
  Api& api_;
  Listener main_;
  std::unique_ptr<Listener> admin_;  // Null: main_ serves operators, too.
};

Result<std::unique_ptr<Server>> Server::Listen(const Options& options, Api& api) {
  auto impl = std::make_unique<Impl>(api);
  if (Status status = impl->Listen(options); !status.ok()) return status.error();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
std::uint16_t Server::admin_port() const { return impl_->admin_port(); }
void Server::Open() { impl_->Open(); }
void Server::Drain() { impl_->SetServing(false); }
void Server::AnswerDecided() { impl_->AnswerDecided(); }
void Server::Shutdown(Duration grace) { impl_->Shutdown(grace); }

}  // namespace lockstep::server
