#include <gmock/gmock.h>

#include <optional>
#include <utility>

#include "fake_coordinator.h"
#include "lockstep/client.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

const grpc::Status kLost(grpc::UNAVAILABLE, "the connection was lost");

class EnlistTest : public testing::Test {
 protected:
  Registration Register() {
    auto registration = client_.RegisterProducer("east", "orders-0", ProducerProtocol::kTv2);
    EXPECT_TRUE(registration.ok()) << ToString(registration.error());
    return *std::move(registration);
  }
  Transaction Begin() {
    auto begun = client_.Begin();
    EXPECT_TRUE(begun.ok()) << ToString(begun.error());
    return *std::move(begun);
  }
  std::vector<EnlistedWork> Work(const Registration& registration) {
    return {{.registration_id = registration.id,
             .partitions = {{.topic = "orders", .partition = 3, .offset = 41},
                            {.topic = "orders", .partition = 4, .offset = {}}},
             .group_ids = {"g"}}};
  }

  FakeCoordinator server_;
  Client client_{{.server = server_.address(), .first_backoff = milliseconds(1)}};
};

TEST_F(EnlistTest, TheServerHearsWhoWroteWhat) {
  const Registration registration = Register();
  EXPECT_EQ(registration.cluster, "east");
  EXPECT_EQ(registration.incarnation, 1u);
  EXPECT_EQ(registration.protocol, ProducerProtocol::kTv2);

  Transaction txn = Begin();
  ASSERT_TRUE(txn.Enlist(registration, ProducerName{.id = 7, .epoch = 2}).ok());
  const auto result = txn.CommitEnlisted(Work(registration));
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitted);
  ASSERT_EQ(result->branches.size(), 1u);
  EXPECT_EQ(result->branches[0].transactional_id, "of-east");
  EXPECT_FALSE(result->branches[0].reinit_required);

  EXPECT_EQ(server_.enlists().at(0).producer_id(), 7);
  EXPECT_EQ(server_.enlists().at(0).producer_epoch(), 2);
  const auto commit = server_.commits().at(0);
  EXPECT_EQ(commit.wait(), v1::COMMIT_WAIT_COMPLETE);
  ASSERT_EQ(commit.enlisted_size(), 1);
  const auto& work = commit.enlisted(0);
  EXPECT_EQ(work.registration_id(), registration.id);
  ASSERT_EQ(work.partitions_size(), 2);
  EXPECT_EQ(work.partitions(0).topic(), "orders");
  EXPECT_EQ(work.partitions(0).partition(), 3);
  EXPECT_EQ(work.partitions(0).offset(), 41);
  EXPECT_FALSE(work.partitions(1).has_offset());
  EXPECT_EQ(work.group_ids(0), "g");
  EXPECT_FALSE(work.read_only());
}

TEST_F(EnlistTest, WithoutANameTheServerAsksTheBroker) {
  Transaction txn = Begin();
  ASSERT_TRUE(txn.Enlist(Register()).ok());
  EXPECT_FALSE(server_.enlists().at(0).has_producer_id());
  EXPECT_FALSE(server_.enlists().at(0).has_producer_epoch());
}

