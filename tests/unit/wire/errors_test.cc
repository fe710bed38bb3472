#include "wire/errors.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

namespace lockstep::wire {
namespace {

constexpr int kFirst = -1;
constexpr int kLast = 136;  // CONTROLLER_ID_NOT_REGISTERED, the last one of Kafka 4.4.0

TEST(Errors, TheTableHasEveryCodeOfKafkaOnce) {
  std::set<int> seen;
  for (const ErrorInfo& info : AllErrors()) {
    EXPECT_TRUE(seen.insert(static_cast<int>(info.error)).second) << Name(info.error);
  }
  for (int code = kFirst; code <= kLast; ++code) {
    EXPECT_EQ(seen.contains(code), code != 0) << code;
  }
}

/// Over every code there can be: a known one has its name, an unknown one claims nothing.
TEST(Errors, EveryCodeIsTotal) {
  for (int code = std::numeric_limits<std::int16_t>::min();
       code <= std::numeric_limits<std::int16_t>::max(); ++code) {
    if (code == 0) continue;
    const auto error = static_cast<ErrorCode>(code);
    const ErrorInfo info = Info(error);
    const bool known = code >= kFirst && code <= kLast;
    ASSERT_EQ(info.error, error);
    ASSERT_EQ(Name(error) == "ERROR_" + std::to_string(code), !known) << code;
    if (known) continue;
    ASSERT_EQ(info.effect, Effect::kUnknown) << code;
    ASSERT_FALSE(info.retriable) << code;
    ASSERT_EQ(info.code, Code::kUnimplemented) << code;
  }
}

TEST(Errors, NamesAreKafkas) {
  EXPECT_EQ(Name(ErrorCode::kNone), "NONE");
  EXPECT_EQ(Name(ErrorCode::kUnknownServerError), "UNKNOWN_SERVER_ERROR");
  EXPECT_EQ(Name(ErrorCode::kNotCoordinator), "NOT_COORDINATOR");
  EXPECT_EQ(Name(ErrorCode::kNotLeaderOrFollower), "NOT_LEADER_OR_FOLLOWER");
  EXPECT_EQ(Name(ErrorCode::kTransactionalIdNotFound), "TRANSACTIONAL_ID_NOT_FOUND");
}

TEST(Errors, NumbersAreKafkas) {
  EXPECT_EQ(static_cast<int>(ErrorCode::kNotCoordinator), 16);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidProducerEpoch), 47);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidTxnState), 48);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidProducerIdMapping), 49);
  EXPECT_EQ(static_cast<int>(ErrorCode::kConcurrentTransactions), 51);
  EXPECT_EQ(static_cast<int>(ErrorCode::kProducerFenced), 90);
  EXPECT_EQ(static_cast<int>(ErrorCode::kTransactionalIdNotFound), 105);
  EXPECT_EQ(static_cast<int>(ErrorCode::kTransactionAbortable), 120);
}

/// What a coordinator answers while it may yet do it, or has done it, must never read "no effect".
TEST(Errors, UncertainAnswersSaySo) {
  for (const ErrorCode error :
       {ErrorCode::kUnknownServerError, ErrorCode::kRequestTimedOut, ErrorCode::kNetworkException,
        ErrorCode::kCoordinatorNotAvailable, ErrorCode::kNotCoordinator,
        ErrorCode::kConcurrentTransactions, ErrorCode::kNotEnoughReplicasAfterAppend,
        ErrorCode::kKafkaStorageError}) {
    EXPECT_EQ(Info(error).effect, Effect::kUnknown) << Name(error);
  }
}

TEST(Errors, WhatTheClientRetries) {
  for (const ErrorCode error :
       {ErrorCode::kCoordinatorLoadInProgress, ErrorCode::kCoordinatorNotAvailable,
        ErrorCode::kNotCoordinator, ErrorCode::kConcurrentTransactions,
        ErrorCode::kNotLeaderOrFollower, ErrorCode::kLeaderNotAvailable}) {
    EXPECT_TRUE(Info(error).retriable) << Name(error);
  }
  for (const ErrorCode error :
       {ErrorCode::kInvalidTxnState, ErrorCode::kProducerFenced, ErrorCode::kInvalidProducerEpoch,
        ErrorCode::kInvalidProducerIdMapping, ErrorCode::kTransactionalIdAuthorizationFailed}) {
    EXPECT_FALSE(Info(error).retriable) << Name(error);
  }
}

TEST(Errors, MessageNamesWhatCodeAndBrokersWords) {
  const Error error = ToError(ErrorCode::kNotCoordinator, "EndTxn of x", "moved");
  EXPECT_EQ(error.message, "EndTxn of x: NOT_COORDINATOR (16): moved");
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_EQ(ToError(static_cast<ErrorCode>(4000), "x").message, "x: ERROR_4000 (4000)");
}

}  // namespace
}  // namespace lockstep::wire
