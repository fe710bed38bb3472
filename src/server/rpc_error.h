#pragma once

#include <grpcpp/support/status.h>
#include <lockstep/v1/error.pb.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"

/// How an Error of ours becomes a gRPC status with details: one total table. See
/// lockstep/v1/error.proto for what each reason promises.
namespace lockstep::server {

struct RpcError {
  grpc::StatusCode status = grpc::StatusCode::INTERNAL;
  v1::Reason reason = v1::REASON_INTERNAL;
  std::optional<std::chrono::milliseconds> retry_delay;  ///< Set where the same call may succeed.
};

/// The table. An unknown effect of something unavailable is OUTCOME_UNKNOWN.
RpcError Classify(Code code, Effect effect);
/// The same, for a caller who knows the reason better. NOT_AUTHENTICATED has a status of its own.
RpcError Classify(const Error& error, std::optional<v1::Reason> reason);

/// The status to answer, with google.rpc.ErrorInfo and RetryInfo. `reason` where the caller knows
/// better than the table.
grpc::Status ToGrpcStatus(const Error& error, std::optional<v1::Reason> reason = std::nullopt);

}  // namespace lockstep::server
