#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using txn::KafkaTxnState;

constexpr const char* kApp = "app";

/// A client with a producer of its own on cluster east; the brokers are played by FakeCluster.
class EnlistTest : public ApiFixture {
 protected:
  grpc::Status Register(const std::string& id, v1::RegisterProducerResponse* response,
                        const std::string& cluster = "east",
                        v1::ProducerProtocol protocol = v1::PRODUCER_PROTOCOL_TV1) {
    v1::RegisterProducerRequest request;
    request.set_cluster(cluster);
    request.set_transactional_id(id);
    request.set_protocol(protocol);
    return Call(*coordinator_, &CoordinatorStub::RegisterProducer, request, response);
  }

  /// Registered and initialised: the registration's id.
  std::string Start(v1::ProducerProtocol protocol = v1::PRODUCER_PROTOCOL_TV1) {
    v1::RegisterProducerResponse response;
    const auto status = Register(kApp, &response, "east", protocol);
    EXPECT_TRUE(status.ok()) << status.error_message();
    east_.Initialise(kApp);
    return response.registration_id();
  }

  grpc::Status Enlist(const std::string& txn, const std::string& registration,
                      std::optional<int> epoch = std::nullopt) {
    v1::EnlistRequest request;
    request.set_txn_id(txn);
    request.set_registration_id(registration);
    if (epoch) {
      request.set_producer_id(500);
      request.set_producer_epoch(*epoch);
    }
    v1::EnlistResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::Enlist, request, &response);
    if (status.ok()) {
      EXPECT_EQ(response.incarnation(), log_.recovered().incarnation.get());
    }
    return status;
  }

  /// Begun, enlisted, and one record written to orders-0.
  std::string BeginAndWrite(const std::string& registration) {
    const std::string id = Begin();
    const auto status = Enlist(id, registration);
    EXPECT_TRUE(status.ok()) << status.error_message();
    east_.Write(kApp, {{"orders", 0}});
    return id;
  }

  static v1::CommitRequest CommitRequest(const std::string& id, const std::string& registration) {
    v1::CommitRequest request;
    request.set_txn_id(id);
    auto& wrote = *request.add_enlisted();
    wrote.set_registration_id(registration);
    wrote.add_partitions()->set_topic("orders");
    return request;
  }

  grpc::Status Commit(const v1::CommitRequest& request, v1::CommitResponse* response,
                      std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    return Call(*coordinator_, &CoordinatorStub::Commit, request, response, deadline);
  }
  v1::CommitResponse Committed(const v1::CommitRequest& request) {
    v1::CommitResponse response;
    const auto status = Commit(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
};

// ---- What becomes of it -------------------------------------------------------------------------

TEST_F(EnlistTest, TransactionsOfOneProducerCommitOneAfterTheOther) {
  Serve();
  const std::string registration = Start();
  for (int i = 0; i < 3; ++i) {
    const std::string id = BeginAndWrite(registration);
    const v1::Transaction active = Get(id);
    EXPECT_EQ(active.state(), v1::TXN_STATE_ACTIVE);
    ASSERT_EQ(active.branches_size(), 1);
    EXPECT_EQ(active.branches(0).enlisted().transactional_id(), kApp);
    EXPECT_EQ(active.branches(0).enlisted().producer_id(), 500);
    EXPECT_EQ(active.branches(0).enlisted().producer_epoch(), 1);
    EXPECT_EQ(log_.enlistments(), 1u);
    for (int again = 0; again < 2; ++again) {
      const auto response = Committed(CommitRequest(id, registration));
      EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
      ASSERT_EQ(response.branches_size(), 1);
      EXPECT_EQ(response.branches(0).outcome(), v1::BRANCH_OUTCOME_COMMITTED);
      EXPECT_EQ(response.branches(0).enlisted().transactional_id(), kApp);
      EXPECT_FALSE(response.branches(0).enlisted().reinit_required());
    }
    EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteCommit);
    EXPECT_EQ(log_.enlistments(), 0u);
  }
}

