#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "client_fixture.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// ---- A transaction ------------------------------------------------------------------------------

TEST_F(ClientTest, ATransactionCommitsWhatItWasGiven) {
  Start();
  Transaction txn = Begin();
  const WallTime time(std::chrono::milliseconds(1'700'000'000'123));
  ASSERT_TRUE(txn.ProduceAll("east", {{.topic = "t", .value = "one"},
                                      {.topic = "t",
                                       .key = "",
                                       .partition = 3,
                                       .headers = {{"a", "b"}, {"null", std::nullopt}},
                                       .timestamp = time}})
                  .ok());
  ASSERT_TRUE(txn.SendOffsets("west", {.group = {.id = "g", .generation = 4, .member_id = "m"},
                                       .offsets = {{.topic = "in", .partition = 1, .offset = 7}},
                                       .kafka_cluster_id = "kafka-west"})
                  .ok());
  EXPECT_EQ(StateOf(txn.id()), TxnState::kActive);
  EXPECT_GT(txn.expires_at(), std::chrono::system_clock::now());

  const auto result = txn.Commit();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitted);
  ASSERT_EQ(result->branches.size(), 2u);
  EXPECT_EQ(result->branches[0].cluster, "east");
  EXPECT_EQ(result->branches[0].outcome, BranchOutcome::kCommitted);
  EXPECT_EQ(result->branches[0].transactional_id, "lane-east");

  const auto east = node_->east.prepared_work();
  ASSERT_EQ(east.records.size(), 2u);
  EXPECT_EQ(east.records[0].value, "one");
  EXPECT_FALSE(east.records[0].key.has_value());
  EXPECT_EQ(east.records[1].key, "");
  EXPECT_FALSE(east.records[1].value.has_value());
  EXPECT_EQ(east.records[1].partition, 3);
  EXPECT_EQ(east.records[1].timestamp_ms, 1'700'000'000'123);
  ASSERT_EQ(east.records[1].headers.size(), 2u);
  EXPECT_FALSE(east.records[1].headers[1].value.has_value());
  const auto west = node_->west.prepared_work();
  ASSERT_EQ(west.offsets.size(), 1u);
  EXPECT_EQ(west.offsets[0].generation, 4);
  EXPECT_EQ(west.offsets[0].offsets.at(0).offset, 7);

  const auto info = client_->GetTxn(txn.id());
  EXPECT_EQ(info->label, "test");
  EXPECT_EQ(info->state, TxnState::kCommitted);
}

TEST_F(ClientTest, AnAbortIsAnOutcomeWithItsReason) {
  Start();
  node_->west.Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("west"),
                               "topic 'orders' does not exist", false}});
  Transaction txn = BeginWithWork();
  const auto result = txn.Commit();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->outcome, Outcome::kAborted);
  EXPECT_EQ(result->abort.reason, "UNKNOWN_TOPIC");
  EXPECT_EQ(result->abort.cluster, "west");
  EXPECT_THAT(result->abort.message, HasSubstr("orders"));
}

TEST_F(ClientTest, StandaloneOffsetsCarryNoMember) {
  Start();
  Transaction txn = Begin();
  const GroupOffsets offsets{.group = {.id = "g", .standalone = true},
                             .offsets = {{.topic = "in", .offset = 1}}};
  ASSERT_TRUE(txn.SendOffsets("east", offsets).ok());
  ASSERT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_TRUE(node_->east.prepared_work().offsets.at(0).standalone);
}

