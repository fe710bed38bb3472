#include "server/backup_stream.h"

#include <spdlog/spdlog.h>

#include <string>
#include <thread>
#include <utility>

namespace lockstep::server {

BackupStream::BackupStream(Api& api, grpc::CallbackServerContext* context)
    : api_(api), patience_(api.limits.Get()->backup_patience), context_(context), slot_(api) {
  Start();
}

void BackupStream::Start() {
  std::optional<Refused> refused = CheckServing(api_);
  Caller caller;
  if (!refused) refused = AdmitInto(api_, "Backup", *context_, caller);
  if (refused) {
    return Finish(Note(api_, "Backup", refused->error, refused->reason));
  }
  if (api_.backup_runs.exchange(true)) {
    return Finish(Note(api_, "Backup",
                       MakeError(Code::kResourceExhausted, "another backup is being taken"), {}));
  }
  api_.gate.Note(caller, "Backup", {}, "begun");
  // Nobody joins it: after Finish it touches nothing, and Shutdown waits for that.
  std::thread([this] {
    const grpc::Status status = SendAll();
    api_.backup_runs = false;
    Finish(status);
  }).detach();
}

grpc::Status BackupStream::SendAll() {
  const auto backup = api_.log.Backup();
  if (!backup) return Note(api_, "Backup", backup.error(), {});
  spdlog::info("backup: begun");
  std::uint64_t bytes = 0;
  for (;;) {
    Result<std::string> piece = (*backup)->Next();
    if (!piece) {
      spdlog::error("backup: {}", ToString(piece.error()));
      return Note(api_, "Backup", piece.error(), {});
    }
    if (piece->empty()) break;
    bytes += piece->size();
    if (!Send(*std::move(piece))) {
      spdlog::warn("backup: its reader went away");
      return grpc::Status::CANCELLED;
    }
  }
  spdlog::info("backup: {} bytes were sent, it is whole", bytes);
  return grpc::Status::OK;
}

bool BackupStream::Send(std::string bytes) {
  response_.set_data(std::move(bytes));
  {
    const std::lock_guard lock(mutex_);
    write_ = Write::kRuns;
  }
  StartWrite(&response_);  // Without the lock: gRPC may call back at once.
  std::unique_lock lock(mutex_);
  const auto done = [this] { return write_ != Write::kRuns; };
  if (!written_.wait_for(lock, patience_, done)) {
    spdlog::warn("backup: its reader takes nothing");
    context_->TryCancel();
    written_.wait(lock, done);
  }
  return write_ == Write::kDone;
}

void BackupStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  write_ = ok ? Write::kDone : Write::kFailed;
  // Under the lock: once it is released, the thread may end this.
  written_.notify_one();
}

}  // namespace lockstep::server
