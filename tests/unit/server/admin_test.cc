#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <spdlog/spdlog.h>

#include <set>
#include <thread>

#include "api_fixture.h"
#include "call_context.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class AdminTest : public ApiFixture {
 protected:
  /// Calls a method by its name with a raw message; what comes back is raw too.
  std::string RawCall(const std::string& method, const std::string& request) {
    grpc::GenericStub stub(channel_);
    CallContext context;
    context.set_wait_for_ready(true);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    const auto step = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const grpc::Slice slice(request);
    grpc::ByteBuffer answer;
    call->StartCall(nullptr);
    EXPECT_TRUE(step());
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    EXPECT_TRUE(step());
    call->Read(&answer, nullptr);
    EXPECT_TRUE(step());
    context.TryCancel();  // Reflection would go on.
    grpc::Slice flat;
    EXPECT_TRUE(answer.DumpToSingleSlice(&flat).ok());
    return {reinterpret_cast<const char*>(flat.begin()), flat.size()};
  }
  std::string Health() { return RawCall("/grpc.health.v1.Health/Check", ""); }
};

constexpr const char* kServing = "\x08\x01";
constexpr const char* kNotServing = "\x08\x02";

txn::Decision Decided(std::uint64_t batch, const std::string& cluster) {
  txn::Decision decision;
  decision.batch = BatchId(batch);
  decision.decided_at = WallTime{1'700'000'000'000};
  decision.members = {GlobalTxnId("0123456789abcdef-1-1-" + std::to_string(batch))};
  txn::DecidedParticipant participant;
  participant.prepared.name.cluster = ClusterName(cluster);
  participant.prepared.name.transactional_id = TransactionalId("old-" + std::to_string(batch));
  decision.participants = {participant};
  return decision;
}

TEST_F(AdminTest, StatusNamesTheServerAndItsClusters) {
  Serve();
  v1::GetStatusResponse status;
  ASSERT_TRUE(Call(*admin_, &AdminStub::GetStatus, v1::GetStatusRequest(), &status).ok());
  EXPECT_EQ(status.version(), LOCKSTEP_VERSION);
  EXPECT_EQ(status.log_id(), "0123456789abcdef");
  EXPECT_EQ(status.incarnation(), 3u);
  EXPECT_FALSE(status.has_horizon_time());
  EXPECT_FALSE(status.draining());
  ASSERT_EQ(status.clusters_size(), 2);
  EXPECT_EQ(status.clusters(0).name(), "east");
  EXPECT_EQ(status.clusters(0).state(), v1::CLUSTER_STATE_READY);
  EXPECT_EQ(status.clusters(0).kafka_cluster_id(), "kafka-east");
  EXPECT_EQ(status.clusters(0).lanes().idle(), 2);
}

TEST_F(AdminTest, WhatRecoveryFindsIsListedInPages) {
  east_.Set({.commits = false});
  for (std::uint64_t batch = 1; batch <= 25; ++batch) log_.Recover(Decided(batch, "east"));
  Serve();
  std::set<std::uint64_t> seen;
  std::string token;
  int pages = 0;
  do {
    const auto page = ListInDoubt(10, token);
    for (const auto& item : page.in_doubt()) {
      EXPECT_TRUE(seen.insert(item.batch_id()).second);
      EXPECT_EQ(item.decide_time().seconds(), 1'700'000'000);
    }
    token = page.next_page_token();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_EQ(pages, 3);

  v1::ListInDoubtRequest request;
  v1::ListInDoubtResponse response;
  request.set_page_token("x");
  ExpectError(Call(*admin_, &AdminStub::ListInDoubt, request, &response), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "page_token");
  request.set_page_token("");
  request.set_page_size(-1);
  ExpectError(Call(*admin_, &AdminStub::ListInDoubt, request, &response), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "page_size");
}

TEST_F(AdminTest, AHeuristicOutcomeStaysUntilAcknowledged) {
  west_.Set({.aborted_it = true});
  Serve();
  const std::string id = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_HEURISTIC);
  EXPECT_EQ(response.branches(0).outcome(), v1::BRANCH_OUTCOME_COMMITTED);
  EXPECT_EQ(response.branches(1).outcome(), v1::BRANCH_OUTCOME_ABORTED);
  ASSERT_EQ(ListInDoubt().in_doubt_size(), 1);
  EXPECT_EQ(ListInDoubt().in_doubt(0).state(), v1::TXN_STATE_HEURISTIC);

  v1::AcknowledgeHeuristicRequest request;
  request.set_txn_id(id);
  v1::AcknowledgeHeuristicResponse acknowledged;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Call(*admin_, &AdminStub::AcknowledgeHeuristic, request, &acknowledged).ok());
  }
  EXPECT_EQ(ListInDoubt().in_doubt_size(), 0);
  request.set_txn_id(Begin());
  ExpectError(Call(*admin_, &AdminStub::AcknowledgeHeuristic, request, &acknowledged),
              grpc::FAILED_PRECONDITION, "WRONG_STATE");
}

