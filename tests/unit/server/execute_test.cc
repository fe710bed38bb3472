#include <gmock/gmock.h>

#include <functional>
#include <thread>

#include "api_fixture.h"
#include "call_context.h"
#include "server/work_digest.h"

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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

  grpc::Status Execute(const v1::ExecuteRequest& request, v1::ExecuteResponse* response,
                       milliseconds deadline = seconds(20)) {
    return Call(*coordinator_, &CoordinatorStub::Execute, request, response, deadline);
  }

  /// Its answer, which must be that the key committed in a run that was there before.
  v1::ExecuteResponse ExpectCommittedBefore(const v1::ExecuteRequest& request) {
    v1::ExecuteResponse response;
    const grpc::Status status = Execute(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
    EXPECT_TRUE(response.repeated_key());
    return response;
  }

  /// Until so many transactions have reached the cluster east.
  void AwaitPrepares(int count) const {
    while (east_.prepares() < count) std::this_thread::yield();
  }

  /// A call of its own connection's, given up once `reached` says so.
  void ExecuteAndGiveUp(const v1::ExecuteRequest& request, const std::function<void()>& reached) {
    CallContext context;
    std::thread client([&] {
      v1::ExecuteResponse response;
      EXPECT_EQ(coordinator_->Execute(&context, request, &response).error_code(), grpc::CANCELLED);
    });
    reached();
    context.TryCancel();
    client.join();
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

TEST_F(ExecuteTest, TwoConnectionsAtOnceAreOneRun) {
  east_.Set({.vote_delay = milliseconds(200)});
  Serve();
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto elsewhere = v1::Coordinator::NewStub(
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                grpc::InsecureChannelCredentials(), own_connection));
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse first;
  v1::ExecuteResponse second;
  std::thread other(
      [&] { EXPECT_TRUE(Call(*elsewhere, &CoordinatorStub::Execute, request, &second).ok()); });
  EXPECT_TRUE(Execute(request, &first).ok());
  other.join();
  EXPECT_EQ(first.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(second.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(first.txn_id(), second.txn_id());
  EXPECT_NE(first.repeated_key(), second.repeated_key());
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, ARunningKeyIsRefusedToOtherWork) {
  east_.Set({.commits = false});
  Serve();
  v1::ExecuteRequest request = Request("k1");
  request.set_wait(v1::COMMIT_WAIT_DECIDED);
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  ExpectError(Execute(Request("k1", "other"), &response), grpc::INVALID_ARGUMENT, "KEY_REUSED");
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, ACallGivenUpBeforeTheDecisionGoesOnAndIsAskedAgain) {
  east_.Set({.vote_delay = milliseconds(200)});
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  ExecuteAndGiveUp(request, [&] { AwaitPrepares(1); });
  ExpectCommittedBefore(request);
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, ACallGivenUpAfterTheDecisionIsAskedAgain) {
  east_.Set({.commits = false});
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  std::string id;
  ExecuteAndGiveUp(request, [&] {
    while (ListInDoubt().in_doubt().empty()) std::this_thread::yield();
    id = ListInDoubt().in_doubt(0).txn_ids(0);
  });
  east_.Set({});
  EXPECT_EQ(ExpectCommittedBefore(request).txn_id(), id);
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, ACallGivenUpNoLongerCountsAsOne) {
  config_.concurrent_calls = 1;
  east_.Set({.commits = false});
  Serve();
  ExecuteAndGiveUp(Request("k1"), [&] { AwaitPrepares(1); });
  AwaitRoom();
  EXPECT_EQ(ListInDoubt().in_doubt_size(), 1);
}

TEST_F(ExecuteTest, ADecidedKeyIsNeverDeadlineExceeded) {
  // Decided half way to the deadline: max_wait, which counts from the decision, would be too late.
  east_.Set({.vote_delay = milliseconds(600), .commits = false});
  Serve();
  const v1::ExecuteRequest request = Request("k1");
  v1::ExecuteResponse response;
  const grpc::Status status = Execute(request, &response, milliseconds(1200));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  east_.Set({});
  EXPECT_EQ(ExpectCommittedBefore(request).txn_id(), response.txn_id());
}

TEST_F(ExecuteTest, AnUndecidedKeyMayBeAndItsRunIsTheOneThatIsAskedFor) {
  east_.Set({.votes = false});
  Serve();
  v1::ExecuteRequest request = Request("k1");
  request.mutable_timeout()->set_seconds(1);
  v1::ExecuteResponse response;
  EXPECT_EQ(Execute(request, &response, milliseconds(200)).error_code(), grpc::DEADLINE_EXCEEDED);
  ASSERT_TRUE(Execute(request, &response).ok());
  EXPECT_TRUE(response.repeated_key());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_TXN_TIMEOUT);
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

TEST_F(ExecuteTest, AKeyThatRecoveryFindsInDoubtIsWaitedFor) {
  const v1::ExecuteRequest request = Request("k1");
  txn::Decision decision;
  decision.batch = BatchId(7);
  decision.members = {GlobalTxnId("0123456789abcdef-2-1700000000000-1")};
  decision.keys = {
      {0, {"k1", WallTime{request.key_time().seconds() * 1000}, DigestOf(request.work())}}};
  txn::DecidedParticipant participant;
  participant.prepared.name = {ClusterName("east"), KafkaClusterId("kafka-east"),
                               TransactionalId("lane-east"), ProducerId(7), ProducerEpoch(1)};
  decision.participants = {participant};
  log_.Recover(decision);
  east_.Set({.commits = false});
  Serve();
  v1::ExecuteRequest impatient = request;
  impatient.set_wait(v1::COMMIT_WAIT_DECIDED);
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(impatient, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  ExpectError(Execute(Request("k1", "other"), &response), grpc::INVALID_ARGUMENT, "KEY_REUSED");
  east_.Set({});
  EXPECT_EQ(ExpectCommittedBefore(request).txn_id(), decision.members[0].get());
  EXPECT_EQ(east_.prepares(), 0);
}

// It stands in the log with the key: another digest of the same work would refuse its client.
TEST(DigestOf, GoldenBytes) {
  v1::ExecuteRequest request;
  v1::ProduceWork& east = *request.add_work()->mutable_produce();
  east.set_cluster("east");
  east.add_records()->set_topic("orders");
  east.mutable_records(0)->set_value("v");
  v1::ProduceWork& west = *request.add_work()->mutable_produce();
  west.set_cluster("west");
  west.add_records()->set_topic("orders");
  west.mutable_records(0)->set_partition(0);
  west.mutable_records(0)->set_key("");
  west.mutable_records(0)->set_value("w");
  std::string hex;
  for (const char c : DigestOf(request.work())) {
    constexpr std::string_view kHex = "0123456789abcdef";
    hex += kHex[static_cast<unsigned char>(c) >> 4];
    hex += kHex[static_cast<unsigned char>(c) & 0xf];
  }
  EXPECT_EQ(hex, "939be02b00c8f53acaf37272f7a0c3ce1e0d4b1248f76db148f4c2b320ffdade");
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
  *message.add_transactions() = Request("k1");
  ASSERT_TRUE(stream->Write(message));
  // The whole message is refused: nobody would know which of its transactions ran.
  message.Clear();
  for (const char* key : {"k2", "", "k3"}) *message.add_transactions() = Request(key);
  ASSERT_TRUE(stream->Write(message));
  v1::ExecuteStreamResponse answered;
  ASSERT_TRUE(stream->Read(&answered));
  ASSERT_EQ(answered.answers_size(), 1);
  EXPECT_EQ(answered.answers(0).key(), "k1");
  EXPECT_EQ(answered.answers(0).response().outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_FALSE(stream->Read(&answered));
  ExpectError(stream->Finish(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "key:");
  EXPECT_EQ(east_.prepares(), 1);
}

TEST_F(ExecuteTest, AStreamReadsOnOnlyWhenSoManyAreAnswered) {
  constexpr int kMost = kExecuteStreamInFlight;
  east_.Set({.commits = false});
  Serve();
  grpc::ClientContext context;
  const auto stream = coordinator_->ExecuteStream(&context);
  v1::ExecuteStreamRequest message;
  for (int i = 0; i < kMost; ++i) *message.add_transactions() = Request("k" + std::to_string(i));
  ASSERT_TRUE(stream->Write(message));
  AwaitPrepares(kMost);
  message.Clear();
  *message.add_transactions() = Request("one-more");
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  // Calls that come after it on the same connection are served; it has to wait.
  for (int i = 0; i < 20; ++i) Get(Begin());
  EXPECT_EQ(east_.prepares(), kMost);
  east_.Set({});
  int answers = 0;
  for (v1::ExecuteStreamResponse read; stream->Read(&read);) {
    for (const auto& answer : read.answers()) {
      EXPECT_EQ(answer.response().outcome(), v1::OUTCOME_COMMITTED) << answer.key();
    }
    answers += read.answers_size();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, kMost + 1);
  EXPECT_EQ(east_.prepares(), kMost + 1);
}

TEST_F(ExecuteTest, AMessageOfAStreamIsBounded) {
  Serve();
  grpc::ClientContext context;
  const auto stream = coordinator_->ExecuteStream(&context);
  v1::ExecuteStreamRequest message;
  for (std::size_t i = 0; i <= kExecuteStreamInFlight; ++i) {
    *message.add_transactions() = Request("k" + std::to_string(i));
  }
  ASSERT_TRUE(stream->Write(message));
  v1::ExecuteStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  ExpectError(stream->Finish(), grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "transactions:");
  EXPECT_EQ(east_.prepares(), 0);
}

TEST_F(ExecuteTest, AClientThatVanishesInMidStreamLeavesItsKeysRunning) {
  config_.concurrent_calls = 1;
  east_.Set({.commits = false});
  Serve();
  const std::vector<v1::ExecuteRequest> requests = {Request("k1"), Request("k2")};
  {
    grpc::ClientContext context;
    const auto stream = coordinator_->ExecuteStream(&context);
    v1::ExecuteStreamRequest message;
    for (const auto& request : requests) *message.add_transactions() = request;
    ASSERT_TRUE(stream->Write(message));
    AwaitPrepares(2);
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
  // It counts no longer as a call, although its transactions are not complete.
  AwaitRoom();
  EXPECT_EQ(ListInDoubt().in_doubt_size(), 2);
  east_.Set({});
  for (const auto& request : requests) ExpectCommittedBefore(request);
  EXPECT_EQ(east_.prepares(), 2);
}

}  // namespace
}  // namespace lockstep::server
