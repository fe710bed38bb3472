#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "client_fixture.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

class ClientExecuteTest : public ClientTest {
 protected:
  static std::vector<Work> OneRecordEach(const std::string& value = "v") {
    return {{.cluster = "east", .records = {{.topic = "orders", .value = value}}},
            {.cluster = "west", .records = {{.topic = "orders", .value = value}}}};
  }
  std::future<Result<Executed>> InBackground(const ExecuteOptions& options, Timeout timeout = {}) {
    auto answer = std::make_shared<std::promise<Result<Executed>>>();
    client_->ExecuteAsync(
        OneRecordEach(), options,
        [answer](Result<Executed> result) { answer->set_value(std::move(result)); }, timeout);
    return answer->get_future();
  }
};

TEST_F(ClientExecuteTest, AWholeTransactionInOneCall) {
  Start();
  const GroupOffsets offsets{.group = {.id = "g", .generation = 4, .member_id = "m"},
                             .offsets = {{.topic = "in", .partition = 1, .offset = 7}},
                             .kafka_cluster_id = "kafka-west"};
  const auto done = client_->Execute(
      {{.cluster = "east", .records = {{.topic = "t", .value = "one"}, {.topic = "t"}}},
       {.cluster = "west", .records = {{.topic = "t", .key = "k"}}, .offsets = offsets}},
      {.label = "whole"});
  ASSERT_TRUE(done.ok()) << ToString(done.error());
  EXPECT_EQ(done->result.outcome, Outcome::kCommitted);
  EXPECT_EQ(done->result.branches.size(), 2u);
  const auto east = node_->east.prepared_work();
  ASSERT_EQ(east.records.size(), 2u);
  EXPECT_EQ(east.records[0].value, "one");
  EXPECT_FALSE(east.records[1].value.has_value());
  const auto west = node_->west.prepared_work();
  ASSERT_EQ(west.records.size(), 1u);
  EXPECT_EQ(west.records[0].key, "k");
  ASSERT_EQ(west.offsets.size(), 1u);
  EXPECT_EQ(west.offsets[0].generation, 4);
  const auto info = client_->GetTxn(done->txn_id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, TxnState::kCommitted);
  EXPECT_EQ(info->label, "whole");
}

TEST_F(ClientExecuteTest, WhatWasLostIsRepeatedAndRunsOnce) {
  Start();
  for (const auto loss : {Relay::Loss::kRequest, Relay::Loss::kAnswer}) {
    const int prepares = node_->east.prepares();
    relay_.Lose(loss, "Execute", 2);
    const auto done = client_->Execute(OneRecordEach());
    ASSERT_TRUE(done.ok()) << ToString(done.error());
    EXPECT_EQ(done->result.outcome, Outcome::kCommitted);
    EXPECT_EQ(node_->east.prepares(), prepares + 1);
  }
  EXPECT_EQ(relay_.calls("Execute"), 6);
}

TEST_F(ClientExecuteTest, EachCallWithoutAKeyIsAnotherTransaction) {
  Start();
  const auto first = client_->Execute(OneRecordEach());
  const auto second = client_->Execute(OneRecordEach());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->txn_id, second->txn_id);
  EXPECT_NE(first->key.name, second->key.name);
  EXPECT_EQ(first->key.name.size(), 32u);
  EXPECT_EQ(node_->east.prepares(), 2);
}

TEST_F(ClientExecuteTest, AKeyRunsOnceAlsoAcrossAServersDeath) {
  Start();
  const ExecuteOptions options{.key = NewExecuteKey()};
  const auto first = client_->Execute(OneRecordEach(), options);
  ASSERT_TRUE(first.ok()) << ToString(first.error());
  const auto again = client_->Execute(OneRecordEach(), options);
  ASSERT_TRUE(again.ok()) << ToString(again.error());
  EXPECT_EQ(again->txn_id, first->txn_id);
  EXPECT_EQ(node_->east.prepares(), 1);
  Restart({*node_->DecisionOn(first->txn_id)});
  const auto later = client_->Execute(OneRecordEach(), options);
  ASSERT_TRUE(later.ok()) << ToString(later.error());
  EXPECT_EQ(later->txn_id, first->txn_id);
  EXPECT_EQ(later->result.outcome, Outcome::kCommitted);
  EXPECT_EQ(node_->east.prepares(), 0);
}

