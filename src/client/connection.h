#pragma once

#include <grpcpp/client_context.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "client/retry.h"
#include "lockstep/client.h"

namespace lockstep::client {

/// What all calls of one Client share. Thread-safe. Outlives its calls: the destructor waits.
class Connection {
 public:
  explicit Connection(ClientOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Stub = v1::Coordinator::StubInterface::async_interface;
  Stub& stub() { return *stub_->async(); }
  v1::Coordinator::Stub& blocking() { return *stub_; }
  const ClientOptions& options() const { return options_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  /// Why no call can be made, if ClientOptions::security is not as it must be.
  const std::optional<Error>& problem() const { return problem_; }

  /// A call begins, and ends.
  void Enter();
  void Leave();
  /// Runs `task` on a thread of gRPC's, after `delay`.
  void After(std::chrono::steady_clock::duration delay, std::function<void()> task);

 private:
  const ClientOptions options_;
  const std::optional<Error> problem_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int under_way_ = 0;  // Guarded by mutex_.
};

/// A method of Coordinator's.
template <typename Request, typename Response>
using Method = void (Connection::Stub::*)(grpc::ClientContext*, const Request*, Response*,
                                          std::function<void(grpc::Status)>);

/// One call with its retries: lives until it has called `done`, once, on a thread of gRPC's. It
/// repeats what may have been lost, so only for methods that may be repeated.
template <typename Request, typename Response>
class RetriedCall : public std::enable_shared_from_this<RetriedCall<Request, Response>> {
 public:
  struct Options {
    Timeout timeout;
    /// The call is not given up while it can still succeed: also after LIMIT_REACHED.
    bool insist = false;
    /// An answer that is OK, and that a later one may better. None: the first one is final.
    std::function<bool(const Response&)> ask_again;
  };
  using Done = std::function<void(Result<Response>)>;

  static void Start(Connection& connection, Method<Request, Response> method, Request request,
                    Options options, Done done) {
    const auto call = std::make_shared<RetriedCall>(connection, method, std::move(request),
                                                    std::move(options), std::move(done));
    call->Attempt();
  }

  RetriedCall(Connection& connection, Method<Request, Response> method, Request request,
              Options options, Done done)
      : under_way_(connection),
        connection_(connection),
        method_(method),
        request_(std::move(request)),
        options_(std::move(options)),
        done_(std::move(done)),
        retry_(connection.options(), options_.timeout, options_.insist) {}

 private:
  /// Destroyed last: the connection may go then.
  struct UnderWay {
    explicit UnderWay(Connection& of) : connection(of) { connection.Enter(); }
    ~UnderWay() { connection.Leave(); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;
    Connection& connection;
  };

  void Attempt() {
    if (connection_.problem()) return done_(*connection_.problem());
    context_.emplace();
    context_->set_deadline(std::chrono::system_clock::now() + retry_.NextAttempt());
    response_.Clear();
    (connection_.stub().*method_)(
        &*context_, &request_, &response_,
        [self = this->shared_from_this()](const grpc::Status& status) { self->OnAnswer(status); });
  }

  void OnAnswer(const grpc::Status& status) {
    if (status.ok()) {
      if (!options_.ask_again || !options_.ask_again(response_)) return done_(std::move(response_));
      so_far_ = response_;
    }
    const auto delay = status.ok() ? retry_.AfterAnswer() : retry_.AfterError(ToError(status));
    if (!delay) {
      if (so_far_) return done_(*std::move(so_far_));
      return done_(retry_.error());
    }
    connection_.After(*delay, [self = this->shared_from_this()] { self->Attempt(); });
  }

  const UnderWay under_way_;
  Connection& connection_;
  const Method<Request, Response> method_;
  const Request request_;
  const Options options_;
  const Done done_;
  Retry retry_;
  std::optional<grpc::ClientContext> context_;
  Response response_;
  std::optional<Response> so_far_;  // OK, but to be asked again.
};

/// Waits for the answer of what answers through a callback.
template <typename T, typename Start>
Result<T> Await(Start start) {
  std::promise<Result<T>> answer;
  start([&answer](Result<T> result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

/// The same, blocking.
template <typename Request, typename Response>
Result<Response> Call(Connection& connection, Method<Request, Response> method, Request request,
                      typename RetriedCall<Request, Response>::Options options) {
  return Await<Response>([&](auto done) {
    RetriedCall<Request, Response>::Start(connection, method, std::move(request),
                                          std::move(options), std::move(done));
  });
}

}  // namespace lockstep::client
