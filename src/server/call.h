#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <google/protobuf/message.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/api.h"
#include "server/convert.h"
#include "server/refused.h"
#include "server/rpc_error.h"

namespace lockstep::server {

/// Counts one call under way, for as long as it lives.
class CallSlot {
 public:
  explicit CallSlot(Api& api) : calls_(api.calls) { ++*calls_; }
  ~CallSlot() { --*calls_; }
  CallSlot(const CallSlot&) = delete;
  CallSlot& operator=(const CallSlot&) = delete;

 private:
  const std::shared_ptr<std::atomic<std::size_t>> calls_;
};

/// One unary call under way. Held by the callbacks that will answer it; the last one gone, it no
/// longer counts against the limit, and if none of them answered it, it is answered INTERNAL.
/// Thread-safe.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Api& api, const char* method, grpc::ServerUnaryReactor* reactor);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// True for the first caller only: it may fill the response, and must Finish. Until then request,
  /// response and context are alive; afterwards they are not.
  [[nodiscard]] bool Claim() { return !claimed_.exchange(true); }
  bool claimed() const { return claimed_; }

  /// Whether its caller may make it at all. None: he may, and is known from then on.
  std::optional<Refused> Admit(const grpc::CallbackServerContext& context);
  const Caller& caller() const { return *caller_; }
  /// Runs `then` once the audit log has the order on the disk; else answers that it could not.
  void AuditThen(const google::protobuf::Message& order, std::function<void()> then);

  /// Answers. `reason` where the caller knows better than the table of errors.
  void Finish(const Status& status, std::optional<v1::Reason> reason = std::nullopt);
  void Refuse(const Refused& refused);

 private:
  Api& api_;
  const CallSlot slot_;
  const char* const method_;
  std::optional<Caller> caller_;  // Once admitted.
  grpc::ServerUnaryReactor* const reactor_;
  std::atomic<bool> claimed_{false};
  std::atomic<bool> audited_{false};
};
using CallPtr = std::shared_ptr<Call>;

/// None: a call whose slot is taken may be served now.
std::optional<Refused> CheckServing(const Api& api);

/// None: the gate lets it in, as `caller`.
std::optional<Refused> AdmitInto(Api& api, const char* method,
                                 const grpc::CallbackServerContext& context, Caller& caller);

/// How long the client will wait from now; none: for ever.
std::optional<Duration> TimeLeft(const grpc::CallbackServerContext& context);

/// The trace in which the client called, by its metadata `traceparent`.
std::optional<TraceContext> TraceOf(const grpc::CallbackServerContext& context);

/// None: the call has a deadline. One without holds its place for as long as a cluster is down.
std::optional<Refused> CheckDeadline(const grpc::CallbackServerContext& context);

/// The status of an error, noted in the log and counted.
grpc::Status Note(Api& api, const char* method, const Error& error,
                  std::optional<v1::Reason> reason);

/// Runs `start` for a call that has a deadline and may be served now. It validates, and either
/// hands the call to callbacks or returns why not.
template <typename Start>
grpc::ServerUnaryReactor* Serve(Api& api, const char* method, grpc::CallbackServerContext* context,
                                Start start) {
  auto* reactor = context->DefaultReactor();
  const auto call = std::make_shared<Call>(api, method, reactor);
  std::optional<Refused> refused = CheckServing(api);
  if (!refused) refused = call->Admit(*context);
  if (!refused) refused = CheckDeadline(*context);
  if (!refused) refused = start(call);
  if (refused && call->Claim()) call->Refuse(*refused);
  return reactor;
}

/// For a call that changes what an operator answers for: nothing happens unless the audit log has
/// on the disk who asked for what; how it ended follows. `start` as for Serve; it runs on any
/// thread, and copies what it needs of its surroundings.
template <typename Request, typename Start>
grpc::ServerUnaryReactor* ServeOrder(Api& api, const char* method,
                                     grpc::CallbackServerContext* context, const Request* request,
                                     Start start) {
  return Serve(api, method, context, [&](const CallPtr& call) -> std::optional<Refused> {
    if (api.gate.audit() == nullptr) return start(call);
    call->AuditThen(*request, [call, start = std::move(start)] {
      const std::optional<Refused> refused = start(call);
      if (refused && call->Claim()) call->Refuse(*refused);
    });
    return std::nullopt;
  });
}

/// None if the cluster is configured, and the caller's to use.
std::optional<Refused> CheckCluster(const Api& api, const Caller& caller, const ClusterName& name);
/// None: the transaction is the caller's, and he may do this there.
std::optional<Refused> CheckWork(const Api& api, const Caller& caller, const WorkCall& work);
std::optional<Refused> CheckExecute(const Api& api, const Caller& caller, const ExecuteCall& call);

}  // namespace lockstep::server
