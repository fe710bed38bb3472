#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <lockstep/internal/rpc_status.pb.h>
#include <lockstep/v1/admin.grpc.pb.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "call_context.h"
#include "fakes.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/thread_executor.h"

namespace lockstep::server {

/// The real server in this process, on a free port, with a coordinator over fakes and gRPC stubs to
/// talk to it.
class ApiFixture : public ::testing::Test {
 protected:
  ApiFixture() {
    config_ =
        std::get<Config>(ParseConfig("data_dir: /nowhere\nlisten: 127.0.0.1:0\n"
                                     "clusters: [{name: east, bootstrap_servers: 'h:1'}, {name: "
                                     "west, bootstrap_servers: 'h:2'}]"));
  }
  ~ApiFixture() override { StopServer(); }

  /// With config_, log_ and the clusters as they are now.
  void StartServer() {
    daemon_ = std::make_unique<Daemon>(
        config_, log_, std::vector<coordinator::Cluster*>{&east_, &west_}, executor_, clock_,
        [this](const Error& error) { fatal_.set_value(error); });
    ASSERT_TRUE(daemon_->Listen().ok());
    Connect();
  }
  /// To the server that listens now.
  void Connect() {
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                   grpc::InsecureChannelCredentials());
    coordinator_ = v1::Coordinator::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }
  void Serve() {
    StartServer();
    ASSERT_TRUE(daemon_->Serve().ok());
  }
  /// Without a grace, what is being answered may be cut off.
  void StopServer(Duration grace = Duration::zero()) {
    if (daemon_ != nullptr && !std::exchange(stopped_, true)) daemon_->Stop(grace);
  }

  /// Once there is room: a call gives its place of limits.concurrent_calls back just after its
  /// answer, so that the next one may find it taken.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response,
                    std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    for (;;) {
      const grpc::Status status = CallAtOnce(stub, method, request, response, deadline);
      if (status.error_message().find("limits.concurrent_calls") == std::string::npos) {
        return status;
      }
    }
  }
  template <typename Stub, typename Request, typename Response>
  grpc::Status CallAtOnce(Stub& stub,
                          grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                       Response*),
                          const Request& request, Response* response,
                          std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    CallContext context(deadline);
    context.set_wait_for_ready(true);
    return (stub.*method)(&context, request, response);
  }

  using CoordinatorStub = v1::Coordinator::Stub;
  using AdminStub = v1::Admin::Stub;

  std::string Begin(int seconds = 60) {
    v1::BeginGlobalTxnRequest request;
    request.mutable_timeout()->set_seconds(seconds);
    request.set_label("test");
    v1::BeginGlobalTxnResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.txn_id();
  }

  grpc::Status Produce(const std::string& id, const std::string& cluster, std::uint64_t sequence,
                       const std::string& value = "v") {
    v1::ProduceRequest request;
    request.set_txn_id(id);
    request.set_cluster(cluster);
    request.set_sequence(sequence);
    auto& record = *request.add_records();
    record.set_topic("orders");
    record.set_value(value);
    v1::ProduceResponse response;
    return Call(*coordinator_, &CoordinatorStub::Produce, request, &response);
  }

  /// Begun, with one record on each cluster.
  std::string BeginWithWork() {
    const std::string id = Begin();
    EXPECT_TRUE(Produce(id, "east", 0).ok());
    EXPECT_TRUE(Produce(id, "west", 1).ok());
    return id;
  }

  /// One record for east, under this key.
  v1::ExecuteRequest Work(const std::string& key, const std::string& value = "v") const {
    v1::ExecuteRequest request;
    request.set_key(key);
    request.mutable_key_time()->set_seconds(clock_.WallNow().ms / 1000);
    request.mutable_timeout()->set_seconds(30);
    auto& produce = *request.add_work()->mutable_produce();
    produce.set_cluster("east");
    auto& record = *produce.add_records();
    record.set_topic("orders");
    record.set_value(value);
    return request;
  }

  grpc::Status Commit(const std::string& id, v1::CommitResponse* response,
                      v1::CommitWait wait = v1::COMMIT_WAIT_COMPLETE,
                      std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    v1::CommitRequest request;
    request.set_txn_id(id);
    request.set_wait(wait);
    return Call(*coordinator_, &CoordinatorStub::Commit, request, response, deadline);
  }

  grpc::Status Abort(const std::string& id, v1::AbortResponse* response) {
    v1::AbortRequest request;
    request.set_txn_id(id);
    return Call(*coordinator_, &CoordinatorStub::Abort, request, response);
  }

  v1::Transaction Get(const std::string& id) {
    v1::GetTxnRequest request;
    request.set_txn_id(id);
    v1::GetTxnResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::GetTxn, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.txn();
  }

  v1::ListInDoubtResponse ListInDoubt(int page_size = 0, const std::string& token = "") {
    v1::ListInDoubtRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1::ListInDoubtResponse response;
    const auto status = Call(*admin_, &AdminStub::ListInDoubt, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  /// Until not all of limits.concurrent_calls are under way.
  void AwaitRoom() {
    v1::GetServerInfoResponse info;
    EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::GetServerInfo, {}, &info).ok());
  }

  /// The reason in the details, empty if there are none.
  static std::string ReasonOf(const grpc::Status& status) {
    internal::RpcStatus details;
    internal::RpcErrorInfo info;
    if (!details.ParseFromString(status.error_details()) || details.details().empty() ||
        !info.ParseFromString(details.details(0).value())) {
      return "";
    }
    return info.reason();
  }

  static void ExpectError(const grpc::Status& status, grpc::StatusCode code,
                          const std::string& reason, const std::string& text = "") {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_EQ(ReasonOf(status), reason) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos) << status.error_message();
  }

  Config config_;
  SystemClock clock_;
  ThreadExecutor executor_;
  FakeLog log_{executor_};
  FakeCluster east_{"east", executor_};
  FakeCluster west_{"west", executor_};
  std::promise<Error> fatal_;
  std::unique_ptr<Daemon> daemon_;
  bool stopped_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::Stub> coordinator_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace lockstep::server
