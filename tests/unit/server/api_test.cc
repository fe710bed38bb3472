#include <gmock/gmock.h>

#include <thread>

#include "api_fixture.h"
#include "call_context.h"

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class ApiTest : public ApiFixture {};

// ---- Outcomes are data --------------------------------------------------------------------------

TEST_F(ApiTest, ATransactionCommitsOnBothClusters) {
  Serve();
  const std::string id = BeginWithWork();
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_ACTIVE);
  EXPECT_EQ(Get(id).label(), "test");
  // Asked twice, and once more after the end: the same answer.
  for (int i = 0; i < 3; ++i) {
    v1::CommitResponse response;
    ASSERT_TRUE(Commit(id, &response).ok());
    EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
    ASSERT_EQ(response.branches_size(), 2);
    for (const auto& branch : response.branches()) {
      EXPECT_EQ(branch.outcome(), v1::BRANCH_OUTCOME_COMMITTED);
      EXPECT_EQ(branch.managed().transactional_id(), "lane-" + branch.cluster());
    }
  }
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_COMMITTED);
  v1::AbortResponse too_late;
  ASSERT_TRUE(Abort(id, &too_late).ok());
  EXPECT_EQ(too_late.outcome(), v1::OUTCOME_COMMITTED);
}

TEST_F(ApiTest, ATransactionWithoutWorkCommits) {
  Serve();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(Begin(), &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(response.branches_size(), 0);
}

TEST_F(ApiTest, AnAbortedTransactionSaysSoToEveryCall) {
  Serve();
  const std::string id = BeginWithWork();
  for (int i = 0; i < 2; ++i) {
    v1::AbortResponse response;
    ASSERT_TRUE(Abort(id, &response).ok());
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_CLIENT_ABORT);
  }
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(id, &commit).ok());
  EXPECT_EQ(commit.outcome(), v1::OUTCOME_ABORTED);
  ExpectError(Produce(id, "east", 2), grpc::FAILED_PRECONDITION, "WRONG_STATE", "ABORTED");
}

TEST_F(ApiTest, ARefusedBranchNamesReasonAndCluster) {
  west_.Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("west"),
                         "topic 'orders' does not exist", false}});
  Serve();
  const std::string id = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_UNKNOWN_TOPIC);
  EXPECT_EQ(response.abort().cluster(), "west");
  for (const auto& branch : response.branches()) {
    EXPECT_EQ(branch.outcome(), v1::BRANCH_OUTCOME_ABORTED);
  }
  EXPECT_THAT(response.abort().message(), HasSubstr("orders"));
  EXPECT_EQ(Get(id).abort().reason(), v1::ABORT_REASON_UNKNOWN_TOPIC);
}

TEST_F(ApiTest, ATransactionAbortsAtItsTimeout) {
  Serve();
  v1::BeginGlobalTxnRequest request;
  request.mutable_timeout()->set_nanos(1'000'000);
  v1::BeginGlobalTxnResponse begun;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &begun).ok());
  while (Get(begun.txn_id()).state() == v1::TXN_STATE_ACTIVE) {
  }
  EXPECT_EQ(Get(begun.txn_id()).abort().reason(), v1::ABORT_REASON_TXN_TIMEOUT);
}

// ---- Work ---------------------------------------------------------------------------------------

TEST_F(ApiTest, ARepeatedSequenceIsAppliedOnceAndAGapIsRefused) {
  Serve();
  const std::string id = Begin();
  ASSERT_TRUE(Produce(id, "east", 0, "first").ok());
  ASSERT_TRUE(Produce(id, "east", 0, "first").ok());
  ExpectError(Produce(id, "east", 2), grpc::FAILED_PRECONDITION, "WRONG_STATE", "next one is 1");
  ASSERT_TRUE(Produce(id, "east", 1, "second").ok());
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response).ok());
  const auto work = east_.prepared_work();
  ASSERT_EQ(work.records.size(), 2u);
  EXPECT_EQ(work.records[0].value, "first");
  EXPECT_EQ(work.records[1].value, "second");
}

