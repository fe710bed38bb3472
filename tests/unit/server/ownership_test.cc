#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "coordinator/txn_id.h"
#include "security_fixture.h"

/// A transaction belongs to who began it: to others it does not exist.
namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class OwnershipTest : public SecurityFixture {
 protected:
  grpc::Status GetTxn(const std::string& id, v1::Transaction* txn = nullptr) {
    v1::GetTxnRequest request;
    request.set_txn_id(id);
    v1::GetTxnResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::GetTxn, request, &response);
    if (txn != nullptr) *txn = response.txn();
    return status;
  }
  std::vector<std::string> Listed() {
    v1::ListTxnsResponse response;
    EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::ListTxns, {}, &response).ok());
    std::vector<std::string> owners;
    for (const auto& txn : response.txns()) owners.push_back(txn.owner());
    return owners;
  }
};

TEST_F(OwnershipTest, AnothersIsToldFromAnUnknownOneByNothing) {
  Serve();
  Become("alice");
  const std::string real = BeginWithWork();
  auto parts = *coordinator::ParseTxnId(GlobalTxnId(real));
  EXPECT_EQ(parts.owner, "alice");
  ++parts.number;
  const std::string unreal = FormatTxnId(parts).get();
  Become("bob");
  const auto text = [](std::string message, const std::string& id) {
    return message.replace(message.find(id), id.size(), "ID");
  };
  const auto one = GetTxn(real);
  const auto other = GetTxn(unreal);
  ExpectError(one, grpc::StatusCode::NOT_FOUND, "TXN_NOT_FOUND");
  EXPECT_EQ(text(one.error_message(), real), text(other.error_message(), unreal));
  EXPECT_EQ(one.error_details().size(), other.error_details().size());

  // Nor once it has ended.
  Become("alice");
  v1::CommitResponse committed;
  ASSERT_TRUE(Commit(real, &committed).ok());
  Become("bob");
  EXPECT_EQ(text(GetTxn(real).error_message(), real), text(other.error_message(), unreal));
}

TEST_F(OwnershipTest, NobodyHasItBySayingSo) {
  Serve();
  Become("alice");
  const std::string id = Begin();
  auto parts = *coordinator::ParseTxnId(GlobalTxnId(id));
  parts.owner = "bob";
  const std::string forged = FormatTxnId(parts).get();
  Become("bob");
  ExpectError(Produce(forged, "east", 0), grpc::StatusCode::FAILED_PRECONDITION, "WRONG_STATE");
  v1::AbortResponse aborted;
  (void)Abort(forged, &aborted);
  Become("alice");
  v1::Transaction txn;
  ASSERT_TRUE(GetTxn(id, &txn).ok());
  EXPECT_EQ(txn.state(), v1::TXN_STATE_ACTIVE);
  EXPECT_EQ(txn.owner(), "alice");
}

TEST_F(OwnershipTest, ListsAndWatchesShowOnesOwn) {
  Serve();
  Become("alice");
  const std::string id = Begin();
  Become("bob");
  (void)Begin();
  using testing::ElementsAre;
  EXPECT_THAT(Listed(), ElementsAre("bob"));
  Become("idle");
  EXPECT_THAT(Listed(), ElementsAre());
  Become("watcher");
  EXPECT_THAT(Listed(), ElementsAre("alice", "bob"));
  Become("ops");
  EXPECT_THAT(Listed(), ElementsAre("alice", "bob"));
}

TEST_F(OwnershipTest, ExecuteKeysAreEachOwners) {
  Serve();
  std::map<std::string, std::string> ids;
  for (const std::string who : {"alice", "bob"}) {
    Become(who);
    v1::ExecuteResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::Execute, Work("k1", who), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
    EXPECT_FALSE(response.repeated_key()) << who;
    EXPECT_EQ(response.key(), "k1");
    ids[who] = response.txn_id();
    v1::Transaction txn;
    ASSERT_TRUE(GetTxn(response.txn_id(), &txn).ok());
    EXPECT_EQ(txn.key(), "k1");
  }
  Become("alice");
  v1::ExecuteResponse again;
  auto work = Work("k1", "alice");
  const auto stored = log_.FindKey("alice k1");
  ASSERT_TRUE(stored.ok() && stored->has_value());
  work.mutable_key_time()->set_seconds((*stored)->keys[0].key.birth.ms / 1000);
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::Execute, work, &again).ok());
  EXPECT_TRUE(again.repeated_key());
  EXPECT_EQ(again.txn_id(), ids["alice"]);
}

