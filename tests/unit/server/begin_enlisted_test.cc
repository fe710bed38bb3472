#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using txn::KafkaTxnState;

constexpr const char* kApp = "app";

/// A client with a producer of its own on each cluster, which begins and enlists in one call.
class BeginEnlistedTest : public ApiFixture {
 protected:
  /// Registered and initialised: the registration's id.
  std::string Start(FakeCluster& cluster, const std::string& id = kApp) {
    v1::RegisterProducerRequest request;
    request.set_cluster(cluster.name().get());
    request.set_transactional_id(id);
    request.set_protocol(v1::PRODUCER_PROTOCOL_TV2);
    v1::RegisterProducerResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::RegisterProducer, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    cluster.Initialise(id);
    return response.registration_id();
  }

  static v1::BeginGlobalTxnRequest Request(const std::vector<std::string>& registrations) {
    v1::BeginGlobalTxnRequest request;
    request.mutable_timeout()->set_seconds(60);
    for (const std::string& id : registrations) {
      request.add_enlistments()->set_registration_id(id);
    }
    return request;
  }

  grpc::Status Begin(const v1::BeginGlobalTxnRequest& request, std::string* id,
                     std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    v1::BeginGlobalTxnResponse response;
    const auto status =
        Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, request, &response, deadline);
    if (status.ok()) {
      EXPECT_EQ(response.incarnation(), log_.recovered().incarnation.get());
    }
    *id = response.txn_id();
    return status;
  }
  std::string Begun(const v1::BeginGlobalTxnRequest& request) {
    std::string id;
    const auto status = Begin(request, &id);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return id;
  }
  /// Refused, and nothing is left of it.
  void ExpectRefused(const v1::BeginGlobalTxnRequest& request, grpc::StatusCode code,
                     const std::string& reason, const std::string& text) {
    std::string id;
    ExpectError(Begin(request, &id), code, reason, text);
    EXPECT_EQ(Open(), 0);
    EXPECT_EQ(log_.enlistments(), 0u);
  }

  /// How many transactions are ACTIVE.
  int Open() {
    v1::ListTxnsRequest request;
    request.add_states(v1::TXN_STATE_ACTIVE);
    v1::ListTxnsResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.txns_size();
  }

  /// Commits what each of them wrote to orders-0.
  v1::Outcome Commit(const std::string& id, const std::vector<std::string>& registrations,
                     std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    v1::CommitRequest request;
    request.set_txn_id(id);
    for (const std::string& registration : registrations) {
      auto& wrote = *request.add_enlisted();
      wrote.set_registration_id(registration);
      wrote.add_partitions()->set_topic("orders");
    }
    v1::CommitResponse response;
    const auto status = Call(*coordinator_, &CoordinatorStub::Commit, request, &response, deadline);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.outcome();
  }
  void Abort(const std::string& id) {
    v1::AbortResponse response;
    const auto status = ApiFixture::Abort(id, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  /// East's producer in a transaction that is aborted, and whose end waits for Set({}).
  void LeaveUndone(const std::string& east) {
    v1::AbortRequest request;
    request.set_txn_id(Begun(Request({east})));
    east_.Write(kApp, {{"orders", 0}});
    east_.Set({.commits = false});
    v1::AbortResponse response;
    EXPECT_EQ(Call(*coordinator_, &CoordinatorStub::Abort, request, &response,
                   std::chrono::milliseconds(200))
                  .error_code(),
              grpc::DEADLINE_EXCEEDED);
  }
};

TEST_F(BeginEnlistedTest, AllMayWriteAndCommitTogether) {
  Serve();
  const std::vector<std::string> both = {Start(east_), Start(west_)};
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const std::string id = Begun(Request(both));
    const v1::Transaction active = Get(id);
    EXPECT_EQ(active.state(), v1::TXN_STATE_ACTIVE);
    ASSERT_EQ(active.branches_size(), 2);
    for (const auto& branch : active.branches()) {
      EXPECT_EQ(branch.enlisted().producer_epoch(), epoch);
    }
    EXPECT_EQ(log_.enlistments(), 2u);
    east_.Write(kApp, {{"orders", 0}});
    west_.Write(kApp, {{"orders", 0}});
    EXPECT_EQ(Commit(id, both), v1::OUTCOME_COMMITTED);
    EXPECT_EQ(east_.producer(kApp).state, KafkaTxnState::kCompleteCommit);
    EXPECT_EQ(west_.producer(kApp).state, KafkaTxnState::kCompleteCommit);
  }
}

