#pragma once

#include <grpcpp/client_context.h>

#include <chrono>

namespace lockstep {

/// What a test's call needs: a deadline, for lockstepd refuses unary calls without one, and no test
/// is to wait for ever.
class CallContext : public grpc::ClientContext {
 public:
  explicit CallContext(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    set_deadline(std::chrono::system_clock::now() + limit);
  }
};

}  // namespace lockstep
