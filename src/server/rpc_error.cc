#include "server/rpc_error.h"

#include <lockstep/internal/rpc_status.pb.h>

#include <cstdlib>

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kReasonPrefix = "REASON_";

std::string_view EffectName(Effect effect) {
  switch (effect) {
    case Effect::kNone:
      return "NONE";
    case Effect::kUnknown:
      return "UNKNOWN";
    case Effect::kApplied:
      return "APPLIED";
  }
  std::abort();
}

void AddDetail(internal::RpcStatus& status, const std::string& type,
               const google::protobuf::Message& detail) {
  auto* any = status.add_details();
  any->set_type_url("type.googleapis.com/" + type);
  detail.SerializeToString(any->mutable_value());
}

}  // namespace

RpcError Classify(Code code, Effect effect) {
  using grpc::StatusCode;
  switch (code) {
    case Code::kInvalidArgument:
      return {StatusCode::INVALID_ARGUMENT, v1::REASON_INVALID_REQUEST, {}};
    case Code::kNotFound:
      return {StatusCode::NOT_FOUND, v1::REASON_TXN_NOT_FOUND, {}};
    case Code::kFailedPrecondition:
      return {StatusCode::FAILED_PRECONDITION, v1::REASON_WRONG_STATE, {}};
    case Code::kAborted:
      return {StatusCode::ABORTED, v1::REASON_CONFLICT, milliseconds(100)};
    case Code::kResourceExhausted:
      return {StatusCode::RESOURCE_EXHAUSTED, v1::REASON_LIMIT_REACHED, milliseconds(200)};
    case Code::kUnavailable:
      return {StatusCode::UNAVAILABLE,
              effect == Effect::kUnknown ? v1::REASON_OUTCOME_UNKNOWN : v1::REASON_UNAVAILABLE,
              milliseconds(1000)};
    case Code::kDeadlineExceeded:
      return {StatusCode::DEADLINE_EXCEEDED, v1::REASON_TIMED_OUT, milliseconds(1000)};
    case Code::kPermissionDenied:
      return {StatusCode::PERMISSION_DENIED, v1::REASON_NOT_AUTHORIZED, {}};
    case Code::kFenced:
      return {StatusCode::FAILED_PRECONDITION, v1::REASON_FENCED, {}};
    case Code::kCorrupt:
      return {StatusCode::DATA_LOSS, v1::REASON_CORRUPT, {}};
    case Code::kUnimplemented:
      return {StatusCode::UNIMPLEMENTED, v1::REASON_UNSUPPORTED, {}};
    case Code::kInternal:
      return {StatusCode::INTERNAL, v1::REASON_INTERNAL, {}};
  }
  std::abort();
}

RpcError Classify(const Error& error, std::optional<v1::Reason> reason) {
  RpcError row = Classify(error.code, error.effect);
  row.reason = reason.value_or(row.reason);
  if (row.reason == v1::REASON_NOT_AUTHENTICATED) row.status = grpc::StatusCode::UNAUTHENTICATED;
  return row;
}

grpc::Status ToGrpcStatus(const Error& error, std::optional<v1::Reason> reason) {
  const RpcError row = Classify(error, reason);
  internal::RpcStatus details;
  details.set_code(row.status);
  details.set_message(error.message);

  internal::RpcErrorInfo info;
  info.set_domain("lockstep");
  info.set_reason(v1::Reason_Name(row.reason).substr(kReasonPrefix.size()));
  (*info.mutable_metadata())["effect"] = EffectName(error.effect);
  AddDetail(details, "google.rpc.ErrorInfo", info);
  if (row.retry_delay) {
    internal::RpcRetryInfo retry;
    const auto ms = row.retry_delay->count();
    retry.mutable_retry_delay()->set_seconds(ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(ms % 1000) * 1'000'000);
    AddDetail(details, "google.rpc.RetryInfo", retry);
  }
  return {row.status, error.message, details.SerializeAsString()};
}

}  // namespace lockstep::server
