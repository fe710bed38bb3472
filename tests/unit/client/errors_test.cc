#include "client/errors.h"

#include <gtest/gtest.h>

#include "server/rpc_error.h"

namespace lockstep::client {
namespace {

TEST(ClientErrors, TheServersWordIsRead) {
  const Error full = ToError(server::ToGrpcStatus(
      MakeError(lockstep::Code::kResourceExhausted, "limits.open_transactions")));
  EXPECT_EQ(full.code, Code::kLimitReached);
  EXPECT_EQ(full.effect, Effect::kNone);
  EXPECT_EQ(full.reason, "LIMIT_REACHED");
  EXPECT_EQ(full.message, "limits.open_transactions");
  EXPECT_EQ(full.retry_after, std::chrono::milliseconds(200));

  const Error starting = ToError(
      server::ToGrpcStatus(MakeError(lockstep::Code::kUnavailable, "the server is starting")));
  EXPECT_EQ(starting.code, Code::kUnavailable);
  EXPECT_EQ(starting.effect, Effect::kNone);
  EXPECT_EQ(starting.retry_after, std::chrono::milliseconds(1000));

  const Error log_failed = ToError(server::ToGrpcStatus(
      MakeError(lockstep::Code::kUnavailable, "disk on fire", lockstep::Effect::kUnknown)));
  EXPECT_EQ(log_failed.reason, "OUTCOME_UNKNOWN");
  EXPECT_EQ(log_failed.effect, Effect::kUnknown);

  const Error unknown_cluster = ToError(server::ToGrpcStatus(
      MakeError(lockstep::Code::kInvalidArgument, "no 'north'"), v1::REASON_UNKNOWN_CLUSTER));
  EXPECT_EQ(unknown_cluster.code, Code::kInvalidArgument);
  EXPECT_EQ(unknown_cluster.reason, "UNKNOWN_CLUSTER");
  EXPECT_EQ(ToString(unknown_cluster), "INVALID_ARGUMENT (UNKNOWN_CLUSTER): no 'north'");
}

TEST(ClientErrors, EveryCodeOfTheServersKeepsItsEffect) {
  for (const auto effect : {lockstep::Effect::kNone, lockstep::Effect::kUnknown}) {
    for (int code = 0; code <= static_cast<int>(lockstep::Code::kInternal); ++code) {
      const auto error =
          ToError(server::ToGrpcStatus(MakeError(static_cast<lockstep::Code>(code), "m", effect)));
      EXPECT_EQ(error.effect == Effect::kNone, effect == lockstep::Effect::kNone) << code;
      EXPECT_FALSE(error.reason.empty()) << code;
    }
  }
}

TEST(ClientErrors, WithoutTheServersWordACallMayHaveReachedIt) {
  for (const auto status : {grpc::UNAVAILABLE, grpc::CANCELLED, grpc::DEADLINE_EXCEEDED,
                            grpc::UNKNOWN, grpc::INTERNAL, grpc::DATA_LOSS}) {
    const Error error = ToError({status, "lost"});
    EXPECT_EQ(error.effect, Effect::kUnknown) << status;
    EXPECT_TRUE(error.reason.empty());
    EXPECT_FALSE(error.retry_after.has_value());
  }
  // gRPC itself refuses these: the server never saw the call.
  for (const auto status : {grpc::RESOURCE_EXHAUSTED, grpc::UNIMPLEMENTED}) {
    EXPECT_EQ(ToError({status, "no"}).effect, Effect::kNone) << status;
  }
}

TEST(ClientErrors, DetailsOfOthersAreNotOurs) {
  const Error error = ToError({grpc::UNAVAILABLE, "proxy", "not a message of ours"});
  EXPECT_EQ(error.effect, Effect::kUnknown);
  EXPECT_TRUE(error.reason.empty());
}

}  // namespace
}  // namespace lockstep::client