TEST_F(ClientExecuteTest, AKeyWithOtherWorkIsRefused) {
  Start();
  const ExecuteOptions options{.key = NewExecuteKey()};
  ASSERT_TRUE(client_->Execute(OneRecordEach("mine"), options).ok());
  const auto other = client_->Execute(OneRecordEach("other"), options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().reason, "KEY_REUSED");
  EXPECT_EQ(other.error().code, Code::kInvalidArgument);
  EXPECT_EQ(other.error().effect, Effect::kNone);
}

TEST_F(ClientExecuteTest, AfterAnAbortTheSameKeyRunsAgain) {
  Start();
  node_->west.Set(
      {.refusal = {txn::AbortReason::kClusterUnavailable, ClusterName("west"), "away", true}});
  const auto aborted = client_->Execute(OneRecordEach());
  ASSERT_TRUE(aborted.ok()) << ToString(aborted.error());
  EXPECT_EQ(aborted->result.outcome, Outcome::kAborted);
  EXPECT_EQ(aborted->result.abort.reason, "CLUSTER_UNAVAILABLE");
  EXPECT_TRUE(aborted->result.abort.retryable);
  node_->west.Set({});
  const auto again = client_->Execute(OneRecordEach(), {.key = aborted->key});
  ASSERT_TRUE(again.ok()) << ToString(again.error());
  EXPECT_EQ(again->result.outcome, Outcome::kCommitted);
  EXPECT_NE(again->txn_id, aborted->txn_id);
}

TEST_F(ClientExecuteTest, AServerKilledBeforeTheDecisionIsAskedToRunItAgain) {
  Start();
  node_->east.Set({.votes = false});
  auto answer = InBackground({});
  while (node_->east.prepares() == 0) std::this_thread::yield();
  Restart({});
  const auto done = answer.get();
  ASSERT_TRUE(done.ok()) << ToString(done.error());
  EXPECT_EQ(done->result.outcome, Outcome::kCommitted);
  EXPECT_EQ(node_->east.prepares(), 1);
}

TEST_F(ClientExecuteTest, WhatNobodyAnswersIsUnknownAndCanBeAskedAgain) {
  Start();
  const ExecuteOptions options{.key = NewExecuteKey()};
  relay_.Lose(Relay::Loss::kAnswer, "Execute", 1000);
  const auto lost = client_->Execute(OneRecordEach(), options, milliseconds(300));
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().effect, Effect::kUnknown);
  relay_.Lose(Relay::Loss::kAnswer, "Execute", 0);
  const auto again = client_->Execute(OneRecordEach(), options);
  ASSERT_TRUE(again.ok()) << ToString(again.error());
  EXPECT_EQ(again->result.outcome, Outcome::kCommitted);
  EXPECT_EQ(node_->east.prepares(), 1);
}

TEST_F(ClientExecuteTest, DecidedIsAskedAgainUntilCompleteOrTheTimeout) {
  options_.attempt_timeout = milliseconds(100);
  Start();
  node_->east.Set({.commits = false});
  const ExecuteOptions options{.key = NewExecuteKey()};
  const auto late = client_->Execute(OneRecordEach(), options, milliseconds(500));
  ASSERT_TRUE(late.ok()) << ToString(late.error());
  EXPECT_EQ(late->result.outcome, Outcome::kCommitting);
  EXPECT_GT(relay_.calls("Execute"), 1);
  auto answer = InBackground(options);
  node_->east.Set({});
  EXPECT_EQ(answer.get()->result.outcome, Outcome::kCommitted);
  EXPECT_EQ(node_->east.prepares(), 1);
}

TEST_F(ClientExecuteTest, WaitDecidedIsAnsweredAtOnce) {
  Start();
  node_->east.Set({.commits = false});
  const auto done = client_->Execute(OneRecordEach(), {.wait = Wait::kDecided});
  ASSERT_TRUE(done.ok()) << ToString(done.error());
  EXPECT_EQ(done->result.outcome, Outcome::kCommitting);
  EXPECT_EQ(relay_.calls("Execute"), 1);
}

TEST_F(ClientExecuteTest, RefusalsAreErrorsOfTheCall) {
  config_.open_transactions = 1;
  Start();
  Transaction open = Begin();
  const auto full = client_->Execute(OneRecordEach());
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::kLimitReached);
  EXPECT_EQ(full.error().effect, Effect::kNone);
  EXPECT_EQ(relay_.calls("Execute"), 1);
  EXPECT_EQ(client_->Execute({{.cluster = "north", .records = {{.topic = "t"}}}}).error().reason,
            "UNKNOWN_CLUSTER");
  EXPECT_EQ(client_->Execute({{.cluster = "east"}}).error().reason, "INVALID_REQUEST");
}

}  // namespace
}  // namespace lockstep::client