TEST_F(OwnershipTest, SurvivesARestart) {
  // Decided by an earlier start, and not complete: the cluster does not answer.
  const coordinator::TxnIdParts parts{log_.recovered().log_id, Incarnation(1), WallTime{1'000}, 5,
                                      "alice"};
  const GlobalTxnId decided = FormatTxnId(parts);
  txn::Decision decision{.batch = BatchId(3), .decided_at = WallTime{1'000}, .members = {decided}};
  decision.keys = {{0, {"alice k9", WallTime{900}, "digest"}}};
  txn::DecidedParticipant participant;
  participant.prepared.name = {.cluster = ClusterName("east"),
                               .kafka_cluster_id = KafkaClusterId("id"),
                               .transactional_id = TransactionalId("t"),
                               .producer_id = ProducerId(1),
                               .producer_epoch = ProducerEpoch(1)};
  decision.participants = {participant};
  east_.Set({.commits = false});
  log_.SetIncarnation(2);
  log_.Recover(decision);
  Serve();
  // Begun by it, and never decided.
  auto undecided = parts;
  undecided.number = 4;

  Become("bob");
  EXPECT_EQ(GetTxn(decided.get()).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(GetTxn(FormatTxnId(undecided).get()).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(Listed(), testing::ElementsAre());
  Become("alice");
  v1::Transaction txn;
  ASSERT_TRUE(GetTxn(decided.get(), &txn).ok());
  EXPECT_EQ(txn.state(), v1::TXN_STATE_COMMITTING);
  EXPECT_EQ(txn.key(), "k9");
  ASSERT_TRUE(GetTxn(FormatTxnId(undecided).get(), &txn).ok());
  EXPECT_EQ(txn.state(), v1::TXN_STATE_ABORTED) << "presumed";
  EXPECT_THAT(Listed(), testing::ElementsAre("alice"));
}

TEST_F(OwnershipTest, ARegistrationIsItsOwners) {
  Serve();
  Become("alice");
  v1::RegisterProducerRequest request;
  request.set_cluster("east");
  request.set_transactional_id("alice-1");
  request.set_protocol(v1::PRODUCER_PROTOCOL_TV1);
  v1::RegisterProducerResponse registered;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::RegisterProducer, request, &registered).ok());
  v1::EnlistRequest enlist;
  enlist.set_registration_id(registered.registration_id());
  enlist.set_producer_id(500);
  enlist.set_producer_epoch(0);
  v1::EnlistResponse response;
  Become("bob");
  enlist.set_txn_id(Begin());
  const auto status = Call(*coordinator_, &CoordinatorStub::Enlist, enlist, &response);
  ExpectError(status, grpc::StatusCode::FAILED_PRECONDITION, "FENCED");
  v1::BeginGlobalTxnRequest begin;
  begin.mutable_timeout()->set_seconds(30);
  begin.add_enlistments()->set_registration_id(registered.registration_id());
  v1::BeginGlobalTxnResponse begun;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun),
              grpc::StatusCode::FAILED_PRECONDITION, "FENCED");
  Become("alice");
  enlist.set_txn_id(Begin());
  EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::Enlist, enlist, &response).ok());
}

TEST_F(OwnershipTest, TheAuditLogTellsWhoDidWhat) {
  Serve();
  Become("alice");
  const std::string id = BeginWithWork();
  v1::CommitResponse committed;
  ASSERT_TRUE(Commit(id, &committed).ok());
  Become("bob");
  v1::AbortResponse aborted;
  EXPECT_EQ(Abort(id, &aborted).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::SetLogLevelRequest level;
  level.set_level(v1::LOG_LEVEL_INFO);
  v1::SetLogLevelResponse previous;
  EXPECT_EQ(Call(*admin_, &AdminStub::SetLogLevel, level, &previous).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  Become("ops");
  ASSERT_TRUE(Call(*admin_, &AdminStub::SetLogLevel, level, &previous).ok());
  // The order is on the disk before its answer.
  EXPECT_THAT(ReadAudit(), HasSubstr(R"("event":"SetLogLevel","principal":"ops")"));
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, {}, &drained).ok());
  StopServer();
  daemon_.reset();
  const std::string audit = ReadAudit();
  EXPECT_THAT(audit, HasSubstr(R"("event":"Commit","principal":"alice")"));
  EXPECT_THAT(audit, HasSubstr("\"txn\":\"" + id + "\",\"outcome\":\"COMMITTED\""));
  EXPECT_THAT(audit, HasSubstr(R"("event":"refused","call":"Abort","principal":"bob")"));
  EXPECT_THAT(audit, HasSubstr(R"("event":"refused","call":"SetLogLevel","principal":"bob")"));
  EXPECT_THAT(audit, HasSubstr(R"("event":"SetLogLevel answered","principal":"ops")"));
  EXPECT_THAT(audit, HasSubstr(R"("event":"Drain","principal":"ops")"));
}

TEST_F(OwnershipTest, WithoutItsRecordAnOrderIsNotObeyed) {
  config_.audit_log = "/dev/full";
  Serve();
  Become("ops");
  v1::DrainResponse drained;
  ExpectError(Call(*admin_, &AdminStub::Drain, {}, &drained), grpc::StatusCode::UNAVAILABLE,
              "UNAVAILABLE", "/dev/full");
  Become("alice");
  EXPECT_FALSE(Begin().empty()) << "it was not drained";
}

}  // namespace
}  // namespace lockstep::server
