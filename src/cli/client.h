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
#include <utility>

#include "client/connection.h"

namespace lockstep::cli {

/// A call that did not end OK.
using CallError = client::Error;

/// A connection to one lockstepd, and blocking calls on it. One thread.
///
/// The calls of one transaction go through the client library, which repeats them until they are
/// answered and knows what a failure leaves open. The others are asked once: somebody waits.
class Client {
 public:
  /// Connects at the first call. `deadline` bounds each call.
  Client(std::string server, std::chrono::milliseconds deadline, client::Security security = {});
  /// Why no call can be made: a file of `security`.
  const std::optional<CallError>& problem() const { return connection_.problem(); }

  /// A call of one transaction: client.Repeat(&TransactionStub::Commit, request, response), until
  /// it is answered or the deadline. None: OK.
  template <typename Request, typename Response>
  std::optional<CallError> Repeat(client::Method<Request, Response> method, const Request& request,
                                  Response& response) {
    auto answer = client::Call(connection_, method, request, {.timeout = {}, .ask_again = {}});
    if (!answer) return Named(answer.error());
    response = *std::move(answer);
    return std::nullopt;
  }

  /// Calls one method once: client.Call(&CoordinatorStub::GetTxn, request, response). None: OK.
  template <typename Stub, typename Request, typename Response>
  std::optional<CallError> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    return Judge((StubOf(static_cast<Stub*>(nullptr)).*method)(&context, request, &response));
  }

  /// WatchTxn to its end, across restarts of the server: `each` is called for each message. The
  /// deadline bounds how long no server answers. None: the outcome is final.
  std::optional<CallError> Watch(const std::string& txn_id,
                                 const std::function<void(const v1::WatchTxnResponse&)>& each);

  /// Backup, without a deadline: `each` is called for each piece, and ends the call with false.
  std::optional<CallError> Backup(const std::function<bool(const std::string&)>& each);

 private:
  v1::Coordinator::Stub& StubOf(v1::Coordinator::Stub*) { return *coordinator_; }
  v1::Admin::Stub& StubOf(v1::Admin::Stub*) { return *admin_; }
  std::optional<CallError> Judge(const grpc::Status& status) const;
  /// An error that is the connection's says whose.
  CallError Named(CallError error) const;

  const std::string server_;
  const std::chrono::milliseconds deadline_;
  client::Connection connection_;
  std::unique_ptr<v1::Coordinator::Stub> coordinator_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

using TransactionStub = client::Connection::Stub;
using CoordinatorStub = v1::Coordinator::Stub;
using AdminStub = v1::Admin::Stub;

}  // namespace lockstep::cli
