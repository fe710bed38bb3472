#pragma once

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace lockstep::client {

/// Stands between the client and a server as an unreliable network: loses calls, or their answers.
/// Thread-safe.
class Relay final : public v1::Coordinator::Service {
 public:
  enum class Loss {
    kRequest,  ///< The server never hears of it.
    kAnswer,   ///< The server has carried it out.
  };

  Relay();
  ~Relay() override;

  std::uint16_t port() const { return port_; }
  /// To this server from now on.
  void LeadTo(std::uint16_t port);
  /// Cuts every connection and takes no new one, until LeadTo.
  void Cut();

  /// The next `count` calls of a method ("Commit"), instead of what was said before.
  void Lose(Loss loss, const std::string& method, int count = 1);
  /// How many calls of a method came, lost ones included.
  int calls(const std::string& method) const;

 private:
  using Stub = v1::Coordinator::Stub;
  template <typename Request, typename Response>
  grpc::Status Forward(const char* name, grpc::ServerContext* context, const Request* request,
                       Response* response,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*));

  grpc::Status BeginGlobalTxn(grpc::ServerContext* context,
                              const v1::BeginGlobalTxnRequest* request,
                              v1::BeginGlobalTxnResponse* response) override;
  grpc::Status Produce(grpc::ServerContext* context, const v1::ProduceRequest* request,
                       v1::ProduceResponse* response) override;
  grpc::Status SendOffsets(grpc::ServerContext* context, const v1::SendOffsetsRequest* request,
                           v1::SendOffsetsResponse* response) override;
  grpc::Status Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                      v1::CommitResponse* response) override;
  grpc::Status Abort(grpc::ServerContext* context, const v1::AbortRequest* request,
                     v1::AbortResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* context, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override;
  grpc::Status ListTxns(grpc::ServerContext* context, const v1::ListTxnsRequest* request,
                        v1::ListTxnsResponse* response) override;
  grpc::Status GetTxn(grpc::ServerContext* context, const v1::GetTxnRequest* request,
                      v1::GetTxnResponse* response) override;

  grpc::Status WatchTxn(grpc::ServerContext* context, const v1::WatchTxnRequest* request,
                        grpc::ServerWriter<v1::WatchTxnResponse>* writer) override;

  void Listen();

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::shared_ptr<Stub> upstream_;  // Guarded by mutex_, as all below.
  std::map<std::pair<std::string, Loss>, int> to_lose_;
  std::map<std::string, int> calls_;
  std::set<grpc::ClientContext*> forwarded_;
};

}  // namespace lockstep::client