TEST_F(EnlistTest, LostAnswersAreAskedForAgain) {
  server_.Fail("RegisterProducer", {kLost});
  const Registration registration = Register();
  Transaction txn = Begin();
  server_.Fail("Enlist", {kLost, kLost});
  ASSERT_TRUE(txn.Enlist(registration).ok());
  server_.Fail("Commit", {kLost, Refusal(grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", "disk on fire")});
  EXPECT_EQ(txn.CommitEnlisted(Work(registration))->outcome, Outcome::kCommitted);

  const auto commits = server_.commits();
  ASSERT_EQ(commits.size(), 3u);
  for (const auto& commit : commits) {
    EXPECT_EQ(commit.SerializeAsString(), commits[0].SerializeAsString());
  }
}

TEST_F(EnlistTest, CommittingIsAskedAgain) {
  const Registration registration = Register();
  Transaction txn = Begin();
  ASSERT_TRUE(txn.Enlist(registration).ok());
  server_.Say({v1::OUTCOME_COMMITTING, v1::OUTCOME_COMMITTING});
  EXPECT_EQ(txn.CommitEnlisted(Work(registration))->outcome, Outcome::kCommitted);
  EXPECT_EQ(server_.calls("Commit"), 3);
}

TEST_F(EnlistTest, CommittingIsNoOutcomeForWhoeverEndsProducersByIt) {
  const Registration registration = Register();
  Transaction txn = Begin();
  ASSERT_TRUE(txn.Enlist(registration).ok());
  server_.Say(std::vector(1000, v1::OUTCOME_COMMITTING));
  const auto result = txn.CommitEnlisted(Work(registration), milliseconds(30));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(result.error().effect, Effect::kUnknown);

  const auto aborted = txn.Abort(milliseconds(30));
  ASSERT_FALSE(aborted.ok());
  EXPECT_EQ(aborted.error().effect, Effect::kUnknown);

  server_.Say({});
  EXPECT_EQ(txn.CommitEnlisted(Work(registration))->outcome, Outcome::kCommitted);
}

TEST_F(EnlistTest, FencedIsACodeOfItsOwnAndTheTransactionGoesOn) {
  const Registration before = Register();
  server_.Restart();
  Transaction txn = Begin();
  const Status fenced = txn.Enlist(before);
  ASSERT_FALSE(fenced.ok());
  EXPECT_EQ(fenced.error().code, Code::kFenced);
  EXPECT_EQ(fenced.error().effect, Effect::kNone);
  EXPECT_EQ(server_.calls("Enlist"), 1);

  const Registration after = Register();
  EXPECT_EQ(after.incarnation, 2u);
  ASSERT_TRUE(txn.Enlist(after).ok());
  EXPECT_EQ(txn.CommitEnlisted(Work(after))->outcome, Outcome::kCommitted);
}

TEST_F(EnlistTest, FencedSettlesAnEnlistmentWhoseAnswerWasLost) {
  Transaction txn = Begin();
  const Registration before = Register();
  server_.Restart();
  server_.Fail("Enlist", {kLost});
  EXPECT_EQ(txn.Enlist(before).error().effect, Effect::kNone);
  EXPECT_TRUE(txn.Enlist(Register()).ok());
}

TEST_F(EnlistTest, AnotherIncarnationIsNotAccepted) {
  const Registration registration = Register();
  server_.TellIncarnation(2);
  Transaction txn = Begin();
  const Status enlisted = txn.Enlist(registration);
  ASSERT_FALSE(enlisted.ok());
  EXPECT_EQ(enlisted.error().code, Code::kFenced);
  EXPECT_EQ(enlisted.error().effect, Effect::kUnknown);
  // It has a branch under a registration that is void: it can only abort.
  EXPECT_EQ(txn.CommitEnlisted(Work(registration)).error().code, Code::kWrongState);
  EXPECT_EQ(server_.calls("Commit"), 0);
  EXPECT_EQ(txn.Abort()->outcome, Outcome::kAborted);
}

TEST_F(EnlistTest, AnEnlistmentInDoubtCanOnlyBeAborted) {
  const Registration registration = Register();
  Transaction txn = Begin();
  server_.Fail("Enlist", std::vector(1000, kLost));
  const Status enlisted = txn.Enlist(registration, {}, milliseconds(30));
  ASSERT_FALSE(enlisted.ok());
  EXPECT_EQ(enlisted.error().effect, Effect::kUnknown);
  EXPECT_FALSE(txn.CommitEnlisted(Work(registration)).ok());
  EXPECT_EQ(server_.calls("Commit"), 0);
}

TEST_F(EnlistTest, ABranchSaysThatItsProducerMustBeMadeAnew) {
  const Registration registration = Register();
  Transaction txn = Begin();
  ASSERT_TRUE(txn.Enlist(registration).ok());
  server_.RequireReinit(true);
  const auto result = txn.Abort();
  EXPECT_EQ(result->outcome, Outcome::kAborted);
  EXPECT_TRUE(result->branches.at(0).reinit_required);
}

// ---- With Begin ---------------------------------------------------------------------------------

TEST_F(EnlistTest, BeginEnlistsInTheSameCall) {
  const Registration registration = Register();
  server_.Fail("BeginGlobalTxn", {kLost});
  auto txn = client_.Begin(
      {.enlistments = {{.registration = registration, .name = ProducerName{.id = 7, .epoch = 2}}}});
  ASSERT_TRUE(txn.ok()) << ToString(txn.error());
  EXPECT_EQ(server_.calls("Enlist"), 0);
  const auto begin = server_.begins().at(0);
  ASSERT_EQ(begin.enlistments_size(), 1);
  EXPECT_EQ(begin.enlistments(0).registration_id(), registration.id);
  EXPECT_EQ(begin.enlistments(0).producer_id(), 7);
  EXPECT_EQ(begin.enlistments(0).producer_epoch(), 2);
  EXPECT_EQ(txn->CommitEnlisted(Work(registration))->outcome, Outcome::kCommitted);
}

TEST_F(EnlistTest, AServerThatPassesOverThemIsAskedOneByOne) {
  server_.ForgetBeginEnlisted();
  const Registration registration = Register();
  auto txn = client_.Begin({.enlistments = {{.registration = registration, .name = {}}}});
  ASSERT_TRUE(txn.ok()) << ToString(txn.error());
  EXPECT_EQ(server_.enlists().at(0).registration_id(), registration.id);
  EXPECT_FALSE(server_.enlists().at(0).has_producer_id());
  EXPECT_EQ(txn->CommitEnlisted(Work(registration))->outcome, Outcome::kCommitted);
}

TEST_F(EnlistTest, WhatBeginDoesNotEnlistIsNotBegun) {
  const Registration before = Register();
  server_.Restart();
  const auto fenced = client_.Begin({.enlistments = {{.registration = before, .name = {}}}});
  ASSERT_FALSE(fenced.ok());
  EXPECT_EQ(fenced.error().code, Code::kFenced);
  EXPECT_EQ(fenced.error().effect, Effect::kNone);
  EXPECT_EQ(server_.calls("BeginGlobalTxn"), 1);

  const Registration after = Register();
  server_.TellIncarnation(3);
  const auto other = client_.Begin({.enlistments = {{.registration = after, .name = {}}}});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kFenced);
  EXPECT_EQ(other.error().effect, Effect::kUnknown);
}

TEST_F(EnlistTest, CommittingIsNoOutcomeAlsoOfWhatBeginEnlisted) {
  const Registration registration = Register();
  auto txn = client_.Begin({.enlistments = {{.registration = registration, .name = {}}}});
  ASSERT_TRUE(txn.ok()) << ToString(txn.error());
  server_.Say(std::vector(1000, v1::OUTCOME_COMMITTING));
  EXPECT_EQ(txn->Abort(milliseconds(30)).error().effect, Effect::kUnknown);
  server_.Say({});
}

}  // namespace
}  // namespace lockstep::client