TEST_F(BeginEnlistedTest, WhatTheLibraryTellsIsWhatItIsBoundTo) {
  Serve();
  auto request = Request({Start(east_), Start(west_)});
  request.mutable_enlistments(0)->set_producer_id(500);
  request.mutable_enlistments(0)->set_producer_epoch(7);
  const v1::Transaction active = Get(Begun(request));
  EXPECT_EQ(active.branches(0).enlisted().producer_epoch(), 7);
  EXPECT_EQ(active.branches(1).enlisted().producer_epoch(), 1);
}

TEST_F(BeginEnlistedTest, MoreMayBeEnlistedLater) {
  Serve();
  const std::string east = Start(east_);
  const std::string west = Start(west_);
  const std::string id = Begun(Request({east}));
  v1::EnlistRequest request;
  request.set_txn_id(id);
  request.set_registration_id(west);
  v1::EnlistResponse response;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::Enlist, request, &response).ok());
  east_.Write(kApp, {{"orders", 0}});
  west_.Write(kApp, {{"orders", 0}});
  EXPECT_EQ(Commit(id, {east, west}), v1::OUTCOME_COMMITTED);
}

// ---- Nothing is begun ---------------------------------------------------------------------------

TEST_F(BeginEnlistedTest, OneThatMayNotWriteLeavesNothingBegun) {
  Serve();
  const std::string east = Start(east_);
  const std::string west = Start(west_);
  const std::string renewed = Start(west_);
  ExpectRefused(Request({east, west}), grpc::FAILED_PRECONDITION, "FENCED",
                "enlistments[1]: registration '" + west);

  west_.Write(kApp, {{"orders", 0}});
  ExpectRefused(Request({east, renewed}), grpc::FAILED_PRECONDITION, "WRONG_STATE",
                "enlistments[1]");
  west_.Initialise(kApp);
  west_.Set({.commits = false});
  ExpectRefused(Request({east, renewed}), grpc::UNAVAILABLE, "UNAVAILABLE", "enlistments[1]");
  west_.Set({});

  ExpectRefused(Request({east, Start(east_, "other")}), grpc::FAILED_PRECONDITION, "WRONG_STATE",
                "enlistments[1]: the transaction has a branch on cluster 'east'");
  // None of them is held by what was not begun.
  const std::string id = Begun(Request({east, renewed}));
  ASSERT_EQ(Get(id).branches_size(), 2);
  // Another one wants a producer of it.
  std::string other;
  ExpectError(Begin(Request({renewed}), &other), grpc::FAILED_PRECONDITION, "WRONG_STATE", id);
  EXPECT_EQ(Open(), 1);
}

TEST_F(BeginEnlistedTest, EachFieldIsChecked) {
  Serve();
  const std::string east = Start(east_);
  ExpectRefused(Request({east, ""}), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
                "enlistments[1].registration_id:");
  ExpectRefused(Request({east, east}), grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
                "enlistments[1].registration_id: is given twice");
  auto request = Request({east});
  request.mutable_enlistments(0)->set_producer_id(1);
  ExpectRefused(request, grpc::INVALID_ARGUMENT, "INVALID_REQUEST",
                "enlistments[0].producer_epoch:");
  request = Request({east});
  request.clear_timeout();
  ExpectRefused(request, grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "timeout:");
}

TEST_F(BeginEnlistedTest, WhereNothingMayBeginNobodyIsEnlisted) {
  config_.open_transactions = 1;
  Serve();
  const std::string east = Start(east_);
  const std::string other = ApiFixture::Begin();
  std::string id;
  ExpectError(Begin(Request({east}), &id), grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED");
  EXPECT_EQ(log_.enlistments(), 0u);
  Abort(other);
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, {}, &drained).ok());
  ExpectRefused(Request({east}), grpc::FAILED_PRECONDITION, "WRONG_STATE", "drained");
}

