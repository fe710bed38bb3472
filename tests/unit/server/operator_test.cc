// What an operator may say: how a branch in doubt ends, and what becomes of orphans.

#include <gmock/gmock.h>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

// ---- An operator's word -------------------------------------------------------------------------

v1::ResolveTxnRequest ResolveRequest(const std::string& id, const std::string& cluster,
                                     v1::Resolution resolution, bool force = false) {
  v1::ResolveTxnRequest request;
  request.set_txn_id(id);
  request.set_cluster(cluster);
  request.set_resolution(resolution);
  request.set_force(force);
  request.set_who("ann");
  request.set_why("the disk burnt");
  return request;
}

class ResolveTest : public ApiFixture {
 protected:
  /// Decided, and in doubt on west, which is asked.
  std::string InDoubtOnWest(FakeCluster::Behaviour west) {
    west_.Set(west);
    Serve();
    const std::string id = BeginWithWork();
    v1::CommitResponse response;
    EXPECT_TRUE(Commit(id, &response, v1::COMMIT_WAIT_DECIDED).ok());
    // Its lane's answer may be on its way: UNAVAILABLE until then.
    v1::ResolveTxnResponse resolved;
    while (Resolve(ResolveRequest(id, "west", v1::RESOLUTION_COMMIT), &resolved).error_code() ==
           grpc::UNAVAILABLE) {
    }
    return id;
  }
  grpc::Status Resolve(const v1::ResolveTxnRequest& request, v1::ResolveTxnResponse* response) {
    return Call(*admin_, &AdminStub::ResolveTxn, request, response);
  }
  v1::Transaction AwaitFinal(const std::string& id) {
    while (Get(id).state() == v1::TXN_STATE_COMMITTING) {
    }
    return Get(id);
  }
};

TEST_F(ResolveTest, AClusterThatIsGoneIsDeclaredCommitted) {
  const std::string id =
      InDoubtOnWest({.commits = false, .state = coordinator::ClusterState::kUnreachable});
  v1::ResolveTxnResponse response;
  ASSERT_TRUE(
      Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_COMMITTED), &response).ok());
  EXPECT_EQ(response.txn().txn_id(), id);
  const auto txn = AwaitFinal(id);
  EXPECT_EQ(txn.state(), v1::TXN_STATE_COMMITTED);
  EXPECT_THAT(txn.branches(1).problem(), HasSubstr("ann"));
  const auto order = log_.orders().back();
  EXPECT_EQ(order.participant, 1u);
  EXPECT_EQ(order.order.kind, txn::OrderKind::kDeclareCommitted);
  EXPECT_EQ(order.order.who, "ann");
  EXPECT_EQ(order.order.why, "the disk burnt");
  EXPECT_GT(order.order.given_at.ms, 0);
  // Repeated, it is OK; another outcome is not to be had any more.
  EXPECT_TRUE(
      Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_COMMITTED), &response).ok());
  ExpectError(Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_ABORTED, true), &response),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "COMMITTED");
}

TEST_F(ResolveTest, WhatContradictsTheDecisionNeedsForceAndIsHeuristic) {
  const std::string id =
      InDoubtOnWest({.commits = false, .state = coordinator::ClusterState::kUnreachable});
  const std::size_t before = log_.orders().size();
  v1::ResolveTxnResponse response;
  for (const auto resolution :
       {v1::RESOLUTION_ABORT, v1::RESOLUTION_DECLARE_ABORTED, v1::RESOLUTION_DECLARE_UNKNOWN}) {
    ExpectError(Resolve(ResolveRequest(id, "west", resolution), &response),
                grpc::FAILED_PRECONDITION, "WRONG_STATE", "contradicts the decision");
  }
  EXPECT_EQ(log_.orders().size(), before) << "what was refused is not kept";
  ASSERT_TRUE(
      Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_UNKNOWN, true), &response).ok());
  const auto txn = AwaitFinal(id);
  EXPECT_EQ(txn.state(), v1::TXN_STATE_HEURISTIC);
  EXPECT_EQ(txn.branches(0).outcome(), v1::BRANCH_OUTCOME_COMMITTED);
  EXPECT_EQ(txn.branches(1).outcome(), v1::BRANCH_OUTCOME_UNKNOWN);
  ASSERT_EQ(ListInDoubt().in_doubt_size(), 1);
  EXPECT_TRUE(log_.orders().back().order.forced);
}

