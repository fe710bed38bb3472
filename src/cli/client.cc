#include "cli/client.h"

#include <utility>

#include "client/errors.h"
#include "client/watch.h"

namespace lockstep::cli {

Client::Client(std::string server, std::chrono::milliseconds deadline, client::Security security)
    : server_(std::move(server)),
      deadline_(deadline),
      // One attempt has all the time that is left: a commit may wait that long.
      connection_({.server = server_,
                   .security = std::move(security),
                   .call_timeout = deadline,
                   .attempt_timeout = deadline}) {
  coordinator_ = v1::Coordinator::NewStub(connection_.channel());
  admin_ = v1::Admin::NewStub(connection_.channel());
}

std::optional<CallError> Client::Watch(
    const std::string& txn_id, const std::function<void(const v1::WatchTxnResponse&)>& each) {
  const auto status = client::WatchToEnd(connection_, txn_id, {}, [&](const auto& response) {
    each(response);
    return true;
  });
  if (!status) return Named(status.error());
  return std::nullopt;
}

std::optional<CallError> Client::Backup(const std::function<bool(const std::string&)>& each) {
  grpc::ClientContext context;
  const auto reader = admin_->Backup(&context, v1::BackupRequest());
  for (v1::BackupResponse response; reader->Read(&response);) {
    if (!each(response.data())) context.TryCancel();
  }
  return Judge(reader->Finish());
}

std::optional<CallError> Client::Judge(const grpc::Status& status) const {
  if (status.ok()) return std::nullopt;
  return Named(client::ToError(status));
}

CallError Client::Named(CallError error) const {
  if (error.reason.empty() && error.code == client::Code::kUnavailable) {
    error.message = "lockstepd at " + server_ + ": " + error.message;
  }
  return error;
}

}  // namespace lockstep::cli
