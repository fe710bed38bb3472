#pragma once

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace lockstep::client {

/// A status as the server makes it, with its word.
grpc::Status Refusal(grpc::StatusCode code, const std::string& reason, const std::string& message);

/// What a server says to a client with producers of its own, as a test scripts it. It ends no
/// transaction anywhere. Thread-safe.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  FakeCoordinator();
  ~FakeCoordinator() override;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// The next calls of a method ("Enlist") fail so, one each, before it does anything.
  void Fail(const std::string& method, std::vector<grpc::Status> statuses);
  /// The next answers of Commit, then of Abort too, one each. After them: COMMITTED; ABORTED.
  void Say(std::vector<v1::Outcome> outcomes);
  /// Enlisted branches say it, from now on.
  void RequireReinit(bool required);
  /// As after a restart: earlier registrations are FENCED.
  void Restart();
  /// Answers tell this, though no registration was voided.
  void TellIncarnation(std::uint64_t incarnation);
  /// As of before CAPABILITY_BEGIN_ENLISTED: BeginGlobalTxn enlists nobody.
  void ForgetBeginEnlisted();
  /// Called with each Commit or Abort that comes, before its answer, also of those that fail.
  void OnEnd(std::function<void()> hook);

  int calls(const std::string& method) const;
  std::vector<v1::CommitRequest> commits() const;         ///< All that came.
  std::vector<v1::EnlistRequest> enlists() const;         ///< Those that were OK.
  std::vector<v1::BeginGlobalTxnRequest> begins() const;  ///< Those that were OK.
  int managed_records() const;                            ///< Of Produce.

 private:
  grpc::Status Enter(const std::string& method);
  template <typename Response>
  void End(v1::Outcome otherwise, Response* response);

  grpc::Status BeginGlobalTxn(grpc::ServerContext*, const v1::BeginGlobalTxnRequest* request,
                              v1::BeginGlobalTxnResponse* response) override;
  grpc::Status RegisterProducer(grpc::ServerContext*, const v1::RegisterProducerRequest* request,
                                v1::RegisterProducerResponse* response) override;
  grpc::Status Enlist(grpc::ServerContext*, const v1::EnlistRequest* request,
                      v1::EnlistResponse* response) override;
  grpc::Status Produce(grpc::ServerContext*, const v1::ProduceRequest* request,
                       v1::ProduceResponse* response) override;
  grpc::Status Commit(grpc::ServerContext*, const v1::CommitRequest* request,
                      v1::CommitResponse* response) override;
  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                     v1::AbortResponse* response) override;

  int port_ = 0;
  mutable std::mutex mutex_;  // Guards all below, but server_.
  std::map<std::string, std::deque<grpc::Status>> failures_;
  std::deque<v1::Outcome> outcomes_;
  bool reinit_ = false;
  bool begin_enlists_ = true;
  std::uint64_t incarnation_ = 1;
  int registered_ = 0;
  std::map<std::string, std::string> clusters_;  // Of the registrations that are not void.
  std::set<std::string> branches_;               // Clusters of the transaction begun last.
  std::function<void()> on_end_;
  std::map<std::string, int> calls_;
  std::vector<v1::CommitRequest> commits_;
  std::vector<v1::EnlistRequest> enlists_;
  std::vector<v1::BeginGlobalTxnRequest> begins_;
  int managed_records_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace lockstep::client
