#include <gmock/gmock.h>

#include "api_fixture.h"
#include "call_context.h"

namespace lockstep::server {
namespace {

class StreamsTest : public ApiFixture {
 protected:
  static v1::ProduceStreamRequest Message(const std::string& id, const std::string& cluster,
                                          std::uint64_t sequence) {
    v1::ProduceStreamRequest message;
    message.set_txn_id(id);
    message.set_cluster(cluster);
    message.set_sequence(sequence);
    message.add_records()->set_topic("orders");
    return message;
  }
};

// ---- ProduceStream ------------------------------------------------------------------------------

TEST_F(StreamsTest, EachMessageIsOneCallOfProduce) {
  Serve();
  const std::string id = Begin();
  CallContext context;
  v1::ProduceStreamResponse response;
  const auto stream = coordinator_->ProduceStream(&context, &response);
  ASSERT_TRUE(stream->Write(Message(id, "east", 0)));
  ASSERT_TRUE(stream->Write(Message("", "", 1)));
  ASSERT_TRUE(stream->Write(Message("", "", 1)));  // Repeated: counts once.
  ASSERT_TRUE(stream->Write(Message("", "west", 2)));
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.messages(), 4U);
  EXPECT_EQ(Get(id).next_sequence(), 3U);
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(id, &commit).ok());
  EXPECT_EQ(east_.prepared_work().records.size(), 2U);
  EXPECT_EQ(west_.prepared_work().records.size(), 1U);
}

TEST_F(StreamsTest, TheFirstRefusedMessageEndsItAndWhatCameBeforeStays) {
  Serve();
  const std::string id = Begin();
  CallContext context;
  v1::ProduceStreamResponse response;
  const auto stream = coordinator_->ProduceStream(&context, &response);
  stream->Write(Message(id, "east", 0));
  stream->Write(Message("", "", 5));
  stream->WritesDone();
  ExpectError(stream->Finish(), grpc::FAILED_PRECONDITION, "WRONG_STATE", "gap");
  EXPECT_EQ(Get(id).next_sequence(), 1U);
}

TEST_F(StreamsTest, AClientThatVanishesLeavesTheTransactionAsItWas) {
  Serve();
  const std::string id = Begin();
  {
    CallContext context;
    v1::ProduceStreamResponse response;
    const auto stream = coordinator_->ProduceStream(&context, &response);
    ASSERT_TRUE(stream->Write(Message(id, "east", 0)));
    while (Get(id).next_sequence() == 0) {
    }
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_ACTIVE);
  EXPECT_EQ(Get(id).next_sequence(), 1U);
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(id, &commit).ok());
  EXPECT_EQ(commit.outcome(), v1::OUTCOME_COMMITTED);
}

// ---- WatchTxn -----------------------------------------------------------------------------------

TEST_F(StreamsTest, AWatchBeginsWithASnapshotAndEndsWithTheOutcome) {
  Serve();
  const std::string id = BeginWithWork();
  v1::WatchTxnRequest request;
  request.set_txn_id(id);
  grpc::ClientContext context;
  const auto watch = coordinator_->WatchTxn(&context, request);
  v1::WatchTxnResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_TRUE(seen.snapshot());
  EXPECT_EQ(seen.txn().state(), v1::TXN_STATE_ACTIVE);
  v1::CommitResponse commit;
  ASSERT_TRUE(Commit(id, &commit).ok());
  std::uint64_t revision = seen.revision();
  while (watch->Read(&seen)) {
    EXPECT_FALSE(seen.snapshot());
    EXPECT_GT(seen.revision(), revision);
    revision = seen.revision();
  }
  EXPECT_TRUE(watch->Finish().ok());
  EXPECT_EQ(seen.txn().state(), v1::TXN_STATE_COMMITTED);
  // Who had seen the end is told nothing; a token of another start gets a snapshot.
  request.set_resume_token(seen.resume_token());
  grpc::ClientContext resumed;
  const auto nothing = coordinator_->WatchTxn(&resumed, request);
  EXPECT_FALSE(nothing->Read(&seen));
  EXPECT_TRUE(nothing->Finish().ok());
  request.set_resume_token("2-" + std::to_string(revision));
  grpc::ClientContext older;
  const auto again = coordinator_->WatchTxn(&older, request);
  ASSERT_TRUE(again->Read(&seen));
  EXPECT_TRUE(seen.snapshot());
}

