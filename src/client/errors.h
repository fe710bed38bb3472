#pragma once

#include <grpcpp/support/status.h>

#include "lockstep/result.h"

namespace lockstep::client {

/// What a status that is not OK says. Without a word of the server's own (lost connections, gRPC's
/// deadlines) the call may have reached it: Effect::kUnknown. Pure.
Error ToError(const grpc::Status& status);

}  // namespace lockstep::client