TEST_F(ApiTest, OffsetsReachTheirClusterAndNoOther) {
  Serve();
  const std::string id = Begin();
  v1::SendOffsetsRequest request;
  request.set_txn_id(id);
  request.set_cluster("west");
  request.set_sequence(0);
  request.set_kafka_cluster_id("kafka-east");
  request.mutable_group()->set_group_id("g");
  request.mutable_group()->set_generation(1);
  request.mutable_group()->set_member_id("m");
  auto& offset = *request.add_offsets();
  offset.set_topic("orders");
  offset.set_offset(5);
  v1::SendOffsetsResponse response;
  ExpectError(Call(*coordinator_, &CoordinatorStub::SendOffsets, request, &response),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "they belong on 'east'");
  request.set_kafka_cluster_id("kafka-west");
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::SendOffsets, request, &response).ok());
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(id, &commit).ok());
  EXPECT_EQ(west_.prepared_work().offsets.at(0).group_id, "g");
}

class FencedGroupTest : public ApiFixture {
 protected:
  /// The outcome of a transaction with offsets of "g" for west, which fences it.
  v1::Abort Fenced(FakeCluster::Behaviour west) {
    west.refusal = {txn::AbortReason::kGroupFenced, ClusterName("west"), "unknown member", false};
    west_.Set(west);
    Serve();
    v1::SendOffsetsRequest request;
    request.set_txn_id(Begin());
    request.set_cluster("west");
    request.set_sequence(0);
    request.mutable_group()->set_group_id("g");
    request.mutable_group()->set_generation(1);
    request.mutable_group()->set_member_id("m");
    request.add_offsets()->set_topic("orders");
    v1::SendOffsetsResponse response;
    EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::SendOffsets, request, &response).ok());
    v1::CommitResponse commit;
    EXPECT_TRUE(Commit(request.txn_id(), &commit).ok());
    EXPECT_EQ(commit.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_EQ(commit.abort().reason(), v1::ABORT_REASON_GROUP_FENCED);
    return commit.abort();
  }
};

TEST_F(FencedGroupTest, IsToldWhereItLives) {
  east_.Set({.groups = {"g"}});
  EXPECT_EQ(Fenced({}).message(), "unknown member; group 'g' lives on cluster 'east'");
}

TEST_F(FencedGroupTest, MayBeNowhere) { EXPECT_EQ(Fenced({}).message(), "unknown member"); }

TEST_F(FencedGroupTest, MayLiveOnBoth) {
  east_.Set({.groups = {"g"}});
  EXPECT_EQ(Fenced({.groups = {"g"}}).message(), "unknown member");
}

TEST_F(FencedGroupTest, IsNotWaitedForForEver) {
  east_.Set({.knows_groups = false});
  EXPECT_EQ(Fenced({}).message(), "unknown member");
}

TEST_F(ApiTest, AnUnknownClusterIsNamedTogetherWithTheKnownOnes) {
  Serve();
  const std::string id = Begin();
  ExpectError(Produce(id, "north", 0), grpc::INVALID_ARGUMENT, "UNKNOWN_CLUSTER",
              "'north' is configured; there are: east, west");
  v1::RepairMarkersRequest repair;
  repair.set_txn_id(id);
  repair.set_cluster("north");
  v1::RepairMarkersResponse response;
  ExpectError(Call(*admin_, &AdminStub::RepairMarkers, repair, &response), grpc::INVALID_ARGUMENT,
              "UNKNOWN_CLUSTER");
}

// ---- Limits -------------------------------------------------------------------------------------

