#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <lockstep/v1/admin.pb.h>

#include <condition_variable>
#include <mutex>

#include "server/api.h"
#include "server/call.h"

namespace lockstep::server {

/// One Backup: a thread of its own reads the log and waits for each piece to be written before it
/// reads the next, so that one piece is all that is held. Deletes itself when gRPC is done with it.
class BackupStream final : public grpc::ServerWriteReactor<v1::BackupResponse> {
 public:
  BackupStream(Api& api, grpc::CallbackServerContext* context);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  void Start();
  /// The thread, up to the status that the call ends with.
  grpc::Status SendAll();
  /// False: nobody reads any more.
  bool Send(std::string bytes);

  Api& api_;
  const Duration patience_;
  grpc::CallbackServerContext* const context_;
  const CallSlot slot_;
  v1::BackupResponse response_;  // gRPC's while it writes.

  std::mutex mutex_;
  std::condition_variable written_;
  enum class Write { kRuns, kDone, kFailed } write_ = Write::kDone;  // Guarded by mutex_.
};

}  // namespace lockstep::server
