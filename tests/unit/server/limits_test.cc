#include <gmock/gmock.h>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using std::chrono::seconds;

/// What bounds the work of transactions, and changes of it while the server runs.
class LimitsTest : public ApiFixture {
 protected:
  grpc::Status ProduceMany(const std::string& id, int records, std::uint64_t sequence) {
    v1::ProduceRequest request;
    request.set_txn_id(id);
    request.set_cluster("east");
    request.set_sequence(sequence);
    for (int i = 0; i < records; ++i) request.add_records()->set_topic("orders");
    v1::ProduceResponse response;
    return Call(*coordinator_, &CoordinatorStub::Produce, request, &response);
  }
  /// Stubs over a connection of their own.
  void Reconnect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                         grpc::InsecureChannelCredentials(), arguments);
    coordinator_ = v1::Coordinator::NewStub(channel_);
  }
  void Abort(const std::string& id) {
    v1::AbortResponse response;
    EXPECT_TRUE(ApiFixture::Abort(id, &response).ok());
  }
};

TEST_F(LimitsTest, RecordsAndOffsetsOfOneTransaction) {
  config_.transaction_records = 5;
  Serve();
  const std::string id = Begin();
  ASSERT_TRUE(ProduceMany(id, 4, 0).ok());
  ExpectError(ProduceMany(id, 2, 1), grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED",
              "limits.transaction_records (5)");
  v1::SendOffsetsRequest offsets;
  offsets.set_txn_id(id);
  offsets.set_cluster("east");
  offsets.set_sequence(1);
  offsets.mutable_group()->set_group_id("group");
  offsets.set_standalone(true);
  for (int partition = 0; partition < 2; ++partition) {
    auto& offset = *offsets.add_offsets();
    offset.set_topic("orders");
    offset.set_partition(partition);
    offset.set_offset(7);
  }
  v1::SendOffsetsResponse response;
  ExpectError(Call(*coordinator_, &CoordinatorStub::SendOffsets, offsets, &response),
              grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "limits.transaction_records");
  offsets.mutable_offsets()->RemoveLast();
  EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::SendOffsets, offsets, &response).ok());
  ASSERT_TRUE(ProduceMany(Begin(), 5, 0).ok()) << "another transaction has its own";
}

TEST_F(LimitsTest, OneClientDoesNotTakeTheOthersBuffers) {
  config_.client_buffer_bytes = 10'000;
  Serve();
  const std::string first = Begin();
  const std::string second = Begin();
  ASSERT_TRUE(Produce(first, "east", 0, std::string(6000, 'x')).ok());
  ExpectError(Produce(second, "east", 0, std::string(6000, 'x')), grpc::RESOURCE_EXHAUSTED,
              "LIMIT_REACHED", "limits.client_buffer_bytes");
  Reconnect();
  ASSERT_TRUE(Produce(Begin(), "east", 0, std::string(6000, 'x')).ok()) << "another client";
  ExpectError(Produce(second, "east", 0, std::string(6000, 'x')), grpc::RESOURCE_EXHAUSTED,
              "LIMIT_REACHED", "limits.client_buffer_bytes");
  Abort(first);
  EXPECT_TRUE(Produce(second, "east", 0, std::string(6000, 'x')).ok()) << "it was given back";
}

TEST_F(LimitsTest, AreTakenUpWhileItRuns) {
  Serve();
  const std::string id = Begin();
  ASSERT_TRUE(Produce(id, "east", 0, std::string(3000, 'x')).ok());
  config_.open_transactions = 2;
  config_.transaction_bytes = 2000;
  config_.record_bytes = 4000;
  config_.max_transaction_timeout = seconds(100);
  daemon_->Reconfigure(config_);
  // What is there stays; nothing is added to it.
  ExpectError(Produce(id, "east", 1), grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED",
              "limits.transaction_bytes");
  ExpectError(Produce(Begin(), "east", 0, std::string(5000, 'x')), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "limits.record_bytes");
  v1::BeginGlobalTxnRequest request;
  request.mutable_timeout()->set_seconds(60);
  v1::BeginGlobalTxnResponse response;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response),
              grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "limits.open_transactions is 2");
  Abort(id);
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response).ok());
  EXPECT_EQ(response.limits().open_transactions(), 2u);
  EXPECT_EQ(response.limits().record_bytes(), 4000u);
  EXPECT_EQ(response.limits().transaction_timeout().seconds(), 100);
}

TEST_F(LimitsTest, AClusterIsAddedWhileItRuns) {
  Serve();
  const std::string id = Begin();
  ExpectError(Produce(id, "north", 0), grpc::INVALID_ARGUMENT, "UNKNOWN_CLUSTER", "east, west");
  FakeCluster north("north", executor_);
  daemon_->AddCluster(&north);
  ASSERT_TRUE(Produce(id, "north", 0).ok());
  ASSERT_TRUE(Produce(id, "east", 1).ok());
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(north.prepares(), 1);
  v1::ListClustersResponse clusters;
  ASSERT_TRUE(
      Call(*coordinator_, &CoordinatorStub::ListClusters, v1::ListClustersRequest(), &clusters)
          .ok());
  EXPECT_EQ(clusters.clusters_size(), 3);
  north.Supersede("its lanes went on without this log");
  EXPECT_NE(fatal_.get_future().get().message.find("went on"), std::string::npos);
  StopServer();
}

}  // namespace
}  // namespace lockstep::server
