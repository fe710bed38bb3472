#include "cli/client.h"

#include <google/protobuf/any.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <lockstep/internal/rpc_status.pb.h>

#include <array>
#include <utility>

namespace lockstep::cli {
namespace {

std::string StatusName(grpc::StatusCode code) {
  constexpr std::array<const char*, 17> kNames = {"OK",
                                                  "CANCELLED",
                                                  "UNKNOWN",
                                                  "INVALID_ARGUMENT",
                                                  "DEADLINE_EXCEEDED",
                                                  "NOT_FOUND",
                                                  "ALREADY_EXISTS",
                                                  "PERMISSION_DENIED",
                                                  "RESOURCE_EXHAUSTED",
                                                  "FAILED_PRECONDITION",
                                                  "ABORTED",
                                                  "OUT_OF_RANGE",
                                                  "UNIMPLEMENTED",
                                                  "INTERNAL",
                                                  "UNAVAILABLE",
                                                  "DATA_LOSS",
                                                  "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : std::to_string(index);
}

std::string ReasonOf(const grpc::Status& status) {
  internal::RpcStatus details;
  if (!details.ParseFromString(status.error_details())) return {};
  for (const auto& detail : details.details()) {
    internal::RpcErrorInfo info;
    if (detail.type_url() == "type.googleapis.com/google.rpc.ErrorInfo" &&
        info.ParseFromString(detail.value()) && info.domain() == "lockstep") {
      return info.reason();
    }
  }
  return {};
}

}  // namespace

bool CallError::EffectUnknown() const {
  if (reason == "OUTCOME_UNKNOWN") return true;
  // Without a word of the server's own, the call may have reached it.
  return reason.empty() &&
         (status == grpc::StatusCode::UNAVAILABLE ||
          status == grpc::StatusCode::DEADLINE_EXCEEDED || status == grpc::StatusCode::CANCELLED ||
          status == grpc::StatusCode::UNKNOWN || status == grpc::StatusCode::INTERNAL);
}

std::string ToString(const CallError& error) {
  return StatusName(error.status) + (error.reason.empty() ? "" : " (" + error.reason + ")") + ": " +
         error.message;
}

Client::Client(std::string server, std::chrono::milliseconds deadline)
    : server_(std::move(server)), deadline_(deadline) {
  const auto channel = grpc::CreateChannel(server_, grpc::InsecureChannelCredentials());
  coordinator_ = v1::Coordinator::NewStub(channel);
  admin_ = v1::Admin::NewStub(channel);
}

std::optional<CallError> Client::Watch(
    const v1::WatchTxnRequest& request,
    const std::function<void(const v1::WatchTxnResponse&)>& each) {
  grpc::ClientContext context;
  const auto reader = coordinator_->WatchTxn(&context, request);
  for (v1::WatchTxnResponse response; reader->Read(&response);) each(response);
  return Judge(reader->Finish());
}

std::optional<CallError> Client::Backup(const std::function<bool(const std::string&)>& each) {
  grpc::ClientContext context;
  const auto reader = admin_->Backup(&context, v1::BackupRequest());
  for (v1::BackupResponse response; reader->Read(&response);) {
    if (!each(response.data())) context.TryCancel();
  }
  return Judge(reader->Finish());
}

std::optional<CallError> Client::Judge(const grpc::Status& status) const {
  if (status.ok()) return std::nullopt;
  CallError error{status.error_code(), ReasonOf(status), status.error_message()};
  if (error.reason.empty() && error.status == grpc::StatusCode::UNAVAILABLE) {
    error.message = "lockstepd at " + server_ + ": " + error.message;
  }
  return error;
}

}  // namespace lockstep::cli
