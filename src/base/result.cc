#include "base/result.h"

namespace lockstep {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kFenced:
      return "FENCED";
    case Code::kCorrupt:
      return "CORRUPT";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
  }
  std::abort();
}

std::string ToString(const Error& error) {
  std::string out(CodeName(error.code));
  switch (error.effect) {
    case Effect::kNone:
      break;
    case Effect::kUnknown:
      out += " (effect unknown)";
      break;
    case Effect::kApplied:
      out += " (effect applied)";
      break;
  }
  return out + ": " + error.message;
}

}  // namespace lockstep
