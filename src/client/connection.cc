#include "client/connection.h"

#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "client/credentials.h"

namespace lockstep::client {
namespace {

std::shared_ptr<grpc::Channel> Connect(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // How soon a server that comes back is found; gRPC's own default goes up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // For one attempt to connect.
  // A server whose machine is gone says nothing: notice it while a call waits.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // The calls' own retries know which call may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return ChannelTo(options.server, options.security, arguments);
}

}  // namespace

Connection::Connection(ClientOptions options)
    : options_(std::move(options)),
      problem_(CheckSecurity(options_.security)),
      channel_(problem_ ? grpc::CreateChannel(options_.server, grpc::InsecureChannelCredentials())
                        : Connect(options_)),
      stub_(v1::Coordinator::NewStub(channel_)) {}

Connection::~Connection() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return under_way_ == 0; });
}

void Connection::Enter() {
  const std::lock_guard lock(mutex_);
  ++under_way_;
}

void Connection::Leave() {
  const std::lock_guard lock(mutex_);
  if (--under_way_ == 0) idle_.notify_all();  // Under the lock: after it we may be gone.
}

void Connection::After(std::chrono::steady_clock::duration delay, std::function<void()> task) {
  Enter();
  // Owned by its callback, which gRPC keeps for as long as the alarm is there.
  auto* alarm = new grpc::Alarm;
  alarm->Set(std::chrono::system_clock::now() + delay,
             [this, alarm, task = std::move(task)](bool) mutable {
               delete alarm;
               std::exchange(task, nullptr)();
               Leave();
             });
}

}  // namespace lockstep::client
