#include <gmock/gmock.h>

#include <thread>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;

class ExecuteTest : public ApiFixture {
 protected:
  v1::ExecuteRequest Request(const std::string& key, const std::string& value = "v") const {
    v1::ExecuteRequest request;
    request.set_key(key);
    request.mutable_key_time()->set_seconds(clock_.WallNow().ms / 1000);
    request.mutable_timeout()->set_seconds(30);
    for (const char* cluster : {"east", "west"}) {
      auto& produce = *request.add_work()->mutable_produce();
      produce.set_cluster(cluster);
      auto& record = *produce.add_records();
      record.set_topic("orders");
      record.set_value(value);
    }
    return request;
  }

  grpc::Status Execute(const v1::ExecuteRequest& request, v1::ExecuteResponse* response) {
    return Call(*coordinator_, &CoordinatorStub::Execute, request, response);
  }
};

TEST_F(ExecuteTest, AKeyThatCommittedAnswersTheSameAndRunsOnce) {
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse first;
  ASSERT_TRUE(Execute(request, &first).ok());
  EXPECT_EQ(first.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_FALSE(first.repeated_key());
  EXPECT_EQ(Get(first.txn_id()).key(), "k1");
  v1::ExecuteResponse again;
  ASSERT_TRUE(Execute(request, &again).ok());
  EXPECT_EQ(again.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_TRUE(again.repeated_key());
  EXPECT_EQ(again.key(), "k1");
  EXPECT_EQ(again.txn_id(), first.txn_id());
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, AKeyStandsForItsWorkAndItsTime) {
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(request, &response).ok());
  ExpectError(Execute(Request("k1", "other"), &response), grpc::INVALID_ARGUMENT, "KEY_REUSED");
  v1::ExecuteRequest later = request;
  later.mutable_key_time()->set_seconds(request.key_time().seconds() + 1);
  ExpectError(Execute(later, &response), grpc::INVALID_ARGUMENT, "KEY_REUSED");
  // What may differ from call to call.
  v1::ExecuteRequest impatient = request;
  impatient.mutable_timeout()->set_seconds(1);
  impatient.set_label("again");
  impatient.set_wait(v1::COMMIT_WAIT_DECIDED);
  EXPECT_TRUE(Execute(impatient, &response).ok());
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, AKeyThatAbortedRunsAgain) {
  west_.Set(
      {.refusal = {txn::AbortReason::kClusterUnavailable, ClusterName("west"), "away", true}});
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_CLUSTER_UNAVAILABLE);
  west_.Set({});
  v1::ExecuteResponse again;
  ASSERT_TRUE(Execute(request, &again).ok());
  EXPECT_EQ(again.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_FALSE(again.repeated_key());
}

TEST_F(ExecuteTest, TwoAtOnceAreOneRun) {
  east_.Set({.vote_delay = milliseconds(200)});
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse first;
  v1::ExecuteResponse second;
  std::thread other([&] { EXPECT_TRUE(Execute(request, &second).ok()); });
  EXPECT_TRUE(Execute(request, &first).ok());
  other.join();
  EXPECT_EQ(first.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(second.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(first.txn_id(), second.txn_id());
  EXPECT_NE(first.repeated_key(), second.repeated_key());
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, AForgottenKeyIsRefusedAndSoIsOneFromTheFuture) {
  Serve();
  log_.ForgetUpTo(clock_.WallNow());
  v1::ExecuteResponse response;
  v1::ExecuteRequest request = Request("k1");
  request.mutable_key_time()->set_seconds(request.key_time().seconds() - 60);
  ExpectError(Execute(request, &response), grpc::NOT_FOUND, "KEY_FORGOTTEN");
  request.mutable_key_time()->set_seconds(request.key_time().seconds() + 3600);
  ExpectError(Execute(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "key_time");
  EXPECT_EQ(east_.prepares(), 0);
}

TEST_F(ExecuteTest, EachFieldIsChecked) {
  Serve();
  const auto refused = [&](const std::string& text, const auto& spoil) {
    v1::ExecuteRequest request = Request("k1");
    spoil(request);
    v1::ExecuteResponse response;
    ExpectError(Execute(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", text);
  };
  refused("key:", [](auto& r) { r.clear_key(); });
  refused("key:", [](auto& r) { r.set_key("two words"); });
  refused("key:", [](auto& r) { r.set_key(std::string(257, 'k')); });
  refused("key_time:", [](auto& r) { r.clear_key_time(); });
  refused("timeout:", [](auto& r) { r.clear_timeout(); });
  refused("work[2]:", [](auto& r) { r.add_work(); });
  refused("work[0].produce.cluster:",
          [](auto& r) { r.mutable_work(0)->mutable_produce()->clear_cluster(); });
  refused("work[0].produce.records:",
          [](auto& r) { r.mutable_work(0)->mutable_produce()->clear_records(); });
  refused("work[0].offsets.group.group_id:",
          [](auto& r) { r.mutable_work(0)->mutable_offsets()->set_cluster("east"); });
  v1::ExecuteRequest unknown = Request("k1");
  unknown.mutable_work(0)->mutable_produce()->set_cluster("north");
  v1::ExecuteResponse response;
  ExpectError(Execute(unknown, &response), grpc::INVALID_ARGUMENT, "UNKNOWN_CLUSTER");
}

TEST_F(ExecuteTest, AKeyThatRecoveryFoundIsTheRunThatWasDecided) {
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse first;
  {
    Serve();
    ASSERT_TRUE(Execute(request, &first).ok());
  }
  // Its decision is in the log; the coordinator's memory is not needed.
  const auto stored = log_.FindKey("k1");
  ASSERT_TRUE(stored.ok() && stored->has_value());
  EXPECT_EQ((*stored)->members.at(0).get(), first.txn_id());
  EXPECT_EQ((*stored)->keys.at(0).key.digest.size(), 32U);
}

TEST_F(ExecuteTest, PositionsAreAnsweredWhereTheyAreAskedFor) {
  Serve();
  v1::ExecuteRequest request = Request("k1");
  request.set_return_positions(true);
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(request, &response).ok());
  ASSERT_EQ(response.branches_size(), 2);
  for (const auto& branch : response.branches()) {
    ASSERT_EQ(branch.managed().positions_size(), 1);
    EXPECT_EQ(branch.managed().positions(0).offset(), 100);
  }
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(BeginWithWork(), &commit).ok());
  EXPECT_EQ(commit.branches(0).managed().positions_size(), 0);
}

TEST_F(ExecuteTest, AStreamAnswersEachByItsKey) {
  Serve();
  grpc::ClientContext context;
  const auto stream = coordinator_->ExecuteStream(&context);
  constexpr int kCount = 50;
  for (int i = 0; i < kCount; i += 10) {
    v1::ExecuteStreamRequest message;
    for (int j = i; j < i + 10; ++j) {
      *message.add_transactions() = Request("k" + std::to_string(j));
    }
    if (i == 0) message.mutable_transactions(0)->clear_timeout();
    ASSERT_TRUE(stream->Write(message));
  }
  stream->WritesDone();
  std::map<std::string, v1::ExecuteAnswer> answers;
  for (v1::ExecuteStreamResponse message; stream->Read(&message);) {
    for (const auto& answer : message.answers()) {
      EXPECT_TRUE(answers.emplace(answer.key(), answer).second) << answer.key();
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(answers.size(), kCount);
  EXPECT_EQ(answers["k0"].error().reason(), v1::REASON_INVALID_REQUEST);
  EXPECT_EQ(answers["k0"].error().code(), grpc::INVALID_ARGUMENT);
  for (int i = 1; i < kCount; ++i) {
    EXPECT_EQ(answers["k" + std::to_string(i)].response().outcome(), v1::OUTCOME_COMMITTED);
  }
}

TEST_F(ExecuteTest, AStreamEndsAtAKeyThatCannotBeAnswered) {
  Serve();
  grpc::ClientContext context;
  const auto stream = coordinator_->ExecuteStream(&context);
  v1::ExecuteStreamRequest message;
  *message.add_transactions() = Request("");
  ASSERT_TRUE(stream->Write(message));
  v1::ExecuteStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  ExpectError(stream->Finish(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "key:");
}

}  // namespace
}  // namespace lockstep::server