TEST_F(EnlistTest, UnderTv2TheNextTransactionHasTheNextEpoch) {
  Serve();
  const std::string registration = Start(v1::PRODUCER_PROTOCOL_TV2);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const std::string id = BeginAndWrite(registration);
    EXPECT_EQ(Get(id).branches(0).enlisted().producer_epoch(), epoch);
    EXPECT_EQ(Committed(CommitRequest(id, registration)).outcome(), v1::OUTCOME_COMMITTED);
  }
  EXPECT_EQ(east_.producer(kApp).epoch, ProducerEpoch(4));
}

TEST_F(EnlistTest, AnAbortEndsIt) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  v1::AbortResponse response;
  ASSERT_TRUE(Abort(id, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  ASSERT_EQ(response.branches_size(), 1);
  EXPECT_EQ(response.branches(0).enlisted().transactional_id(), kApp);
  EXPECT_FALSE(response.branches(0).enlisted().reinit_required());
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteAbort);
  EXPECT_EQ(Committed(CommitRequest(id, registration)).outcome(), v1::OUTCOME_ABORTED);
  // And on it goes.
  EXPECT_EQ(Committed(CommitRequest(BeginAndWrite(registration), registration)).outcome(),
            v1::OUTCOME_COMMITTED);
}

TEST_F(EnlistTest, WhoWroteNothingSaysSo) {
  Serve();
  const std::string registration = Start();
  const std::string id = Begin();
  ASSERT_TRUE(Enlist(id, registration).ok());
  v1::CommitRequest request;
  request.set_txn_id(id);
  request.add_enlisted()->set_registration_id(registration);
  request.mutable_enlisted(0)->set_read_only(true);
  EXPECT_EQ(Committed(request).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kEmpty);
  // Without its word, nothing at the broker is a lost transaction.
  const std::string other = Begin();
  ASSERT_TRUE(Enlist(other, registration).ok());
  request.set_txn_id(other);
  request.mutable_enlisted(0)->set_read_only(false);
  const auto response = Committed(request);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_VOTE_MISMATCH);
}

TEST_F(EnlistTest, ManagedAndEnlistedBranchesCommitTogether) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  ASSERT_TRUE(Produce(id, "west", 0).ok());
  const auto response = Committed(CommitRequest(id, registration));
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  ASSERT_EQ(response.branches_size(), 2);
  for (const auto& branch : response.branches()) {
    EXPECT_EQ(branch.has_enlisted(), branch.cluster() == "east");
    EXPECT_EQ(branch.has_managed(), branch.cluster() == "west");
  }
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteCommit);
}

TEST_F(EnlistTest, OtherPartitionsThanTheBrokersAbort) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  auto request = CommitRequest(id, registration);
  request.mutable_enlisted(0)->mutable_partitions(0)->set_partition(5);
  const auto response = Committed(request);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_VOTE_MISMATCH);
  EXPECT_EQ(response.abort().cluster(), "east");
  EXPECT_THAT(response.abort().message(), HasSubstr("orders-5"));
  // Its branch is named although it never voted YES.
  ASSERT_EQ(response.branches_size(), 1);
  EXPECT_EQ(response.branches(0).enlisted().transactional_id(), kApp);
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteAbort);
}

TEST_F(EnlistTest, AZombiesTransactionIsFenced) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  east_.Initialise(kApp);  // A successor, which has not registered.
  east_.Write(kApp, {{"orders", 0}});
  const auto response = Committed(CommitRequest(id, registration));
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  EXPECT_TRUE(response.branches(0).enlisted().reinit_required());
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kOngoing);  // The successor's, untouched.
}

TEST_F(EnlistTest, AnotherEpochThanTheOneToldIsFenced) {
  Serve();
  const std::string registration = Start();
  const std::string id = Begin();
  ASSERT_TRUE(Enlist(id, registration, 0).ok());
  EXPECT_EQ(Get(id).branches(0).enlisted().producer_epoch(), 0);
  east_.Write(kApp, {{"orders", 0}});
  const auto response = Committed(CommitRequest(id, registration));
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
}

