#include "server/call.h"

#include <google/protobuf/util/json_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace lockstep::server {

Call::Call(Api& api, const char* method, grpc::ServerUnaryReactor* reactor)
    : api_(api), slot_(api), method_(method), reactor_(reactor) {}

Call::~Call() {
  if (Claim()) Finish(MakeError(Code::kInternal, "the call was dropped", Effect::kUnknown));
}

std::optional<Refused> Call::Admit(const grpc::CallbackServerContext& context) {
  Caller caller;
  if (auto refused = AdmitInto(api_, method_, context, caller)) return refused;
  caller_ = std::move(caller);
  return std::nullopt;
}

void Call::AuditThen(const google::protobuf::Message& order, std::function<void()> then) {
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(order, &text).ok();
  AuditEvent event{method_,
                   {{"principal", caller_->principal->name},
                    {"peer", caller_->peer},
                    {"order", std::move(text)}}};
  api_.gate.audit()->Record(
      std::move(event), [self = shared_from_this(), then = std::move(then)](const Status& stored) {
        if (!stored.ok()) {
          if (self->Claim()) {
            self->Finish(MakeError(Code::kUnavailable,
                                   stored.error().message + "; without it nothing was done"));
          }
          return;
        }
        self->audited_ = true;
        then();
      });
}

void Call::Refuse(const Refused& refused) {
  api_.gate.NoteRefused(method_, refused, caller_ ? &*caller_ : nullptr,
                        caller_ ? caller_->peer : "");
  Finish(refused.error, refused.reason);
}

void Call::Finish(const Status& status, std::optional<v1::Reason> reason) {
  if (audited_) {
    api_.gate.audit()->Note({std::string(method_) + " answered",
                             {{"principal", caller_->principal->name},
                              {"peer", caller_->peer},
                              {"answer", status.ok() ? "OK" : ToString(status.error())}}});
  }
  if (status.ok()) return reactor_->Finish(grpc::Status::OK);
  reactor_->Finish(Note(api_, method_, status.error(), reason));
}

std::optional<Refused> CheckServing(const Api& api) {
  if (!api.open) return Refused{MakeError(Code::kUnavailable, "lockstepd is starting; retry"), {}};
  const std::size_t most = api.limits.Get()->concurrent_calls;
  if (*api.calls <= most) return std::nullopt;
  return Refused{
      MakeError(Code::kResourceExhausted, "too many calls under way (limits.concurrent_calls is " +
                                              std::to_string(most) + ")"),
      {}};
}

std::optional<Refused> AdmitInto(Api& api, const char* method,
                                 const grpc::CallbackServerContext& context, Caller& caller) {
  auto admitted = api.gate.Admit(method, context);
  if (auto* refused = std::get_if<Refused>(&admitted)) {
    return std::move(*refused);
  }
  caller = std::get<Caller>(std::move(admitted));
  return std::nullopt;
}

std::optional<Duration> TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  return std::max<Duration>(deadline - std::chrono::system_clock::now(), Duration::zero());
}

std::optional<TraceContext> TraceOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return std::nullopt;
  return ParseTraceParent({found->second.data(), found->second.size()});
}

std::optional<Refused> CheckDeadline(const grpc::CallbackServerContext& context) {
  if (TimeLeft(context)) return std::nullopt;
  return Refused{MakeError(Code::kInvalidArgument,
                           "deadline: is required of each call but WatchTxn, ExecuteStream and "
                           "Backup; set one on the client's call (grpcurl: -max-time 10)"),
                 {}};
}

grpc::Status Note(Api& api, const char* method, const Error& error,
                  std::optional<v1::Reason> reason) {
  api.refused.Count(reason.value_or(Classify(error.code, error.effect).reason));
  const auto level = error.code == Code::kInternal ? spdlog::level::err : spdlog::level::debug;
  spdlog::log(level, "{}: {}", method, ToString(error));
  return ToGrpcStatus(error, reason);
}

std::optional<Refused> CheckCluster(const Api& api, const Caller& caller, const ClusterName& name) {
  if (name.get().empty())
    return Refused{MakeError(Code::kInvalidArgument, "cluster: is required"), {}};
  if (auto refused = CheckMayUse(caller, name)) return refused;
  std::string known;
  for (const coordinator::Cluster* cluster : *api.clusters.Get()) {
    if (cluster->name() == name) return std::nullopt;
    if (CheckMayUse(caller, cluster->name())) continue;
    known += (known.empty() ? "" : ", ") + cluster->name().get();
  }
  return Refused{MakeError(Code::kInvalidArgument,
                           "cluster: no '" + name.get() + "' is configured; there are: " + known),
                 v1::REASON_UNKNOWN_CLUSTER};
}

std::optional<Refused> CheckWork(const Api& api, const Caller& caller, const WorkCall& work) {
  if (auto refused = CheckMine(caller, work.txn)) return refused;
  if (auto refused = CheckCluster(api, caller, work.cluster)) return refused;
  return CheckMayWrite(caller, work.cluster, work.work);
}

std::optional<Refused> CheckExecute(const Api& api, const Caller& caller, const ExecuteCall& call) {
  if (auto refused = CheckTimeout(caller, call.submission.timeout)) return refused;
  for (const auto& part : call.submission.parts) {
    if (auto refused = CheckCluster(api, caller, part.cluster)) return refused;
    if (auto refused = CheckMayWrite(caller, part.cluster, part.work)) return refused;
  }
  return std::nullopt;
}

}  // namespace lockstep::server
