#include "client/retry.h"

#include <gtest/gtest.h>

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RetryTest : public testing::Test {
 protected:
  Retry New(Timeout timeout = {}, bool insist = false) { return Retry(options_, timeout, insist); }

  static Error Lost() { return {.code = Code::kUnavailable, .effect = Effect::kUnknown}; }
  static Error Starting() {
    return {.code = Code::kUnavailable, .effect = Effect::kNone, .retry_after = seconds(1)};
  }
  static Error Full() {
    return {.code = Code::kLimitReached, .effect = Effect::kNone, .retry_after = milliseconds(200)};
  }
  static Error Refused(Code code) { return {.code = code, .effect = Effect::kNone}; }

  ClientOptions options_;
};

TEST_F(RetryTest, WaitsLongerEachTimeUpToABound) {
  Retry retry = New(seconds(1000));
  auto at_most = options_.first_backoff;
  for (int i = 0; i < 12; ++i) {
    const auto delay = retry.AfterError(Lost());
    ASSERT_TRUE(delay.has_value());
    EXPECT_LE(*delay, at_most);
    EXPECT_GE(*delay, at_most / 2);
    at_most = std::min(2 * at_most, options_.max_backoff);
  }
}

TEST_F(RetryTest, TheServersDelayTakesPrecedence) {
  EXPECT_GE(*New().AfterError(Starting()), seconds(1));
}

TEST_F(RetryTest, AnAttemptHasItsOwnBoundAndTheCallsTimeIsAnother) {
  EXPECT_EQ(New().NextAttempt(), options_.attempt_timeout);
  EXPECT_LE(New(milliseconds(100)).NextAttempt(), milliseconds(100));
  EXPECT_GT(New(milliseconds(100)).NextAttempt(), milliseconds(0));
}

TEST_F(RetryTest, WhatCannotHelpIsNotTriedAgain) {
  for (const Code code : {Code::kInvalidArgument, Code::kNotFound, Code::kWrongState,
                          Code::kPermissionDenied, Code::kUnsupported}) {
    Retry retry = New();
    EXPECT_FALSE(retry.AfterError(Refused(code)).has_value());
    EXPECT_EQ(retry.error().code, code);
    EXPECT_EQ(retry.error().effect, Effect::kNone);
  }
}

TEST_F(RetryTest, FullIsTheCallersUnlessTheCallInsists) {
  EXPECT_FALSE(New().AfterError(Full()).has_value());
  EXPECT_TRUE(New({}, true).AfterError(Full()).has_value());
  // A message that is too large stays too large.
  EXPECT_FALSE(New({}, true).AfterError(Refused(Code::kLimitReached)).has_value());
}

TEST_F(RetryTest, AnEarlierAttemptMakesTheEffectUnknown) {
  Retry retry = New(milliseconds(300));
  EXPECT_TRUE(retry.AfterError(Lost()).has_value());
  // Nothing happened this time; what of the first?
  EXPECT_FALSE(retry.AfterError(Starting()).has_value());
  EXPECT_EQ(retry.error().effect, Effect::kUnknown);
}

TEST_F(RetryTest, AnEarlierAttemptIsClearedUpAlsoByAFullServer) {
  Retry retry = New();
  EXPECT_TRUE(retry.AfterError(Lost()).has_value());
  EXPECT_TRUE(retry.AfterError(Full()).has_value());
  EXPECT_FALSE(retry.AfterError(Refused(Code::kWrongState)).has_value());
  EXPECT_EQ(retry.error().effect, Effect::kNone);
}

TEST_F(RetryTest, AnOutcomeThatIsNoLongerKeptSettlesNothing) {
  Retry retry = New();
  EXPECT_TRUE(retry.AfterError(Lost()).has_value());
  EXPECT_FALSE(retry.AfterError(Refused(Code::kNotFound)).has_value());
  EXPECT_EQ(retry.error().effect, Effect::kUnknown);
}

TEST_F(RetryTest, ThereIsNoAttemptAfterTheCallsTime) {
  EXPECT_FALSE(New(milliseconds(0)).AfterError(Lost()).has_value());
  EXPECT_FALSE(New(milliseconds(500)).AfterError(Starting()).has_value());
  EXPECT_FALSE(New(milliseconds(0)).AfterAnswer().has_value());
}

}  // namespace
}  // namespace lockstep::client