TEST_F(EnlistTest, AfterAnEndWithoutAnAnswerTheProducerMustBeRenewed) {
  Serve();
  std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  east_.Set({.ends = FakeCluster::Ends::kUnanswered});
  const auto response = Committed(CommitRequest(id, registration));
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_TRUE(response.branches(0).enlisted().reinit_required());
  east_.Set({});
  ExpectError(Enlist(Begin(), registration), grpc::FAILED_PRECONDITION, "FENCED", "register");
  registration = Start();
  EXPECT_EQ(Committed(CommitRequest(BeginAndWrite(registration), registration)).outcome(),
            v1::OUTCOME_COMMITTED);
}

TEST_F(EnlistTest, WhoseDeadlineComesFirstIsToldCommitting) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  east_.Set({.ends = FakeCluster::Ends::kLost});
  v1::CommitResponse response;
  const auto status =
      Commit(CommitRequest(id, registration), &response, std::chrono::milliseconds(500));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  // Once it is decided, what was written need not be told again.
  v1::CommitRequest bare;
  bare.set_txn_id(id);
  bare.mutable_max_wait()->set_nanos(1'000'000);
  EXPECT_EQ(Committed(bare).outcome(), v1::OUTCOME_COMMITTING);
  east_.Set({});
  EXPECT_EQ(Committed(CommitRequest(id, registration)).outcome(), v1::OUTCOME_COMMITTED);
}

TEST_F(EnlistTest, AStoppingServerTellsCommitting) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  east_.Set({.ends = FakeCluster::Ends::kLost});
  auto answer = std::async(std::launch::async, [&] {
    v1::CommitResponse response;
    const auto status = Commit(CommitRequest(id, registration), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.outcome();
  });
  while (Get(id).state() != v1::TXN_STATE_COMMITTING) std::this_thread::yield();
  StopServer(std::chrono::seconds(20));
  EXPECT_EQ(answer.get(), v1::OUTCOME_COMMITTING);
}

// ---- Commit refused -----------------------------------------------------------------------------

TEST_F(EnlistTest, DecidedIsRefused) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  auto request = CommitRequest(id, registration);
  request.set_wait(v1::COMMIT_WAIT_DECIDED);
  v1::CommitResponse response;
  ExpectError(Commit(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "wait:");
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_ACTIVE);
  request.set_wait(v1::COMMIT_WAIT_COMPLETE);
  EXPECT_EQ(Committed(request).outcome(), v1::OUTCOME_COMMITTED);
}

TEST_F(EnlistTest, WhatWasWrittenMustBeToldOfEachBranchAndOfNoOther) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  v1::CommitResponse response;
  v1::CommitRequest request;
  request.set_txn_id(id);
  ExpectError(Commit(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "enlisted:");
  request = CommitRequest(id, registration);
  request.add_enlisted()->set_registration_id("another");
  ExpectError(Commit(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "another");
  request = CommitRequest(id, registration);
  request.mutable_enlisted(0)->mutable_partitions(0)->set_partition(-1);
  ExpectError(Commit(request, &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
              "enlisted[0].partitions[0].partition:");
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_ACTIVE);
}

// ---- RegisterProducer ---------------------------------------------------------------------------

TEST_F(EnlistTest, ARegistrationTellsWhatItIsWorth) {
  Serve();
  v1::RegisterProducerResponse first;
  ASSERT_TRUE(Register(kApp, &first, "east", v1::PRODUCER_PROTOCOL_TV2).ok());
  EXPECT_FALSE(first.registration_id().empty());
  EXPECT_EQ(first.incarnation(), 3u);
  EXPECT_EQ(first.protocol(), v1::PRODUCER_PROTOCOL_TV2);
  east_.Set({.transaction_version = 1});
  v1::RegisterProducerResponse second;
  ASSERT_TRUE(Register(kApp, &second, "east", v1::PRODUCER_PROTOCOL_TV2).ok());
  EXPECT_EQ(second.protocol(), v1::PRODUCER_PROTOCOL_TV1);
  EXPECT_NE(second.registration_id(), first.registration_id());
}

TEST_F(EnlistTest, ARegistrationIsRefusedWhereItWouldBeWorthNothing) {
  Serve();
  v1::RegisterProducerResponse response;
  ExpectError(Register(kApp, &response, "north"), grpc::INVALID_ARGUMENT, "UNKNOWN_CLUSTER",
              "east, west");
  ExpectError(Register("", &response), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
              "transactional_id:");
  ExpectError(Register("lockstep-0123456789abcdef-3-east-0", &response), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "transactional_id:");
  ExpectError(Register(kApp, &response, "east", v1::PRODUCER_PROTOCOL_UNSPECIFIED),
              grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "protocol:");
  for (const auto state :
       {coordinator::ClusterState::kConnecting, coordinator::ClusterState::kMismatch}) {
    east_.Set({.state = state});
    ExpectError(Register(kApp, &response), grpc::UNAVAILABLE, "UNAVAILABLE", "east");
  }
  east_.Set({});
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, {}, &drained).ok());
  ExpectError(Register(kApp, &response), grpc::FAILED_PRECONDITION, "WRONG_STATE", "drained");
}

