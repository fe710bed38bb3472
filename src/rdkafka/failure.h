#pragma once

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "lockstep/client.h"

/// librdkafka's errors and times, as this library tells them. Pure.
namespace lockstep::rdkafka {

/// Until when one call may take, with all its parts.
class Deadline {
 public:
  explicit Deadline(client::Timeout timeout)
      : at_(Clock::now() + timeout.value_or(std::chrono::seconds(30))) {}

  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()),
                    std::chrono::milliseconds(0));
  }
  bool passed() const { return left().count() == 0; }
  /// Of a librdkafka call that may be called again: a part of what is left. Milliseconds.
  int Slice() const { return static_cast<int>(std::min<std::int64_t>(left().count(), 1000)); }
  /// Of one that may not.
  int Whole() const { return static_cast<int>(std::min<std::int64_t>(left().count(), 3'600'000)); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point at_;
};

/// What a call of librdkafka's failed with. `what` names the call.
client::Error Failed(const std::string& what, rd_kafka_resp_err_t code);
/// The same; takes `error`, which is not null, over.
client::Error Failed(const std::string& what, rd_kafka_error_t* error);

/// Calls what librdkafka lets one call again after a retriable failure, until it ends otherwise or
/// the deadline has passed. `call`: rd_kafka_error_t*(int timeout_ms).
template <typename F>
client::Status Resume(const std::string& what, const Deadline& deadline, F call) {
  for (;;) {
    rd_kafka_error_t* error = call(deadline.Slice());
    if (error == nullptr) return {};
    if (rd_kafka_error_is_retriable(error) == 0 || deadline.passed()) return Failed(what, error);
    rd_kafka_error_destroy(error);
  }
}

}  // namespace lockstep::rdkafka