TEST_F(ApiTest, FullIsResourceExhausted) {
  config_.open_transactions = 1;
  config_.transaction_bytes = 1000;
  config_.buffer_bytes = 1000;
  config_.message_bytes = 10'000;
  config_.record_bytes = 5'000;
  Serve();
  const std::string id = Begin();
  v1::BeginGlobalTxnRequest request;
  request.mutable_timeout()->set_seconds(1);
  v1::BeginGlobalTxnResponse response;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response),
              grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "limits.open_transactions");
  ExpectError(Produce(id, "east", 0, std::string(2000, 'x')), grpc::RESOURCE_EXHAUSTED,
              "LIMIT_REACHED", "limits.transaction_bytes");
  ExpectError(Produce(id, "east", 0, std::string(6000, 'x')), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "limits.record_bytes");
  EXPECT_EQ(Produce(id, "east", 0, std::string(20'000, 'x')).error_code(),
            grpc::RESOURCE_EXHAUSTED);       // gRPC's own word.
  EXPECT_TRUE(Produce(id, "east", 0).ok());  // The transaction goes on.
  request.mutable_timeout()->set_seconds(3600);
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response),
              grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "limits.transaction_timeout");
}

TEST_F(ApiTest, CallsUnderWayAreBounded) {
  config_.concurrent_calls = 2;
  east_.Set({.commits = false});
  Serve();
  std::vector<std::string> ids = {BeginWithWork(), BeginWithWork()};
  std::vector<CallContext> contexts(ids.size());
  std::vector<std::thread> waiting;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    waiting.emplace_back([&, i] {
      v1::CommitRequest request;
      request.set_txn_id(ids[i]);
      v1::CommitResponse response;
      EXPECT_EQ(coordinator_->Commit(&contexts[i], request, &response).error_code(),
                grpc::CANCELLED);
    });
    while (east_.prepares() < static_cast<int>(i) + 1) std::this_thread::yield();
  }
  v1::GetStatusResponse status;
  ExpectError(CallAtOnce(*admin_, &AdminStub::GetStatus, v1::GetStatusRequest(), &status),
              grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "limits.concurrent_calls");
  for (auto& context : contexts) context.TryCancel();
  for (auto& thread : waiting) thread.join();
  // Nobody waits for them any more, whatever becomes of them.
  AwaitRoom();
  EXPECT_EQ(ListInDoubt().in_doubt_size(), 2);
}

TEST_F(ApiTest, ACallThatIsAnsweredEarlyLeavesNothingBehind) {
  config_.concurrent_calls = 1;
  east_.Set({.commits = false});
  Serve();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(BeginWithWork(), &response, v1::COMMIT_WAIT_COMPLETE, milliseconds(200)).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  AwaitRoom();
}

// ---- Waiting ------------------------------------------------------------------------------------

TEST_F(ApiTest, DecidedIsAnsweredWhileAClusterIsDown) {
  east_.Set({.commits = false});
  Serve();
  const std::string id = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response, v1::COMMIT_WAIT_DECIDED).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  v1::AbortResponse too_late;
  ASSERT_TRUE(Abort(id, &too_late).ok());
  EXPECT_EQ(too_late.outcome(), v1::OUTCOME_COMMITTING);

  const auto list = ListInDoubt();
  ASSERT_EQ(list.in_doubt_size(), 1);
  EXPECT_EQ(list.in_doubt(0).txn_ids(0), id);
  EXPECT_EQ(list.in_doubt(0).state(), v1::TXN_STATE_COMMITTING);
  EXPECT_EQ(list.in_doubt(0).branches(0).outcome(), v1::BRANCH_OUTCOME_PENDING);

  east_.Set({});
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(ListInDoubt().in_doubt_size(), 0);
}

TEST_F(ApiTest, MaxWaitEndsInCommitting) {
  east_.Set({.commits = false});
  Serve();
  v1::CommitRequest request;
  request.set_txn_id(BeginWithWork());
  request.mutable_max_wait()->set_nanos(1'000'000);
  v1::CommitResponse response;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::Commit, request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
}