TEST_F(ClientTest, ManyThreadsShareAClient) {
  Start();
  std::atomic<int> committed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 10; ++j) {
        Transaction txn = BeginWithWork();
        if (const auto result = txn.Commit();
            result.ok() && result->outcome == Outcome::kCommitted) {
          ++committed;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(committed, 80);
}

// ---- What is not committed is aborted -----------------------------------------------------------

TEST_F(ClientTest, ATransactionThatIsDroppedIsAborted) {
  Start();
  std::string id;
  {
    Transaction first = BeginWithWork();
    id = first.id();
    Transaction second = std::move(first);
  }
  while (StateOf(id) == TxnState::kActive) {
  }
  EXPECT_EQ(client_->GetTxn(id)->abort.reason, "CLIENT_ABORT");
  EXPECT_EQ(relay_.calls("Abort"), 1);
}

TEST_F(ClientTest, AnAssignedTransactionAbortsTheOneBefore) {
  Start();
  Transaction txn = Begin();
  const std::string first = txn.id();
  txn = Begin();
  while (StateOf(first) == TxnState::kActive) {
  }
  EXPECT_EQ(StateOf(txn.id()), TxnState::kActive);
}

TEST_F(ClientTest, TheClientsEndWaitsForTheAbort) {
  Start();
  BeginWithWork();
  client_ = std::make_unique<Client>(options_);  // The old one goes.
  EXPECT_EQ(relay_.calls("Abort"), 1);
}

TEST_F(ClientTest, WhatIsBeingCommittedIsNotAbortedByTheDestructor) {
  Start();
  node_->east.Set({.votes = false});
  std::string id;
  {
    Transaction txn = BeginWithWork();
    id = txn.id();
    const auto result = txn.Commit(Wait::kComplete, milliseconds(200));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().effect, Effect::kUnknown);
  }
  client_ = std::make_unique<Client>(options_);
  EXPECT_EQ(relay_.calls("Abort"), 0);
  EXPECT_EQ(StateOf(id), TxnState::kPreparing);
  EXPECT_EQ(client_->Abort(id)->outcome, Outcome::kAborted);
  EXPECT_EQ(client_->Commit(id)->outcome, Outcome::kAborted);
}

TEST_F(ClientTest, AfterItsEndATransactionTakesNoWork) {
  Start();
  Transaction txn = BeginWithWork();
  ASSERT_EQ(txn.Abort()->outcome, Outcome::kAborted);
  const Status late = txn.Produce("east", {.topic = "orders"});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kWrongState);
  EXPECT_EQ(late.error().effect, Effect::kNone);
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kAborted);
}

// ---- Lost calls and lost answers ----------------------------------------------------------------

TEST_F(ClientTest, WhatWasLostIsRepeatedAndAppliedOnce) {
  Start();
  for (const auto loss : {Relay::Loss::kRequest, Relay::Loss::kAnswer}) {
    const int prepares = node_->east.prepares();
    for (const char* method : {"BeginGlobalTxn", "Produce", "SendOffsets", "Commit"}) {
      relay_.Lose(loss, method, 2);
    }
    Transaction txn = Begin();
    ASSERT_TRUE(txn.Produce("east", {.topic = "t", .value = "first"}).ok());
    ASSERT_TRUE(txn.Produce("east", {.topic = "t", .value = "second"}).ok());
    ASSERT_TRUE(txn.SendOffsets("east", {.group = {.id = "g", .generation = 1, .member_id = "m"},
                                         .offsets = {{.topic = "t", .offset = 1}}})
                    .ok());
    ASSERT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
    const auto work = node_->east.prepared_work();
    ASSERT_EQ(work.records.size(), 2u);
    EXPECT_EQ(work.records[0].value, "first");
    EXPECT_EQ(work.records[1].value, "second");
    EXPECT_EQ(work.offsets.size(), 1u);
    EXPECT_EQ(node_->east.prepares(), prepares + 1);
  }
  EXPECT_EQ(relay_.calls("Commit"), 6);
}

TEST_F(ClientTest, WorkWhoseFateIsNotKnownLeavesAbortOnly) {
  Start();
  Transaction txn = BeginWithWork();
  relay_.Lose(Relay::Loss::kAnswer, "Produce", 1000);
  const Status lost = txn.Produce("east", {.topic = "t", .value = "lost"}, milliseconds(200));
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().effect, Effect::kUnknown);
  EXPECT_EQ(lost.error().code, Code::kUnavailable);
  const int calls = relay_.calls("Produce");
  EXPECT_GT(calls, 3);
  for (const Error& error : {txn.Produce("east", {.topic = "t"}).error(), txn.Commit().error()}) {
    EXPECT_EQ(error.code, Code::kWrongState);
    EXPECT_EQ(error.effect, Effect::kNone);
  }
  std::promise<Result<TxnResult>> answer;
  txn.CommitAsync([&](Result<TxnResult> result) { answer.set_value(std::move(result)); });
  EXPECT_EQ(answer.get_future().get().error().code, Code::kWrongState);
  EXPECT_EQ(relay_.calls("Produce"), calls);
  EXPECT_EQ(relay_.calls("Commit"), 0);
  EXPECT_EQ(txn.Abort()->outcome, Outcome::kAborted);
}

