#include "client/errors.h"

#include <google/protobuf/any.pb.h>
#include <lockstep/internal/rpc_status.pb.h>

namespace lockstep::client {
namespace {

Code CodeOf(grpc::StatusCode status) {
  switch (status) {
    case grpc::INVALID_ARGUMENT:
    case grpc::OUT_OF_RANGE:
      return Code::kInvalidArgument;
    case grpc::NOT_FOUND:
      return Code::kNotFound;
    case grpc::FAILED_PRECONDITION:
    case grpc::ABORTED:
    case grpc::ALREADY_EXISTS:
      return Code::kWrongState;
    case grpc::RESOURCE_EXHAUSTED:
      return Code::kLimitReached;
    case grpc::UNAVAILABLE:
    case grpc::CANCELLED:  // By the server's end: we cancel nothing.
      return Code::kUnavailable;
    case grpc::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case grpc::PERMISSION_DENIED:
    case grpc::UNAUTHENTICATED:
      return Code::kPermissionDenied;
    case grpc::UNIMPLEMENTED:
      return Code::kUnsupported;
    case grpc::DATA_LOSS:
      return Code::kCorrupt;
    default:
      return Code::kInternal;
  }
}

/// gRPC's own errors. These can come after the server has carried the call out.
bool MayHaveHappened(grpc::StatusCode status) {
  return status == grpc::UNAVAILABLE || status == grpc::CANCELLED ||
         status == grpc::DEADLINE_EXCEEDED || status == grpc::UNKNOWN || status == grpc::INTERNAL ||
         status == grpc::DATA_LOSS;
}

void ReadDetail(const google::protobuf::Any& detail, Error& error) {
  if (internal::RpcErrorInfo info;
      detail.type_url() == "type.googleapis.com/google.rpc.ErrorInfo" &&
      info.ParseFromString(detail.value()) && info.domain() == "lockstep") {
    error.reason = info.reason();
    const auto effect = info.metadata().find("effect");
    const bool none = effect != info.metadata().end() ? effect->second == "NONE"
                                                      : error.reason != "OUTCOME_UNKNOWN";
    if (error.reason == "FENCED") error.code = Code::kFenced;
    error.effect = none ? Effect::kNone : Effect::kUnknown;
  }
  if (internal::RpcRetryInfo retry;
      detail.type_url() == "type.googleapis.com/google.rpc.RetryInfo" &&
      retry.ParseFromString(detail.value())) {
    error.retry_after = std::chrono::milliseconds(retry.retry_delay().seconds() * 1000 +
                                                  retry.retry_delay().nanos() / 1'000'000);
  }
}

}  // namespace

Error ToError(const grpc::Status& status) {
  Error error{.code = CodeOf(status.error_code()),
              .effect = MayHaveHappened(status.error_code()) ? Effect::kUnknown : Effect::kNone,
              .message = status.error_message()};
  internal::RpcStatus details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) ReadDetail(detail, error);
  }
  return error;
}

}  // namespace lockstep::client