TEST_F(ApiTest, ADecidedTransactionIsNeverDeadlineExceeded) {
  // Decided half way to the deadline: max_wait, which counts from the decision, would be too late.
  east_.Set({.vote_delay = milliseconds(600), .commits = false});
  Serve();
  v1::CommitResponse response;
  const std::string id = BeginWithWork();
  const auto status = Commit(id, &response, v1::COMMIT_WAIT_COMPLETE, milliseconds(1200));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
}

TEST_F(ApiTest, AnUndecidedTransactionMayBe) {
  east_.Set({.votes = false});
  Serve();
  v1::CommitResponse response;
  const std::string id = BeginWithWork();
  EXPECT_EQ(Commit(id, &response, v1::COMMIT_WAIT_COMPLETE, milliseconds(200)).error_code(),
            grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_PREPARING);
  v1::AbortResponse abort;
  ASSERT_TRUE(Abort(id, &abort).ok());
  EXPECT_EQ(abort.outcome(), v1::OUTCOME_ABORTED);
}

TEST_F(ApiTest, ManyCommitsThatWaitBlockNobody) {
  east_.Set({.commits = false});
  Serve();
  constexpr int kWaiting = 200;
  std::vector<std::thread> threads;
  std::vector<std::string> ids;
  for (int i = 0; i < kWaiting; ++i) ids.push_back(BeginWithWork());
  std::atomic<int> committed = 0;
  for (const auto& id : ids) {
    threads.emplace_back([&, id] {
      v1::CommitResponse response;
      const auto status = Commit(id, &response, v1::COMMIT_WAIT_COMPLETE, seconds(50));
      if (status.ok() && response.outcome() == v1::OUTCOME_COMMITTED) ++committed;
    });
  }
  const auto in_doubt = [this] {  // They share batches.
    int members = 0;
    const v1::ListInDoubtResponse response = ListInDoubt(1000);
    for (const auto& batch : response.in_doubt()) members += batch.txn_ids_size();
    return members;
  };
  while (in_doubt() < kWaiting) {
  }
  EXPECT_EQ(Get(Begin()).state(), v1::TXN_STATE_ACTIVE);
  east_.Set({});
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(committed, kWaiting);
}

TEST_F(ApiTest, AClientThatGoesAwayHurtsNobody) {
  east_.Set({.commits = false});
  Serve();
  const std::string id = BeginWithWork();
  CallContext context;
  v1::CommitRequest request;
  request.set_txn_id(id);
  v1::CommitResponse response;
  std::thread client([&] {
    EXPECT_EQ(coordinator_->Commit(&context, request, &response).error_code(), grpc::CANCELLED);
  });
  while (ListInDoubt().in_doubt().empty()) {
  }
  context.TryCancel();
  client.join();
  east_.Set({});
  v1::CommitResponse again;
  ASSERT_TRUE(Commit(id, &again).ok());
  EXPECT_EQ(again.outcome(), v1::OUTCOME_COMMITTED);
}

// ---- A log that fails ---------------------------------------------------------------------------

TEST_F(ApiTest, AFailedLogIsOutcomeUnknownForThoseWhoWaitAndAllAfterThem) {
  Serve();
  const std::string id = BeginWithWork();
  log_.Fail();
  v1::CommitResponse response;
  ExpectError(Commit(id, &response), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", "disk on fire");
  EXPECT_EQ(fatal_.get_future().get().effect, Effect::kUnknown);
  v1::AbortResponse abort;
  ExpectError(Abort(id, &abort), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
  ExpectError(Produce(id, "east", 2), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
}

TEST_F(ApiTest, ALogThatIsAnOlderCopyIsOutcomeUnknownToo) {
  Serve();
  const std::string id = BeginWithWork();
  east_.Supersede("its lanes went on without this log");
  EXPECT_NE(fatal_.get_future().get().message.find("went on"), std::string::npos);
  v1::CommitResponse response;
  ExpectError(Commit(id, &response), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", "went on");
}

}  // namespace
}  // namespace lockstep::server