TEST_F(ClientTest, ARefusedCallLeavesTheTransactionAsItWas) {
  Start();
  Transaction txn = BeginWithWork();
  const Status refused = txn.Produce("north", {.topic = "t"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().reason, "UNKNOWN_CLUSTER");
  EXPECT_EQ(refused.error().effect, Effect::kNone);
  EXPECT_TRUE(txn.Produce("east", {.topic = "t", .value = "more"}).ok());
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(node_->east.prepared_work().records.size(), 2u);
}

TEST_F(ClientTest, AFullServerIsTheCallersToWaitFor) {
  config_.open_transactions = 1;
  Start();
  Transaction txn = Begin();
  const auto second = client_->Begin();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kLimitReached);
  EXPECT_EQ(second.error().effect, Effect::kNone);
  EXPECT_TRUE(second.error().retry_after.has_value());
  EXPECT_EQ(relay_.calls("BeginGlobalTxn"), 2);
}

TEST_F(ClientTest, IdsOfOthersAreNotFound) {
  Start();
  EXPECT_EQ(client_->Commit("ffffffffffffffff-1-1-1").error().code, Code::kNotFound);
  EXPECT_EQ(client_->Abort("nonsense").error().code, Code::kInvalidArgument);
  EXPECT_EQ(client_->GetTxn("").error().reason, "INVALID_REQUEST");
}

TEST_F(ClientTest, TransactionsAreListedByStateAndLabel) {
  Start();
  const Transaction mine = Begin();
  const auto other = client_->Begin({.label = "other"});
  ASSERT_TRUE(other.ok());
  Transaction ended = Begin();
  ASSERT_EQ(ended.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(client_->ListTxns()->size(), 3u);
  const auto open = client_->ListTxns({.states = {TxnState::kActive}, .label_prefix = "te"});
  ASSERT_TRUE(open.ok()) << ToString(open.error());
  ASSERT_EQ(open->size(), 1u);
  EXPECT_EQ(open->front().id, mine.id());
  EXPECT_EQ(open->front().label, "test");
}

// ---- Watches ------------------------------------------------------------------------------------

TEST_F(ClientTest, AWatchTellsEachChangeToTheEnd) {
  Start();
  Transaction txn = BeginWithWork();
  std::vector<TxnState> seen;
  const auto ended = client_->Watch(txn.id(), [&](const TxnInfo& info) {
    seen.push_back(info.state);
    if (seen.size() == 1) {
      EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
    }
    return true;
  });
  ASSERT_TRUE(ended.ok()) << ToString(ended.error());
  EXPECT_EQ(ended->state, TxnState::kCommitted);
  EXPECT_EQ(seen.front(), TxnState::kActive);
  EXPECT_EQ(seen.back(), TxnState::kCommitted);
}

TEST_F(ClientTest, AWatchGoesOnAcrossARestart) {
  Start();
  node_->east.Set({.commits = false});
  Transaction txn = BeginWithWork();
  ASSERT_EQ(txn.Commit(Wait::kDecided)->outcome, Outcome::kCommitting);
  const auto ended = client_->Watch(txn.id(), [&](const TxnInfo& info) {
    if (relay_.calls("WatchTxn") == 1) {
      EXPECT_EQ(info.state, TxnState::kCommitting);
      Restart({*node_->DecisionOn(txn.id())});
    }
    return true;
  });
  ASSERT_TRUE(ended.ok()) << ToString(ended.error());
  EXPECT_EQ(ended->state, TxnState::kCommitted);
  EXPECT_GT(relay_.calls("WatchTxn"), 1);
}

TEST_F(ClientTest, AWatchIsGivenUpByItsCallbackAndBySilence) {
  Start();
  Transaction txn = Begin();
  const auto enough = client_->Watch(txn.id(), [](const TxnInfo&) { return false; });
  ASSERT_TRUE(enough.ok()) << ToString(enough.error());
  EXPECT_EQ(enough->state, TxnState::kActive);
  const auto silence = client_->Watch(
      txn.id(),
      [&](const TxnInfo&) {
        relay_.Cut();
        return true;
      },
      milliseconds(300));
  ASSERT_FALSE(silence.ok());
  EXPECT_EQ(silence.error().code, Code::kUnavailable);
  relay_.LeadTo(node_->daemon.port());
  const auto unknown =
      client_->Watch("ffffffffffffffff-1-1-1", [](const TxnInfo&) { return true; });
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
}

// ---- A server that dies -------------------------------------------------------------------------

TEST_F(ClientTest, AServerKilledAfterTheDecisionIsAskedAgain) {
  Start();
  node_->east.Set({.commits = false});
  Transaction txn = BeginWithWork();
  std::promise<Result<TxnResult>> answer;
  txn.CommitAsync([&](Result<TxnResult> result) { answer.set_value(std::move(result)); });
  while (!node_->DecisionOn(txn.id())) std::this_thread::yield();
  Restart({*node_->DecisionOn(txn.id())});
  const auto result = answer.get_future().get();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitted);
  EXPECT_EQ(client_->Commit(txn.id())->outcome, Outcome::kCommitted);
}

