#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// How calls of the client fail: by value, never by exception. An outcome is not an error: a
/// transaction that aborted is an OK answer that says so (lockstep/types.h).
namespace lockstep::client {

/// What is known about the effect of a call that failed. Act on this, not on the wording.
enum class Effect {
  kNone,     ///< Nothing happened, and nothing will happen later.
  kUnknown,  ///< It may have happened, or may still happen: ask again.
};

enum class Code {
  kInvalidArgument,   ///< The request must change; the message names the field.
  kNotFound,          ///< Another server's id, or its outcome is no longer kept.
  kWrongState,        ///< The state of the transaction or of the server forbids it.
  kFenced,            ///< Somebody newer owns it, or it must be registered anew.
  kLimitReached,      ///< A bound of the server's is reached: see Error::retry_after.
  kUnavailable,       ///< The server is away, starting or leaving.
  kDeadlineExceeded,  ///< The call's timeout passed.
  kPermissionDenied,
  kUnsupported,  ///< This server does not do it.
  kCorrupt,      ///< The server found its data damaged.
  kInternal,     ///< A defect, here or there.
};
/// "WRONG_STATE".
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  Effect effect = Effect::kUnknown;
  /// The server's own word, as in lockstep/v1/error.proto without its prefix ("UNKNOWN_CLUSTER");
  /// empty where the server did not say one.
  std::string reason;
  std::string message;  ///< For people.
  /// Set where the same call may succeed after so long.
  std::optional<std::chrono::milliseconds> retry_after;
};
/// For people: "LIMIT_REACHED: limits.open_transactions ...".
std::string ToString(const Error& error);

/// A value or an Error. Reading the wrong side is a defect and aborts the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return Get<0>(*this); }
  T& value() & { return Get<0>(*this); }
  T&& value() && { return std::move(Get<0>(*this)); }
  const Error& error() const { return Get<1>(*this); }

  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  template <std::size_t I, typename Self>
  static auto& Get(Self& self) {
    if (self.state_.index() != I) std::abort();
    return *std::get_if<I>(&self.state_);
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

}  // namespace lockstep::client
