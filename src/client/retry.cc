#include "client/retry.h"

#include <algorithm>
#include <random>

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

// Less than this is not enough for one more attempt.
constexpr milliseconds kTooLate(5);

/// Between a half and the whole: clients that lost one server at one time come back spread out.
Retry::Clock::duration Jittered(Retry::Clock::duration backoff) {
  thread_local std::minstd_rand random(std::random_device{}());
  return backoff / 2 + backoff * (random() % 512) / 1024;
}

}  // namespace

Retry::Retry(const ClientOptions& options, Timeout timeout, bool insist)
    : options_(&options),
      insist_(insist),
      deadline_(Clock::now() + timeout.value_or(options.call_timeout)),
      backoff_(options.first_backoff) {}

Retry::Clock::duration Retry::NextAttempt() const {
  return std::min<Clock::duration>(deadline_ - Clock::now(), options_->attempt_timeout);
}

std::optional<Retry::Clock::duration> Retry::AfterError(Error error) {
  last_ = std::move(error);
  if (last_.effect == Effect::kUnknown) uncertain_ = true;
  if (!CanHelp(last_)) {
    // Such a refusal settles earlier attempts too: had one of them taken effect, the repetition
    // would have been OK, or its effect ended with its transaction.
    if (last_.code == Code::kInvalidArgument || last_.code == Code::kWrongState ||
        last_.code == Code::kFenced) {
      uncertain_ = false;
    }
    return std::nullopt;
  }
  return Later(last_.retry_after.value_or(milliseconds(0)));
}

std::optional<Retry::Clock::duration> Retry::AfterAnswer() {
  backoff_ = options_->first_backoff;
  return Later(milliseconds(0));
}

bool Retry::CanHelp(const Error& error) const {
  if (error.effect == Effect::kUnknown || error.code == Code::kUnavailable) return true;
  // Full is the caller's to handle, unless an earlier attempt is to be cleared up.
  return error.retry_after && (insist_ || uncertain_ || error.code != Code::kLimitReached);
}

std::optional<Retry::Clock::duration> Retry::Later(Clock::duration at_least) {
  const auto delay = std::max(Jittered(backoff_), at_least);
  backoff_ = std::min<Clock::duration>(2 * backoff_, options_->max_backoff);
  if (Clock::now() + delay + kTooLate > deadline_) return std::nullopt;
  return delay;
}

Error Retry::error() const {
  Error error = last_;
  if (uncertain_) error.effect = Effect::kUnknown;
  return error;
}

}  // namespace lockstep::client
