#include "server/rpc_error.h"

#include <gtest/gtest.h>
#include <lockstep/internal/rpc_status.pb.h>

#include <map>

namespace lockstep::server {
namespace {

struct Row {
  Code code;
  Effect effect;
  grpc::StatusCode status;
  const char* reason;
  bool retry;
};

// The contract of error.proto, for every code there is.
constexpr Row kTable[] = {
    {Code::kInvalidArgument, Effect::kNone, grpc::INVALID_ARGUMENT, "INVALID_REQUEST", false},
    {Code::kNotFound, Effect::kNone, grpc::NOT_FOUND, "TXN_NOT_FOUND", false},
    {Code::kFailedPrecondition, Effect::kNone, grpc::FAILED_PRECONDITION, "WRONG_STATE", false},
    {Code::kAborted, Effect::kNone, grpc::ABORTED, "CONFLICT", true},
    {Code::kResourceExhausted, Effect::kNone, grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", true},
    {Code::kUnavailable, Effect::kNone, grpc::UNAVAILABLE, "UNAVAILABLE", true},
    {Code::kUnavailable, Effect::kUnknown, grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", true},
    {Code::kDeadlineExceeded, Effect::kUnknown, grpc::DEADLINE_EXCEEDED, "TIMED_OUT", true},
    {Code::kPermissionDenied, Effect::kNone, grpc::PERMISSION_DENIED, "NOT_AUTHORIZED", false},
    {Code::kFenced, Effect::kNone, grpc::FAILED_PRECONDITION, "FENCED", false},
    {Code::kCorrupt, Effect::kUnknown, grpc::DATA_LOSS, "CORRUPT", false},
    {Code::kUnimplemented, Effect::kNone, grpc::UNIMPLEMENTED, "UNSUPPORTED", false},
    {Code::kInternal, Effect::kUnknown, grpc::INTERNAL, "INTERNAL", false},
};

struct Details {
  internal::RpcErrorInfo info;
  std::optional<internal::RpcRetryInfo> retry;
};

Details DetailsOf(const grpc::Status& status) {
  internal::RpcStatus content;
  EXPECT_TRUE(content.ParseFromString(status.error_details()));
  EXPECT_EQ(content.code(), status.error_code());
  EXPECT_EQ(content.message(), status.error_message());
  Details details;
  for (const auto& any : content.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc.ErrorInfo") {
      EXPECT_TRUE(details.info.ParseFromString(any.value()));
    } else if (any.type_url() == "type.googleapis.com/google.rpc.RetryInfo") {
      EXPECT_TRUE(details.retry.emplace().ParseFromString(any.value()));
    } else {
      ADD_FAILURE() << any.type_url();
    }
  }
  return details;
}

TEST(RpcError, EveryCodeHasItsStatusReasonAndRetry) {
  for (const Row& row : kTable) {
    const auto status = ToGrpcStatus(MakeError(row.code, "what went wrong", row.effect));
    SCOPED_TRACE(CodeName(row.code));
    EXPECT_EQ(status.error_code(), row.status);
    EXPECT_EQ(status.error_message(), "what went wrong");
    const Details details = DetailsOf(status);
    EXPECT_EQ(details.info.domain(), "lockstep");
    EXPECT_EQ(details.info.reason(), row.reason);
    EXPECT_EQ(details.retry.has_value(), row.retry);
    if (details.retry) {
      const auto& delay = details.retry->retry_delay();
      EXPECT_GT(delay.seconds() * 1'000'000'000 + delay.nanos(), 0);
    }
  }
}

TEST(RpcError, TheTableIsTotal) {
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    for (const Effect effect : {Effect::kNone, Effect::kUnknown, Effect::kApplied}) {
      const RpcError row = Classify(static_cast<Code>(code), effect);
      EXPECT_NE(row.status, grpc::OK);
      EXPECT_NE(row.reason, v1::REASON_UNSPECIFIED);
    }
    EXPECT_TRUE(std::any_of(std::begin(kTable), std::end(kTable),
                            [&](const Row& row) { return static_cast<int>(row.code) == code; }))
        << "the table above misses " << CodeName(static_cast<Code>(code));
  }
}

TEST(RpcError, TheEffectIsTold) {
  const auto effect_of = [](Effect effect) {
    return DetailsOf(ToGrpcStatus(MakeError(Code::kUnavailable, "", effect)))
        .info.metadata()
        .at("effect");
  };
  EXPECT_EQ(effect_of(Effect::kNone), "NONE");
  EXPECT_EQ(effect_of(Effect::kUnknown), "UNKNOWN");
  EXPECT_EQ(effect_of(Effect::kApplied), "APPLIED");
}

TEST(RpcError, ACallerMayKnowTheReasonBetter) {
  const auto status =
      ToGrpcStatus(MakeError(Code::kInvalidArgument, "no such"), v1::REASON_UNKNOWN_CLUSTER);
  EXPECT_EQ(DetailsOf(status).info.reason(), "UNKNOWN_CLUSTER");
}

// What a client with googleapis at hand reads, byte by byte: only field numbers and type URLs meet.
TEST(RpcError, TheWireFormIsThatOfGoogleRpc) {
  internal::RpcErrorInfo info;
  info.set_reason("R");
  info.set_domain("D");
  (*info.mutable_metadata())["k"] = "v";
  EXPECT_EQ(info.SerializeAsString(), std::string("\x0a\x01R\x12\x01"
                                                  "D\x1a\x06\x0a\x01k\x12\x01v"));
  internal::RpcRetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  EXPECT_EQ(retry.SerializeAsString(), std::string("\x0a\x02\x08\x01"));
  internal::RpcStatus status;
  status.set_code(5);
  status.set_message("m");
  status.add_details()->set_type_url("t");
  EXPECT_EQ(status.SerializeAsString(), std::string("\x08\x05\x12\x01m\x1a\x03\x0a\x01t"));
}

}  // namespace
}  // namespace lockstep::server
