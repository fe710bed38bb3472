#include "server/call.h"

#include <spdlog/spdlog.h>

namespace lockstep::server {

Call::Call(Api& api, const char* method, grpc::ServerUnaryReactor* reactor)
    : calls_(api.calls), method_(method), reactor_(reactor) {
  ++*calls_;
}

Call::~Call() {
  if (Claim()) Finish(MakeError(Code::kInternal, "the call was dropped", Effect::kUnknown));
  --*calls_;
}

void Call::Finish(const Status& status, std::optional<v1::Reason> reason) {
  if (status.ok()) return reactor_->Finish(grpc::Status::OK);
  const auto level =
      status.error().code == Code::kInternal ? spdlog::level::err : spdlog::level::debug;
  spdlog::log(level, "{}: {}", method_, ToString(status.error()));
  reactor_->Finish(ToGrpcStatus(status.error(), reason));
}

std::optional<Refused> CheckCluster(const Api& api, const ClusterName& name) {
  std::string known;
  for (const coordinator::Cluster* cluster : api.clusters) {
    if (cluster->name() == name) return std::nullopt;
    known += (known.empty() ? "" : ", ") + cluster->name().get();
  }
  return Refused{MakeError(Code::kInvalidArgument,
                           "cluster: no '" + name.get() + "' is configured; there are: " + known),
                 v1::REASON_UNKNOWN_CLUSTER};
}

}  // namespace lockstep::server
