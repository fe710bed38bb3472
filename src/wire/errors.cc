#include "wire/errors.h"

#include <algorithm>
#include <cctype>

namespace lockstep::wire {
namespace {

/// "kNotCoordinator" -> "NOT_COORDINATOR": the constants are Kafka's names, only written otherwise.
std::string KafkaName(std::string_view constant) {
  std::string name;
  for (char c : constant.substr(1)) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isupper(letter) != 0 && !name.empty()) name += '_';
    name += static_cast<char>(std::toupper(letter));
  }
  return name;
}

constexpr bool kRetry = true;
constexpr bool kFinal = false;

}  // namespace

const std::vector<ErrorInfo>& AllErrors() {
  static const std::vector<ErrorInfo> all = {
#define LOCKSTEP_X(constant, number, retriable, effect, code) \
  {ErrorCode::constant, retriable, Effect::effect, Code::code},
      LOCKSTEP_KAFKA_ERRORS(LOCKSTEP_X)
#undef LOCKSTEP_X
  };
  return all;
}

ErrorInfo Info(ErrorCode error) {
  const auto& all = AllErrors();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ErrorInfo& info) { return info.error == error; });
  if (found != all.end()) return *found;
  return {error, kFinal, Effect::kUnknown, Code::kUnimplemented};
}

std::string Name(ErrorCode error) {
  switch (error) {
    case ErrorCode::kNone:
      return "NONE";
#define LOCKSTEP_X(constant, number, retriable, effect, code) \
  case ErrorCode::constant:                                   \
    return KafkaName(#constant);
      LOCKSTEP_KAFKA_ERRORS(LOCKSTEP_X)
#undef LOCKSTEP_X
  }
  return "ERROR_" + std::to_string(static_cast<std::int16_t>(error));
}

Error ToError(ErrorCode error, std::string_view what, std::string_view broker_message) {
  const ErrorInfo info = Info(error);
  std::string text(what);
  text += ": " + Name(error) + " (" + std::to_string(static_cast<std::int16_t>(error)) + ")";
  if (!broker_message.empty()) text.append(": ").append(broker_message);
  return MakeError(info.code, std::move(text), info.effect);
}

}  // namespace lockstep::wire