TEST_F(AdminTest, MissingMarkersAreShownAndRepairedOnAnOperatorsWord) {
  east_.Set({.missing_markers = {{"orders", 4}}});
  Serve();
  const std::string id = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response, v1::COMMIT_WAIT_DECIDED).ok());
  const auto missing = [&] {
    const auto txn = Get(id);
    return txn.branches_size() > 0 ? txn.branches(0).managed().missing_markers_size() : 0;
  };
  while (missing() == 0) {
  }
  EXPECT_EQ(Get(id).branches(0).managed().missing_markers(0).partition(), 4);

  v1::RepairMarkersRequest request;
  request.set_txn_id(id);
  request.set_cluster("west");
  v1::RepairMarkersResponse repaired;
  ExpectError(Call(*admin_, &AdminStub::RepairMarkers, request, &repaired),
              grpc::FAILED_PRECONDITION, "WRONG_STATE");
  EXPECT_FALSE(west_.repaired());
  request.set_cluster("east");
  ASSERT_TRUE(Call(*admin_, &AdminStub::RepairMarkers, request, &repaired).ok());
  EXPECT_TRUE(east_.repaired());
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
}

TEST_F(AdminTest, RepairOfWhatIsOpenSaysThatNothingIsMissing) {
  Serve();
  v1::RepairMarkersRequest request;
  request.set_txn_id(BeginWithWork());
  request.set_cluster("east");
  v1::RepairMarkersResponse repaired;
  ExpectError(Call(*admin_, &AdminStub::RepairMarkers, request, &repaired),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "is ACTIVE: no marker of it is known");
}

TEST_F(AdminTest, RepairOnAClusterWithoutABranchSaysSo) {
  east_.Set({.commits = false});
  Serve();
  const std::string id = Begin();
  ASSERT_TRUE(Produce(id, "east", 0).ok());
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response, v1::COMMIT_WAIT_DECIDED).ok());
  v1::RepairMarkersRequest request;
  request.set_txn_id(id);
  request.set_cluster("west");
  v1::RepairMarkersResponse repaired;
  ExpectError(Call(*admin_, &AdminStub::RepairMarkers, request, &repaired),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "no branch on cluster 'west'");
}

// ---- The server ---------------------------------------------------------------------------------

TEST_F(AdminTest, DrainedByAnOperatorItTakesNothingNewAndWhatIsUnderWayGoesOn) {
  Serve();
  const std::string open = BeginWithWork();
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, v1::DrainRequest(), &drained).ok());
  EXPECT_EQ(drained.open_transactions(), 1u);
  v1::BeginGlobalTxnRequest begin;
  begin.mutable_timeout()->set_seconds(1);
  v1::BeginGlobalTxnResponse begun;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "drained by an operator");
  EXPECT_EQ(Health(), kNotServing);
  v1::GetStatusResponse status;
  ASSERT_TRUE(Call(*admin_, &AdminStub::GetStatus, v1::GetStatusRequest(), &status).ok());
  EXPECT_TRUE(status.draining());

  EXPECT_TRUE(Produce(open, "east", 2).ok());
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(open, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, v1::DrainRequest(), &drained).ok());
  EXPECT_EQ(drained.open_transactions(), 0u);

  v1::UndrainResponse undrained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Undrain, v1::UndrainRequest(), &undrained).ok());
  EXPECT_EQ(Health(), kServing);
  EXPECT_FALSE(Begin().empty());
}

TEST_F(AdminTest, AServerThatStopsIsNotUndrained) {
  Serve();
  std::promise<void> done;
  daemon_->Drain([&] { done.set_value(); });
  done.get_future().wait();
  v1::UndrainResponse undrained;
  ExpectError(Call(*admin_, &AdminStub::Undrain, v1::UndrainRequest(), &undrained),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "stopping");
  EXPECT_EQ(Health(), kNotServing);
}

TEST_F(AdminTest, TheLogLevelIsSetAndTold) {
  Serve();
  const auto before = spdlog::get_level();
  v1::SetLogLevelRequest request;
  v1::SetLogLevelResponse response;
  ExpectError(Call(*admin_, &AdminStub::SetLogLevel, request, &response), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "level");
  for (const auto level : {v1::LOG_LEVEL_TRACE, v1::LOG_LEVEL_DEBUG, v1::LOG_LEVEL_WARN,
                           v1::LOG_LEVEL_ERROR, v1::LOG_LEVEL_INFO}) {
    request.set_level(level);
    ASSERT_TRUE(Call(*admin_, &AdminStub::SetLogLevel, request, &response).ok());
    ASSERT_TRUE(Call(*admin_, &AdminStub::SetLogLevel, request, &response).ok());
    EXPECT_EQ(response.previous(), level);
  }
  spdlog::set_level(before);
}

