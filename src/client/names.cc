#include <cstdlib>

#include "lockstep/result.h"
#include "lockstep/types.h"

namespace lockstep::client {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kWrongState:
      return "WRONG_STATE";
    case Code::kFenced:
      return "FENCED";
    case Code::kLimitReached:
      return "LIMIT_REACHED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kUnsupported:
      return "UNSUPPORTED";
    case Code::kCorrupt:
      return "CORRUPT";
    case Code::kInternal:
      return "INTERNAL";
  }
  std::abort();
}

std::string ToString(const Error& error) {
  std::string out(CodeName(error.code));
  if (!error.reason.empty() && error.reason != out) out += " (" + error.reason + ")";
  if (error.effect == Effect::kUnknown) out += ", effect unknown";
  return out + ": " + error.message;
}

std::string_view Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCommitted:
      return "COMMITTED";
    case Outcome::kAborted:
      return "ABORTED";
    case Outcome::kCommitting:
      return "COMMITTING";
    case Outcome::kHeuristic:
      return "HEURISTIC";
  }
  std::abort();
}

std::string_view Name(BranchOutcome outcome) {
  switch (outcome) {
    case BranchOutcome::kPending:
      return "PENDING";
    case BranchOutcome::kCommitted:
      return "COMMITTED";
    case BranchOutcome::kAborted:
      return "ABORTED";
    case BranchOutcome::kUnknown:
      return "UNKNOWN";
  }
  std::abort();
}

std::string_view Name(TxnState state) {
  switch (state) {
    case TxnState::kActive:
      return "ACTIVE";
    case TxnState::kPreparing:
      return "PREPARING";
    case TxnState::kCommitting:
      return "COMMITTING";
    case TxnState::kCommitted:
      return "COMMITTED";
    case TxnState::kAborting:
      return "ABORTING";
    case TxnState::kAborted:
      return "ABORTED";
    case TxnState::kHeuristic:
      return "HEURISTIC";
  }
  std::abort();
}

}  // namespace lockstep::client
