#pragma once

#include <lockstep/v1/coordinator.grpc.pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "server/api.h"

namespace lockstep::server {

/// lockstep.v1.Coordinator: validates, posts to the coordinator, answers from its callbacks. Never
/// blocks a gRPC thread. Destroyed only once the executor has stopped.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  explicit CoordinatorService(Api& api) : api_(api) {}

  grpc::ServerUnaryReactor* BeginGlobalTxn(grpc::CallbackServerContext* context,
                                           const v1::BeginGlobalTxnRequest* request,
                                           v1::BeginGlobalTxnResponse* response) override;
  grpc::ServerUnaryReactor* Produce(grpc::CallbackServerContext* context,
                                    const v1::ProduceRequest* request,
                                    v1::ProduceResponse* response) override;
  grpc::ServerUnaryReactor* SendOffsets(grpc::CallbackServerContext* context,
                                        const v1::SendOffsetsRequest* request,
                                        v1::SendOffsetsResponse* response) override;
  grpc::ServerUnaryReactor* Commit(grpc::CallbackServerContext* context,
                                   const v1::CommitRequest* request,
                                   v1::CommitResponse* response) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* GetTxn(grpc::CallbackServerContext* context,
                                   const v1::GetTxnRequest* request,
                                   v1::GetTxnResponse* response) override;

  /// Answers every Commit that waits for COMPLETE and is decided with COMMITTING, and those that
  /// come from now on too. Thread-safe.
  void AnswerDecided();

 private:
  using AnswerTxn = coordinator::Callback<Result<coordinator::TxnView>>;
  /// On the executor. `patience`: how long until DECIDED is enough.
  void AwaitCommit(const GlobalTxnId& id, coordinator::CommitOptions options,
                   std::optional<Duration> patience, AnswerTxn answer);

  Api& api_;
  // On the executor only. What answers a waiting Commit as soon as it is decided.
  std::map<std::uint64_t, std::function<void()>> waiting_;
  std::uint64_t next_waiting_ = 0;
  bool answer_decided_ = false;
};

}  // namespace lockstep::server