TEST_F(AdminTest, TheDecisionLogInNumbers) {
  west_.Set({.aborted_it = true});
  Serve();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(BeginWithWork(), &response).ok());
  v1::LogInfoResponse info;
  ASSERT_TRUE(Call(*admin_, &AdminStub::LogInfo, v1::LogInfoRequest(), &info).ok());
  EXPECT_EQ(info.log_id(), "0123456789abcdef");
  EXPECT_EQ(info.incarnation(), 3u);
  EXPECT_EQ(info.decisions(), 7u);
  EXPECT_EQ(info.kept_bytes(), 1000u);
  EXPECT_EQ(info.disk_bytes(), 5000u);
  EXPECT_EQ(info.syncs(), 9u);
  EXPECT_EQ(info.pending(), 0u);
  EXPECT_EQ(info.heuristic(), 1u);
}

// ---- Start and stop -----------------------------------------------------------------------------

TEST_F(AdminTest, UntilTheCoordinatorHasStartedCallsAreUnavailable) {
  StartServer();
  v1::CommitResponse response;
  ExpectError(Commit("x", &response), grpc::UNAVAILABLE, "UNAVAILABLE", "starting");
  EXPECT_EQ(Health(), kNotServing);
  ASSERT_TRUE(daemon_->Serve().ok());
  EXPECT_EQ(Health(), kServing);
  EXPECT_FALSE(Begin().empty());
}

TEST_F(AdminTest, APortInUseIsAClearError) {
  Serve();
  config_.listen.port = daemon_->port();
  Daemon second(config_, log_, {}, executor_, clock_, [](const Error&) {});
  const Status status = second.Listen();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_EQ(status.error().message,
            "cannot listen on 127.0.0.1:" + std::to_string(config_.listen.port) +
                ": Address already in use");
}

TEST_F(AdminTest, AHostThatIsNotHereIsAClearError) {
  config_.listen.host = "host.invalid";
  Daemon daemon(config_, log_, {}, executor_, clock_, [](const Error&) {});
  const Status status = daemon.Listen();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("cannot listen on host.invalid:0: "));
}

TEST_F(AdminTest, APendingClusterThatIsNotConfiguredStopsTheStart) {
  log_.Recover(Decided(1, "north"));
  log_.Recover(Decided(2, "north"));
  StartServer();
  const Status status = daemon_->Serve();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(status.error().message, HasSubstr("'north' (2)"));
}

TEST_F(AdminTest, DrainingRefusesNewTransactionsAndAbortsTheUndecided) {
  Serve();
  const std::string open = BeginWithWork();
  std::promise<void> drained;
  daemon_->Drain([&] { drained.set_value(); });
  drained.get_future().wait();
  EXPECT_EQ(Get(open).abort().reason(), v1::ABORT_REASON_SHUTDOWN);
  v1::BeginGlobalTxnRequest request;
  request.mutable_timeout()->set_seconds(1);
  v1::BeginGlobalTxnResponse response;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "draining");
  EXPECT_EQ(Health(), kNotServing);
  v1::GetStatusResponse status;
  ASSERT_TRUE(Call(*admin_, &AdminStub::GetStatus, v1::GetStatusRequest(), &status).ok());
  EXPECT_TRUE(status.draining());
}

TEST_F(AdminTest, StoppingAnswersACommitThatStillWaits) {
  east_.Set({.commits = false});
  Serve();
  const std::string id = BeginWithWork();
  v1::CommitResponse response;
  grpc::Status status;
  std::thread client([&] { status = Commit(id, &response); });
  while (ListInDoubt().in_doubt().empty()) {
  }
  daemon_->Drain([] { ADD_FAILURE() << "drained, although a cluster is down"; });
  StopServer(std::chrono::seconds(5));
  client.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
}

TEST_F(AdminTest, ReflectionNamesTheServices) {
  Serve();
  // ServerReflectionRequest.list_services = "".
  const std::string answer =
      RawCall("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {"\x3a\x00", 2});
  EXPECT_THAT(answer, HasSubstr("lockstep.v1.Coordinator"));
  EXPECT_THAT(answer, HasSubstr("lockstep.v1.Admin"));
}

}  // namespace
}  // namespace lockstep::server