TEST_F(ClientTest, AServerKilledBeforeTheDecisionHasAborted) {
  Start();
  node_->east.Set({.votes = false});
  Transaction txn = BeginWithWork();
  auto answer = std::async(std::launch::async, [&] { return txn.Commit(); });
  while (node_->east.prepares() == 0) std::this_thread::yield();
  Restart({});
  const auto result = answer.get();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kAborted);
}

TEST_F(ClientTest, WorkForAServerThatForgotTheTransactionIsRefused) {
  Start();
  Transaction txn = BeginWithWork();
  Restart({});
  const Status late = txn.Produce("east", {.topic = "t"});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kWrongState);
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kAborted);
}

TEST_F(ClientTest, ACallThatFindsNoServerIsUnknownAtItsTimeout) {
  Start();
  Transaction txn = BeginWithWork();
  relay_.Cut();
  const auto lost = txn.Commit(Wait::kComplete, milliseconds(300));
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().effect, Effect::kUnknown);
  relay_.LeadTo(node_->daemon.port());
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
}

TEST_F(ClientTest, AFailedLogIsAskedAgainAndStaysUnknown) {
  Start();
  Transaction txn = BeginWithWork();
  node_->log.Fail();
  const auto result = txn.Commit(Wait::kComplete, milliseconds(1500));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().reason, "OUTCOME_UNKNOWN");
  EXPECT_EQ(result.error().effect, Effect::kUnknown);
  EXPECT_EQ(relay_.calls("Commit"), 2);  // The server said: after a second.
}

// ---- Time ---------------------------------------------------------------------------------------

TEST_F(ClientTest, ADecidedTransactionIsCommittingAtTheTimeout) {
  Start();
  node_->east.Set({.commits = false});
  Transaction txn = BeginWithWork();
  const auto result = txn.Commit(Wait::kComplete, milliseconds(300));
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitting);
  node_->east.Set({});
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
}

TEST_F(ClientTest, ALongWaitIsSeveralAttempts) {
  options_.attempt_timeout = milliseconds(100);
  Start();
  node_->east.Set({.vote_delay = milliseconds(250)});
  Transaction txn = BeginWithWork();
  const auto result = txn.Commit();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitted);
  EXPECT_GT(relay_.calls("Commit"), 2);
  EXPECT_EQ(node_->east.prepares(), 1);
}

TEST_F(ClientTest, WhatWasDecidedStaysDecidedWhenTheServerGoesAway) {
  options_.attempt_timeout = milliseconds(500);  // Time for an answer on a busy machine.
  Start();
  node_->east.Set({.commits = false});
  Transaction txn = BeginWithWork();
  std::promise<Result<TxnResult>> answer;
  txn.CommitAsync([&](Result<TxnResult> result) { answer.set_value(std::move(result)); },
                  Wait::kComplete, milliseconds(3000));
  while (relay_.calls("Commit") < 2) std::this_thread::yield();  // It was told COMMITTING once.
  relay_.Lose(Relay::Loss::kRequest, "Commit", 1000);
  const auto result = answer.get_future().get();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kCommitting);
}

TEST_F(ClientTest, DecidedIsAnsweredAtOnce) {
  Start();
  node_->east.Set({.commits = false});
  Transaction txn = BeginWithWork();
  const auto result = txn.Commit(Wait::kDecided);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->outcome, Outcome::kCommitting);
  EXPECT_EQ(relay_.calls("Commit"), 1);
}

TEST_F(ClientTest, TheClientsEndWaitsForCommitsUnderWay) {
  Start();
  node_->east.Set({.vote_delay = milliseconds(100)});
  std::atomic<bool> told = false;
  Transaction(BeginWithWork()).CommitAsync([&](const Result<TxnResult>& result) {
    told = result.ok() && result->outcome == Outcome::kCommitted;
  });
  client_.reset();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace lockstep::client
