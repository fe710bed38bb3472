#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <lockstep/v1/admin.grpc.pb.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::cli {

/// A call that did not end OK.
struct CallError {
  grpc::StatusCode status = grpc::StatusCode::UNKNOWN;
  std::string reason;  ///< A v1::Reason's name without its prefix; empty: gRPC's own error.
  std::string message;

  /// Nobody said that nothing happened: only asking again tells.
  bool EffectUnknown() const;
};
/// For people: "FAILED_PRECONDITION (WRONG_STATE): the transaction is ABORTED, not ACTIVE".
std::string ToString(const CallError& error);

/// A connection to one lockstepd, and blocking calls on it. One thread.
class Client {
 public:
  /// Connects at the first call. `deadline` bounds each call.
  Client(std::string server, std::chrono::milliseconds deadline);

  /// Calls one method: client.Call(&CoordinatorStub::Commit, request, response). None: OK.
  template <typename Stub, typename Request, typename Response>
  std::optional<CallError> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    return Judge((StubOf(static_cast<Stub*>(nullptr)).*method)(&context, request, &response));
  }

  /// WatchTxn, without a deadline: `each` is called for each message. None: the stream ended OK.
  std::optional<CallError> Watch(const v1::WatchTxnRequest& request,
                                 const std::function<void(const v1::WatchTxnResponse&)>& each);

  /// Backup, without a deadline: `each` is called for each piece, and ends the call with false.
  std::optional<CallError> Backup(const std::function<bool(const std::string&)>& each);

 private:
  v1::Coordinator::Stub& StubOf(v1::Coordinator::Stub*) { return *coordinator_; }
  v1::Admin::Stub& StubOf(v1::Admin::Stub*) { return *admin_; }
  std::optional<CallError> Judge(const grpc::Status& status) const;

  const std::string server_;
  const std::chrono::milliseconds deadline_;
  std::unique_ptr<v1::Coordinator::Stub> coordinator_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

using CoordinatorStub = v1::Coordinator::Stub;
using AdminStub = v1::Admin::Stub;

}  // namespace lockstep::cli
