#pragma once

#include <grpcpp/support/server_callback.h>
#include <lockstep/v1/coordinator.pb.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "server/api.h"
#include "server/call.h"
#include "server/convert.h"

namespace lockstep::server {

/// One WatchTxn: waits for a change only when the one before it is written, so that a slow reader
/// skips revisions rather than have them queued. Deletes itself when gRPC is done with it.
class WatchStream final : public grpc::ServerWriteReactor<v1::WatchTxnResponse> {
 public:
  WatchStream(Api& api, const grpc::CallbackServerContext& context,
              const v1::WatchTxnRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  void Start(const grpc::CallbackServerContext& context, const v1::WatchTxnRequest& request);
  void Await();
  void OnChange(const Result<coordinator::TxnChange>& change);
  void Refuse(const Error& error, std::optional<v1::Reason> reason = std::nullopt);

  Api& api_;
  const CallSlot slot_;
  const coordinator::WatchId watch_;
  Caller caller_;
  GlobalTxnId id_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  // One step at a time: a write and a wait never overlap.
  SeenRevision seen_;  // Written last, or known to the client.
  bool first_ = true;
  bool final_ = false;
  v1::WatchTxnResponse response_;
};

}  // namespace lockstep::server
