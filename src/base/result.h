#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace lockstep {

/// What is known about the effect of an operation that failed. Code acts on this, never on the
/// wording of an error: kUnknown means "ask the broker", it never means "probably".
enum class Effect {
  kNone,     ///< Nothing happened, and nothing will happen later.
  kUnknown,  ///< It may have happened, or may still happen.
  kApplied,  ///< It happened; only what followed it failed.
};

/// What kind of failure it was: picks the gRPC status and decides whether a retry can help.
enum class Code {
  kInvalidArgument,     ///< The caller must change the request.
  kNotFound,            ///< The thing named does not exist, or is no longer kept.
  kFailedPrecondition,  ///< The state forbids it; the message says which state and what to do.
  kAborted,             ///< Lost against something concurrent; starting anew can help.
  kResourceExhausted,   ///< A bound is reached; retry later.
  kUnavailable,         ///< A peer or a resource is away for now; retry later.
  kDeadlineExceeded,    ///< It took too long.
  kPermissionDenied,    ///< Not authorised, here or by the broker.
  kFenced,              ///< Someone newer owns the transactional.id (or the group generation).
  kCorrupt,             ///< Stored or received bytes contradict themselves.
  kUnimplemented,       ///< The peer does not speak it.
  kInternal,            ///< A defect of ours.
};

/// The code's name as logs and messages show it, e.g. "UNAVAILABLE".
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  Effect effect = Effect::kUnknown;
  std::string message;
};

/// One line for logs: "UNAVAILABLE (effect unknown): broker 127.0.0.1:9092: connection refused".
std::string ToString(const Error& error);

inline Error MakeError(Code code, std::string message, Effect effect = Effect::kNone) {
  return Error{code, effect, std::move(message)};
}

/// A value or an Error. Reading the wrong side is a defect and aborts the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return Get<0>(); }
  T& value() & { return Get<0>(); }
  T&& value() && { return std::move(Get<0>()); }
  const Error& error() const { return Get<1>(); }

  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  template <std::size_t I>
  const auto& Get() const {
    if (state_.index() != I) std::abort();
    return *std::get_if<I>(&state_);
  }
  template <std::size_t I>
  auto& Get() {
    if (state_.index() != I) std::abort();
    return *std::get_if<I>(&state_);
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    if (ok()) std::abort();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace lockstep
