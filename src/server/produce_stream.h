#pragma once

#include <grpcpp/support/server_callback.h>
#include <lockstep/v1/coordinator.pb.h>

#include <string>

#include "server/api.h"
#include "server/call.h"
#include "server/convert.h"

namespace lockstep::server {

/// One ProduceStream: reads a message only when the one before it is applied, so that gRPC's flow
/// control reaches the client. Deletes itself when gRPC is done with it. One step at a time: a read
/// and an answer of the coordinator never overlap.
class ProduceStream final : public grpc::ServerReadReactor<v1::ProduceStreamRequest> {
 public:
  ProduceStream(Api& api, const grpc::CallbackServerContext& context,
                v1::ProduceStreamResponse* response);

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  /// The message as a call of its own: what it leaves out is as before.
  Result<WorkCall> Parse();
  void Refuse(const Refused& refused);

  Api& api_;
  const CallSlot slot_;
  Caller caller_;
  v1::ProduceStreamResponse* const response_;
  v1::ProduceStreamRequest message_;
  std::string txn_id_;
  std::string cluster_;
};

}  // namespace lockstep::server