TEST_F(ResolveTest, AClusterThatAnswersIsAskedRatherThanDeclared) {
  const std::string id = InDoubtOnWest({.ongoing = true});
  v1::ResolveTxnResponse response;
  ExpectError(Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_COMMITTED), &response),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "can be asked");
  // By force, and through the broker: it ends as ordered, not as decided.
  ASSERT_TRUE(Resolve(ResolveRequest(id, "west", v1::RESOLUTION_ABORT, true), &response).ok());
  const auto txn = AwaitFinal(id);
  EXPECT_EQ(txn.state(), v1::TXN_STATE_HEURISTIC);
  EXPECT_EQ(txn.branches(1).outcome(), v1::BRANCH_OUTCOME_ABORTED);
  EXPECT_THAT(txn.branches(1).problem(), HasSubstr("ABORT by an operator (ann)"));
}

TEST_F(ResolveTest, AnOrderFromBeforeACrashIsObeyed) {
  txn::DecidedParticipant participant;
  participant.prepared.name.cluster = ClusterName("west");
  participant.order =
      txn::OperatorOrder{txn::OrderKind::kDeclareUnknown, true, "ann", "gone", WallTime{5}};
  txn::Decision decision{.batch = BatchId(7), .members = {GlobalTxnId("0123456789abcdef-1-1-7")}};
  decision.participants = {participant};
  log_.Recover(decision);
  west_.Set({.commits = false});
  Serve();
  while (ListInDoubt().in_doubt(0).state() != v1::TXN_STATE_HEURISTIC) {
  }
  EXPECT_EQ(ListInDoubt().in_doubt(0).branches(0).outcome(), v1::BRANCH_OUTCOME_UNKNOWN);
}

TEST_F(ResolveTest, WhatIsNotInDoubtIsRefused) {
  Serve();
  v1::ResolveTxnResponse response;
  const std::string open = BeginWithWork();
  const auto resolve = [&](const v1::ResolveTxnRequest& request) {
    return Resolve(request, &response);
  };
  ExpectError(resolve(ResolveRequest(open, "west", v1::RESOLUTION_ABORT, true)),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "abort it instead");
  v1::AbortResponse aborted;
  ASSERT_TRUE(Abort(open, &aborted).ok());
  ExpectError(resolve(ResolveRequest(open, "west", v1::RESOLUTION_COMMIT)),
              grpc::FAILED_PRECONDITION, "WRONG_STATE", "ABORTED");
  ExpectError(resolve(ResolveRequest(open, "north", v1::RESOLUTION_COMMIT)), grpc::INVALID_ARGUMENT,
              "UNKNOWN_CLUSTER");
  ExpectError(resolve(ResolveRequest("", "west", v1::RESOLUTION_COMMIT)), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "txn_id");
  ExpectError(resolve(ResolveRequest("fedcba9876543210-1-1-1", "west", v1::RESOLUTION_COMMIT)),
              grpc::NOT_FOUND, "TXN_NOT_FOUND");
  ExpectError(resolve(ResolveRequest(open, "west", v1::RESOLUTION_UNSPECIFIED)),
              grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "resolution");
  auto nobody = ResolveRequest(open, "west", v1::RESOLUTION_COMMIT);
  nobody.clear_who();
  ExpectError(resolve(nobody), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "who");
  nobody.set_who("ann\x1b[2J");
  ExpectError(resolve(nobody), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "who");
  nobody.set_who("ann");
  nobody.clear_why();
  ExpectError(resolve(nobody), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "why");
  nobody.set_why(std::string(1025, 'x'));
  ExpectError(resolve(nobody), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "why");
}

