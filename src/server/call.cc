#include "server/call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace lockstep::server {

Call::Call(Api& api, const char* method, grpc::ServerUnaryReactor* reactor)
    : api_(api), slot_(api), method_(method), reactor_(reactor) {}

Call::~Call() {
  if (Claim()) Finish(MakeError(Code::kInternal, "the call was dropped", Effect::kUnknown));
}

void Call::Finish(const Status& status, std::optional<v1::Reason> reason) {
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

std::optional<Refused> CheckCluster(const Api& api, const ClusterName& name) {
  if (name.get().empty())
    return Refused{MakeError(Code::kInvalidArgument, "cluster: is required"), {}};
  std::string known;
  for (const coordinator::Cluster* cluster : *api.clusters.Get()) {
    if (cluster->name() == name) return std::nullopt;
    known += (known.empty() ? "" : ", ") + cluster->name().get();
  }
  return Refused{MakeError(Code::kInvalidArgument,
                           "cluster: no '" + name.get() + "' is configured; there are: " + known),
                 v1::REASON_UNKNOWN_CLUSTER};
}

}  // namespace lockstep::server