TEST_F(EnlistTest, ASuccessorVoidsWhatCameBefore) {
  Serve();
  const std::string first = Start();
  const std::string id = BeginAndWrite(first);
  const std::string second = Start();
  EXPECT_EQ(Get(id).abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  EXPECT_EQ(Committed(CommitRequest(id, first)).outcome(), v1::OUTCOME_ABORTED);
  ExpectError(Enlist(Begin(), first), grpc::FAILED_PRECONDITION, "FENCED", "registered anew");
  EXPECT_EQ(Committed(CommitRequest(BeginAndWrite(second), second)).outcome(),
            v1::OUTCOME_COMMITTED);
}

// ---- Enlist -------------------------------------------------------------------------------------

TEST_F(EnlistTest, EachFieldOfEnlistIsChecked) {
  Serve();
  const std::string registration = Start();
  ExpectError(Enlist("", registration), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "txn_id:");
  ExpectError(Enlist("not-an-id", registration), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
              "not-an-id");
  ExpectError(Enlist("ffffffffffffffff-1-1-1", registration), grpc::NOT_FOUND, "TXN_NOT_FOUND");
  ExpectError(Enlist(Begin(), ""), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "registration_id:");
  ExpectError(Enlist(Begin(), registration, -1), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
              "producer_epoch:");
}

TEST_F(EnlistTest, ARegistrationOfAnEarlierStartIsFenced) {
  Serve();
  const std::string registration = Start();
  std::string earlier = registration;
  earlier.replace(earlier.find("-3-"), 3, "-2-");
  ExpectError(Enlist(Begin(), earlier), grpc::FAILED_PRECONDITION, "FENCED", "earlier start");
}

TEST_F(EnlistTest, OnlyAnActiveTransactionTakesAProducer) {
  Serve();
  const std::string registration = Start();
  const std::string id = BeginAndWrite(registration);
  Committed(CommitRequest(id, registration));
  ExpectError(Enlist(id, registration), grpc::FAILED_PRECONDITION, "WRONG_STATE", "COMMITTED");
  const std::string aborted = Begin();
  v1::AbortResponse response;
  ASSERT_TRUE(Abort(aborted, &response).ok());
  ExpectError(Enlist(aborted, registration), grpc::FAILED_PRECONDITION, "WRONG_STATE", "ABORTED");
}

TEST_F(EnlistTest, AClusterHasOneBranchAndAProducerOneTransaction) {
  Serve();
  const std::string registration = Start();
  const std::string managed = Begin();
  ASSERT_TRUE(Produce(managed, "east", 0).ok());
  ExpectError(Enlist(managed, registration), grpc::FAILED_PRECONDITION, "WRONG_STATE", "east");
  const std::string id = Begin();
  ASSERT_TRUE(Enlist(id, registration).ok());
  ASSERT_TRUE(Enlist(id, registration).ok());  // As if the first answer was lost.
  ExpectError(Produce(id, "east", 0), grpc::FAILED_PRECONDITION, "WRONG_STATE", "east");
  ExpectError(Enlist(Begin(), registration), grpc::FAILED_PRECONDITION, "WRONG_STATE", id);
  v1::RegisterProducerResponse other;
  ASSERT_TRUE(Register("other", &other).ok());
  east_.Initialise("other");
  ExpectError(Enlist(id, other.registration_id()), grpc::FAILED_PRECONDITION, "WRONG_STATE",
              "east");
}

TEST_F(EnlistTest, AProducerIsInitialisedAndHasWrittenNothing) {
  Serve();
  v1::RegisterProducerResponse response;
  ASSERT_TRUE(Register(kApp, &response).ok());
  const std::string id = Begin();
  ExpectError(Enlist(id, response.registration_id()), grpc::FAILED_PRECONDITION, "WRONG_STATE",
              "initTransactions()");
  east_.Initialise(kApp);
  east_.Write(kApp, {{"orders", 0}});
  ExpectError(Enlist(id, response.registration_id()), grpc::FAILED_PRECONDITION, "WRONG_STATE",
              "before the first write");
  east_.Initialise(kApp);
  EXPECT_TRUE(Enlist(id, response.registration_id()).ok());  // The transaction went on.
}

TEST_F(EnlistTest, AClusterThatDoesNotAnswerIsUnavailable) {
  Serve();
  const std::string registration = Start();
  east_.Set({.commits = false});
  const std::string id = Begin();
  ExpectError(Enlist(id, registration), grpc::UNAVAILABLE, "UNAVAILABLE");
  east_.Set({});
  EXPECT_TRUE(Enlist(id, registration).ok());
}

// ---- After a crash ------------------------------------------------------------------------------

txn::ParticipantName NameOf(int epoch) {
  return {.cluster = ClusterName("east"),
          .kafka_cluster_id = KafkaClusterId("kafka-east"),
          .transactional_id = TransactionalId(kApp),
          .producer_id = ProducerId(500),
          .producer_epoch = ProducerEpoch(static_cast<std::int16_t>(epoch))};
}

TEST_F(EnlistTest, WhatWasNotDecidedIsAbortedAtTheNextStart) {
  const GlobalTxnId id("0123456789abcdef-2-1-1");
  east_.Initialise(kApp);
  east_.Write(kApp, {{"orders", 0}});
  log_.StoreEnlistment({id, NameOf(1)});
  log_.Recover(txn::Enlistment{id, NameOf(1)});
  Serve();
  while (east_.producer(kApp).state == KafkaTxnState::kOngoing) std::this_thread::yield();
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteAbort);
  EXPECT_EQ(Get(id.get()).state(), v1::TXN_STATE_ABORTED);
  while (log_.enlistments() > 0) std::this_thread::yield();
}

TEST_F(EnlistTest, WhatWasDecidedIsCommittedAtTheNextStart) {
  const GlobalTxnId id("0123456789abcdef-2-1-1");
  east_.Initialise(kApp);
  east_.Write(kApp, {{"orders", 0}});
  txn::Decision decision{.batch = BatchId(7), .decided_at = WallTime{5}, .members = {id}};
  txn::DecidedParticipant& participant = decision.participants.emplace_back();
  participant.prepared.name = NameOf(1);
  participant.prepared.name.start_time_ms = east_.producer(kApp).start_time_ms;
  participant.prepared.enlisted = true;
  log_.Recover(decision);
  Serve();
  v1::CommitRequest request;
  request.set_txn_id(id.get());
  const auto response = Committed(request);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  ASSERT_EQ(response.branches_size(), 1);
  EXPECT_EQ(response.branches(0).enlisted().transactional_id(), kApp);
  // A request of the dead process may come late.
  EXPECT_TRUE(response.branches(0).enlisted().reinit_required());
  EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteCommit);
}

}  // namespace
}  // namespace lockstep::server
