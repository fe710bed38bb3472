#pragma once

#include <chrono>
#include <optional>

#include "client/errors.h"
#include "lockstep/client.h"

namespace lockstep::client {

/// When one call is tried again, and what is known when it is not. One thread at a time; reads the
/// steady clock, waits for nothing.
class Retry {
 public:
  using Clock = std::chrono::steady_clock;

  /// `insist`: also try again when the server is full.
  Retry(const ClientOptions& options, Timeout timeout, bool insist);

  /// How long the attempt that begins now may take.
  Clock::duration NextAttempt() const;

  /// After an attempt that failed: wait so long, then try again. None: give up; error() says why.
  std::optional<Clock::duration> AfterError(Error error);
  /// After an answer that may get better. None: there is no time to ask again.
  std::optional<Clock::duration> AfterAnswer();

  /// The last attempt's, with what is known of all of them.
  Error error() const;

 private:
  bool CanHelp(const Error& error) const;
  std::optional<Clock::duration> Later(Clock::duration at_least);

  const ClientOptions* options_;
  bool insist_;
  Clock::time_point deadline_;
  Clock::duration backoff_;
  Error last_;
  bool uncertain_ = false;  // Some attempt may have reached the server without our knowing.
};

}  // namespace lockstep::client