TEST_F(StreamsTest, AWatchIsResumedAndGivenUp) {
  Serve();
  const std::string id = Begin();
  v1::WatchTxnRequest request;
  request.set_txn_id(id);
  v1::WatchTxnResponse seen;
  {
    grpc::ClientContext context;
    const auto watch = coordinator_->WatchTxn(&context, request);
    ASSERT_TRUE(watch->Read(&seen));
    context.TryCancel();
    EXPECT_EQ(watch->Finish().error_code(), grpc::CANCELLED);
  }
  request.set_resume_token(seen.resume_token());
  grpc::ClientContext context;
  const auto watch = coordinator_->WatchTxn(&context, request);
  watch->WaitForInitialMetadata();
  ASSERT_TRUE(Produce(id, "east", 0).ok());
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_EQ(seen.txn().next_sequence(), 1U);
  StopServer(std::chrono::seconds(5));
  while (watch->Read(&seen)) {
  }
  ExpectError(watch->Finish(), grpc::UNAVAILABLE, "UNAVAILABLE");
}

// What is not known any more but by its id has no revisions: only who saw the end is told nothing.
TEST_F(StreamsTest, AResumedWatchTellsAnEndThatWasNotSeen) {
  Serve();
  const std::string known = Begin();
  v1::WatchTxnRequest request;
  const std::size_t start = known.find('-') + 1;  // Of an earlier start, which decided nothing.
  request.set_txn_id(known.substr(0, start) + "1" + known.substr(known.find('-', start)));
  v1::WatchTxnResponse seen;
  {
    grpc::ClientContext context;
    const auto watch = coordinator_->WatchTxn(&context, request);
    ASSERT_TRUE(watch->Read(&seen));
    EXPECT_EQ(seen.txn().state(), v1::TXN_STATE_ABORTED);
    EXPECT_TRUE(watch->Finish().ok());
  }
  const std::string final_token = seen.resume_token();
  request.set_resume_token("3-" + std::to_string(seen.revision()));
  {
    grpc::ClientContext context;
    const auto watch = coordinator_->WatchTxn(&context, request);
    ASSERT_TRUE(watch->Read(&seen));
    EXPECT_EQ(seen.txn().state(), v1::TXN_STATE_ABORTED);
  }
  request.set_resume_token(final_token);
  grpc::ClientContext context;
  const auto nothing = coordinator_->WatchTxn(&context, request);
  EXPECT_FALSE(nothing->Read(&seen));
  EXPECT_TRUE(nothing->Finish().ok());
}

TEST_F(StreamsTest, AWatchOfNothingIsRefused) {
  Serve();
  const auto refused = [&](const std::string& id, const std::string& token) {
    v1::WatchTxnRequest request;
    request.set_txn_id(id);
    request.set_resume_token(token);
    grpc::ClientContext context;
    return coordinator_->WatchTxn(&context, request)->Finish();
  };
  ExpectError(refused("", ""), grpc::INVALID_ARGUMENT, "INVALID_REQUEST");
  ExpectError(refused("ffffffffffffffff-1-1-1", ""), grpc::NOT_FOUND, "TXN_NOT_FOUND");
  ExpectError(refused(Begin(), "x"), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "resume_token");
}

// ---- Lists --------------------------------------------------------------------------------------

TEST_F(StreamsTest, TransactionsAreListedInTheirOrderPageByPage) {
  Serve();
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Begin());
  v1::AbortResponse aborted;
  ASSERT_TRUE(Abort(ids[1], &aborted).ok());
  std::vector<std::string> listed;
  v1::ListTxnsRequest request;
  request.set_page_size(2);
  do {
    v1::ListTxnsResponse response;
    ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response).ok());
    for (const auto& txn : response.txns()) listed.push_back(txn.txn_id());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, ids);

  request.add_states(v1::TXN_STATE_ABORTED);
  v1::ListTxnsResponse response;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response).ok());
  ASSERT_EQ(response.txns_size(), 1);
  EXPECT_EQ(response.txns(0).txn_id(), ids[1]);
  request.set_label_prefix("other");
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response).ok());
  EXPECT_EQ(response.txns_size(), 0);
  request.set_page_token("x");
  ExpectError(Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response),
              grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "page_token");
}

TEST_F(StreamsTest, TheServerSaysWhatItIsAndCan) {
  Serve();
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::GetServerInfo, {}, &info).ok());
  EXPECT_EQ(info.log_id(), "0123456789abcdef");
  EXPECT_EQ(info.incarnation(), 3U);
  EXPECT_EQ(info.limits().record_bytes(), config_.record_bytes);
  EXPECT_EQ(info.limits().message_bytes(), config_.message_bytes);
  EXPECT_THAT(info.capabilities(), testing::Contains(v1::CAPABILITY_ENLIST));
  v1::ListClustersResponse clusters;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::ListClusters, {}, &clusters).ok());
  ASSERT_EQ(clusters.clusters_size(), 2);
  EXPECT_EQ(clusters.clusters(0).name(), "east");
  EXPECT_EQ(clusters.clusters(0).kafka_cluster_id(), "kafka-east");
  EXPECT_EQ(clusters.clusters(0).state(), v1::CLUSTER_STATE_READY);
}

}  // namespace
}  // namespace lockstep::server
