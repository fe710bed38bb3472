#pragma once

#include <grpcpp/support/server_callback.h>
#include <lockstep/v1/coordinator.pb.h>

#include <cstddef>
#include <mutex>
#include <optional>

#include "server/api.h"
#include "server/call.h"
#include "server/commit_waits.h"

namespace lockstep::server {

/// One ExecuteStream. A transaction counts as under way until its answer is written, so that
/// neither slow clusters nor a slow reader make anything grow: at the bound the next message is not
/// read. Answers that come while one is being written share the next message. Deletes itself when
/// gRPC is done with it, which is after every transaction was answered. Thread-safe.
class ExecuteStream final
    : public grpc::ServerBidiReactor<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse> {
 public:
  ExecuteStream(Api& api, CommitWaits& waits, grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  /// Why the whole message cannot be taken.
  std::optional<Refused> CheckMessage() const;
  void Run(const v1::ExecuteRequest& request);
  void Answer(v1::ExecuteAnswer answer);
  /// Starts what may be started now: a write, a read, the end. Releases the lock first, gRPC may
  /// call back at once; and whoever held it must not touch this any more.
  void GoOn(std::unique_lock<std::mutex> lock);

  Api& api_;
  CommitWaits& waits_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;  // OnReadDone's.
  const CallSlot slot_;
  v1::ExecuteStreamRequest request_;    // gRPC's while it reads, else OnReadDone's.
  v1::ExecuteStreamResponse response_;  // gRPC's while it writes.

  std::mutex mutex_;
  // All below is guarded by mutex_.
  v1::ExecuteStreamResponse answers_;  // To be written next.
  std::size_t in_flight_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool input_done_ = false;
  bool gone_ = false;  // Nobody reads answers any more.
  bool finished_ = false;
  grpc::Status status_;  // How the stream will end.
};

}  // namespace lockstep::server