TEST_F(ResolveTest, IfTheLogFailsNobodyIsToldAndNothingIsObeyed) {
  const std::string id =
      InDoubtOnWest({.commits = false, .state = coordinator::ClusterState::kUnreachable});
  log_.Fail();
  v1::ResolveTxnResponse response;
  ExpectError(Resolve(ResolveRequest(id, "west", v1::RESOLUTION_DECLARE_COMMITTED), &response),
              grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
}

// ---- Orphans ------------------------------------------------------------------------------------

class OrphanTest : public ApiFixture {};

coordinator::Orphan AnOrphan(const std::string& id) {
  coordinator::Orphan orphan{TransactionalId(id), LogId("fedcba9876543210"), {}};
  orphan.description.exists = true;
  orphan.description.state = txn::KafkaTxnState::kOngoing;
  orphan.description.producer_id = ProducerId(7);
  orphan.description.producer_epoch = ProducerEpoch(2);
  orphan.description.start_time_ms = 1'700'000'000'123;
  orphan.description.timeout_ms = 900'000;
  orphan.description.partitions = {{"orders", 3}};
  return orphan;
}

TEST_F(OrphanTest, OrphansAreListedPerClusterAndEndedOnAnOperatorsWord) {
  east_.Set({.orphans = {AnOrphan("one"), AnOrphan("two")}});
  west_.Set({.commits = false});
  Serve();
  v1::ListOrphansRequest list;
  v1::ListOrphansResponse found;
  ASSERT_TRUE(Call(*admin_, &AdminStub::ListOrphans, list, &found).ok());
  ASSERT_EQ(found.orphans_size(), 2);
  ASSERT_EQ(found.problems_size(), 1);
  EXPECT_THAT(found.problems(0), HasSubstr("west: no broker answers"));
  EXPECT_EQ(found.orphans(0).cluster(), "east");
  EXPECT_EQ(found.orphans(0).log_id(), "fedcba9876543210");
  EXPECT_EQ(found.orphans(0).start_time().nanos(), 123'000'000);
  EXPECT_EQ(found.orphans(0).timeout().seconds(), 900);
  EXPECT_EQ(found.orphans(0).partitions(0).partition(), 3);
  list.set_cluster("north");
  ExpectError(Call(*admin_, &AdminStub::ListOrphans, list, &found), grpc::INVALID_ARGUMENT,
              "UNKNOWN_CLUSTER");

  v1::EndOrphanRequest end;
  v1::EndOrphanResponse ended;
  *end.mutable_orphan() = found.orphans(0);
  const auto call = [&] { return Call(*admin_, &AdminStub::EndOrphan, end, &ended); };
  ExpectError(call(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "direction");
  end.set_direction(v1::END_DIRECTION_ABORT);
  ExpectError(call(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "who");
  end.set_who("ann");
  ExpectError(call(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "why");
  end.set_why("its folder is lost");
  end.set_direction(v1::END_DIRECTION_COMMIT);
  ExpectError(call(), grpc::FAILED_PRECONDITION, "WRONG_STATE", "force");
  end.set_direction(v1::END_DIRECTION_ABORT);
  end.mutable_orphan()->clear_start_time();
  ExpectError(call(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "start_time");
  *end.mutable_orphan() = found.orphans(0);
  end.mutable_orphan()->set_producer_epoch(3);
  ExpectError(call(), grpc::FAILED_PRECONDITION, "WRONG_STATE");
  end.mutable_orphan()->set_producer_epoch(40'000);
  ExpectError(call(), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "producer_epoch");
  *end.mutable_orphan() = found.orphans(0);
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(ended.kafka_state(), "CompleteAbort");
  *end.mutable_orphan() = found.orphans(1);
  end.set_direction(v1::END_DIRECTION_COMMIT);
  end.set_force(true);
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(ended.kafka_state(), "CompleteCommit");
}

}  // namespace
}  // namespace lockstep::server
