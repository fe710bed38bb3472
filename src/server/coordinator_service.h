#pragma once

#include <lockstep/v1/coordinator.grpc.pb.h>

#include "server/api.h"
#include "server/commit_waits.h"

namespace lockstep::server {

/// lockstep.v1.Coordinator: validates, posts to the coordinator, answers from its callbacks. Never
/// blocks a gRPC thread. Destroyed only once the executor has stopped.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  explicit CoordinatorService(Api& api) : api_(api), waits_(api) {}

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

  grpc::ServerReadReactor<v1::ProduceStreamRequest>* ProduceStream(
      grpc::CallbackServerContext* context, v1::ProduceStreamResponse* response) override;
  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context,
                                    const v1::ExecuteRequest* request,
                                    v1::ExecuteResponse* response) override;
  grpc::ServerBidiReactor<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>* ExecuteStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListTxns(grpc::CallbackServerContext* context,
                                     const v1::ListTxnsRequest* request,
                                     v1::ListTxnsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchTxnResponse>* WatchTxn(
      grpc::CallbackServerContext* context, const v1::WatchTxnRequest* request) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override;
  grpc::ServerUnaryReactor* ListClusters(grpc::CallbackServerContext* context,
                                         const v1::ListClustersRequest* request,
                                         v1::ListClustersResponse* response) override;
  grpc::ServerUnaryReactor* RegisterProducer(grpc::CallbackServerContext* context,
                                             const v1::RegisterProducerRequest* request,
                                             v1::RegisterProducerResponse* response) override;
  grpc::ServerUnaryReactor* Enlist(grpc::CallbackServerContext* context,
                                   const v1::EnlistRequest* request,
                                   v1::EnlistResponse* response) override;

  /// The server leaves: who waits for COMPLETE and is decided is answered COMMITTING, watches end,
  /// and so it is for calls that come from now on. Thread-safe.
  void AnswerDecided();

 private:
  Api& api_;
  CommitWaits waits_;
};

}  // namespace lockstep::server