// ---- Repeated, waited for, given up -------------------------------------------------------------

TEST_F(BeginEnlistedTest, WhoseAnswerWasLostGetsTheSame) {
  Serve();
  const std::vector<std::string> both = {Start(east_), Start(west_)};
  auto request = Request(both);
  const std::string id = Begun(request);
  EXPECT_EQ(Begun(request), id);
  request.mutable_enlistments(0)->set_producer_id(500);
  request.mutable_enlistments(0)->set_producer_epoch(1);
  EXPECT_EQ(Begun(request), id);
  EXPECT_EQ(Open(), 1);
  EXPECT_EQ(log_.enlistments(), 2u);

  // Other words are another call.
  std::string none;
  request.mutable_enlistments(0)->set_producer_epoch(2);
  ExpectError(Begin(request, &none), grpc::FAILED_PRECONDITION, "WRONG_STATE", id);
  ExpectError(Begin(Request({both[0]}), &none), grpc::FAILED_PRECONDITION, "WRONG_STATE", id);
  // What has ended, or has work, is no answer.
  Abort(id);
  const std::string next = Begun(Request({both[0]}));
  EXPECT_NE(next, id);
  ASSERT_TRUE(Produce(next, "west", 0).ok());
  ExpectError(Begin(Request({both[0]}), &none), grpc::FAILED_PRECONDITION, "WRONG_STATE", next);
  // Who has lost it registers anew.
  const std::string renewed = Start(east_);
  EXPECT_EQ(Get(next).abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  EXPECT_NE(Begun(Request({renewed, both[1]})), next);
}

TEST_F(BeginEnlistedTest, TheTransactionBeforeIsWaitedFor) {
  Serve();
  const std::string east = Start(east_);
  const std::string west = Start(west_);
  LeaveUndone(east);
  // Two of the same: as if the first one's answer were late.
  std::vector<std::future<std::string>> begun;
  for (int i = 0; i < 2; ++i) {
    begun.push_back(std::async(std::launch::async, [&] { return Begun(Request({west, east})); }));
  }
  EXPECT_EQ(Open(), 0);  // West's does not wait in a transaction.
  east_.Set({});
  const std::string id = begun[0].get();
  EXPECT_EQ(begun[1].get(), id);
  EXPECT_EQ(Get(id).branches_size(), 2);
}

TEST_F(BeginEnlistedTest, NothingIsBegunForWhoIsGone) {
  Serve();
  const std::string east = Start(east_);
  const std::string west = Start(west_);
  LeaveUndone(east);
  std::string id;
  EXPECT_EQ(Begin(Request({west, east}), &id, std::chrono::milliseconds(200)).error_code(),
            grpc::DEADLINE_EXCEEDED);
  {
    CallContext context;
    v1::BeginGlobalTxnResponse response;
    std::promise<grpc::Status> status;
    const auto request = Request({west, east});
    coordinator_->async()->BeginGlobalTxn(&context, &request, &response,
                                          [&](const grpc::Status& s) { status.set_value(s); });
    AwaitRoom();  // A later call on the same connection: this one has arrived.
    context.TryCancel();
    EXPECT_EQ(status.get_future().get().error_code(), grpc::CANCELLED);
  }
  EXPECT_EQ(Open(), 0);
  east_.Set({});
  // East's is free after them, and holds no place that they took.
  id = Begun(Request({east}));
  EXPECT_EQ(Open(), 1);
  EXPECT_EQ(Get(id).branches_size(), 1);
  EXPECT_EQ(log_.enlistments(), 1u);
}

TEST_F(BeginEnlistedTest, WhatStaysUndoneIsToldInTime) {
  config_.prepare_timeout = std::chrono::milliseconds(100);
  Serve();
  const std::string east = Start(east_);
  const std::string west = Start(west_);
  LeaveUndone(east);
  std::string id;
  ExpectError(Begin(Request({west, east}), &id), grpc::UNAVAILABLE, "UNAVAILABLE",
              "enlistments[1]");
  EXPECT_EQ(Open(), 0);
  EXPECT_EQ(log_.enlistments(), 1u);  // That of before.
}

}  // namespace
}  // namespace lockstep::server
