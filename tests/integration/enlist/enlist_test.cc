// Applications with producers of their own (librdkafka) on two real clusters, enlisted in one
// transaction by a real lockstepd: it commits or aborts on both, and readers of either cluster see
// the same, also when Kafka's time-out or the end of lockstepd comes first.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "call_context.h"
#include "fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::EnlistTest;
using ::testing::HasSubstr;
using testing::OwnProducer;
using testing::Values;

// ---- In peace -----------------------------------------------------------------------------------

TEST_F(EnlistTest, OneTransactionAfterTheOtherCommitsOnBoth) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  EXPECT_EQ(a.registration().protocol(), v1::PRODUCER_PROTOCOL_TV1);
  for (const auto* text : {"1", "2", "3"}) ExpectOneCommits(a, b, text);
  ExpectOnBoth({"1", "2", "3"});
}

TEST_F(EnlistTest, BegunWithBothOneAfterTheOtherCommitsOnBoth) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  for (const auto* text : {"1", "2", "3"}) {
    v1::BeginGlobalTxnRequest request;
    request.mutable_timeout()->set_seconds(60);
    for (const OwnProducer* producer : {&a, &b}) {
      request.add_enlistments()->set_registration_id(producer->registration().registration_id());
    }
    CallContext context;
    v1::BeginGlobalTxnResponse begun;
    const auto status = daemon_.coordinator().BeginGlobalTxn(&context, request, &begun);
    ASSERT_TRUE(status.ok()) << status.error_message();
    Write(a, text);
    Write(b, text);
    EXPECT_EQ(Commit(begun.txn_id(), {&a, &b}).outcome(), v1::OUTCOME_COMMITTED);
    EXPECT_EQ(a.CommitOwn(), "");
    EXPECT_EQ(b.CommitOwn(), "");
  }
  ExpectOnBoth({"1", "2", "3"});
}

TEST_F(EnlistTest, AnAbortedOneIsOnNeitherAndTheNextCommits) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "aborted");
  const v1::AbortResponse response = Abort(txn);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  for (const auto& branch : response.branches()) EXPECT_FALSE(branch.enlisted().reinit_required());
  EXPECT_EQ(a.AbortOwn(), "");
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectOneCommits(a, b, "next");
  ExpectOnBoth({"next"});
}

TEST_F(EnlistTest, WhoWroteNothingVotesReadOnly) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite(a, txn, "on a alone");
  ASSERT_TRUE(b.Enlist(daemon_.coordinator(), txn).ok());
  b.Begin();
  b.Flush();
  EXPECT_TRUE(b.work().read_only());
  EXPECT_EQ(Commit(txn, {&a, &b}).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(a.CommitOwn(), "");
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectOneCommits(a, b, "both");
  ExpectVisible({"on a alone", "both"}, {"both"});
}

TEST_F(EnlistTest, AManagedBranchBesideAnEnlistedOne) {
  Serve();
  OwnProducer& a = Started("a");
  for (const bool commit : {true, false, true}) {
    const std::string text = commit ? "committed" : "aborted";
    testing::TestTxn txn(daemon_.coordinator());
    EnlistAndWrite(a, txn.id(), text);
    ASSERT_TRUE(txn.Produce("b", testing::kTopic, Value(text), 0).ok());
    if (commit) {
      const v1::CommitResponse response = Commit(txn.id(), {&a});
      EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED) << response.DebugString();
      for (const auto& branch : response.branches()) {
        EXPECT_EQ(branch.has_enlisted(), branch.cluster() == "a");
      }
      EXPECT_EQ(a.CommitOwn(), "");
    } else {
      EXPECT_EQ(Abort(txn.id()).outcome(), v1::OUTCOME_ABORTED);
      EXPECT_EQ(a.AbortOwn(), "");
    }
  }
  ExpectOnBoth({"committed", "committed"});
}

TEST_F(EnlistTest, OtherPartitionsThanTheClientSaysAbort) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  for (const bool more : {true, false}) {
    const std::string txn = Begin();
    EnlistAndWrite({&a, &b}, txn, "aborted");
    v1::CommitRequest request;
    request.set_txn_id(txn);
    *request.add_enlisted() = a.work();
    *request.add_enlisted() = b.work();
    v1::WrittenPartition& wrong = *request.mutable_enlisted(1)->mutable_partitions(0);
    if (more) *request.mutable_enlisted(1)->add_partitions() = wrong;
    wrong.set_partition(1);
    v1::CommitResponse response;
    ASSERT_TRUE(TryCommit(request, &response).ok());
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_VOTE_MISMATCH);
    EXPECT_EQ(response.abort().cluster(), "b");
    EXPECT_THAT(response.abort().message(), HasSubstr("orders-1"));
    EXPECT_EQ(a.AbortOwn(), "");
    EXPECT_EQ(b.AbortOwn(), "");
  }
  ExpectOneCommits(a, b, "next");
  ExpectOnBoth({"next"});
}

/// A librdkafka that says TV2. Where the cluster has it, our end costs the producer its epoch, and
/// the outcome is still what was told.
TEST_F(EnlistTest, TheWrongProtocolCostsAProducerAndNeverAnOutcome) {
  Serve();
  for (const bool commit : {true, false}) {
    std::vector<OwnProducer*> producers;
    for (const auto* cluster : {"a", "b"}) {
      producers.push_back(&Make(cluster, 60s, v1::PRODUCER_PROTOCOL_TV2));
      producers.back()->Start(daemon_.coordinator());
    }
    const std::string txn = Begin();
    EnlistAndWrite(producers, txn, commit ? "committed" : "aborted");
    EXPECT_EQ(commit ? Commit(txn, producers).outcome() : Abort(txn).outcome(),
              commit ? v1::OUTCOME_COMMITTED : v1::OUTCOME_ABORTED);
    ExpectOnBoth({"committed"});
    for (std::size_t i = 0; i < 2; ++i) {
      const bool tv2 = TransactionVersion(i == 0 ? "a" : "b") == 2;
      EXPECT_EQ(commit ? producers[i]->CommitOwn() : producers[i]->AbortOwn(),
                tv2 ? "_FENCED" : "");
    }
  }
  ExpectOneCommits(Started("a"), Started("b"), "next");
  ExpectOnBoth({"committed", "next"});
}

// ---- Kafka's own timeout ------------------------------------------------------------------------

TEST_F(EnlistTest, TooNearToKafkasTimeoutIsAborted) {
  Serve();
  OwnProducer& a = Make("a", 8s);  // Less than the margin.
  a.Start(daemon_.coordinator());
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "late");
  const v1::CommitResponse response = Commit(txn, {&a, &b});
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_DEADLINE_TOO_CLOSE);
  EXPECT_EQ(a.AbortOwn(), "");
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectOnBoth({});
}

TEST_F(EnlistTest, WhatTheBrokerTimedOutIsAborted) {
  Serve();
  OwnProducer& a = Make("a", 1s);
  a.Start(daemon_.coordinator());
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&b, &a}, txn, "late");
  AwaitState(a, "a", txn::KafkaTxnState::kCompleteAbort);
  const v1::CommitResponse response = Commit(txn, {&a, &b});
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  for (const auto& branch : response.branches()) {
    EXPECT_EQ(branch.enlisted().reinit_required(), branch.cluster() == "a");
  }
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectFenced(a);
  ExpectOneCommits(Started("a"), b, "next");
  ExpectOnBoth({"next"});
}

// ---- The coordinator dies -----------------------------------------------------------------------

TEST_F(EnlistTest, WhatIsEnlistedAndNotDecidedIsAbortedAtTheNextStart) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "lost");
  AwaitEnlistmentsWritten(txn);
  daemon_.Kill();
  const auto start = std::chrono::steady_clock::now();
  daemon_.Spawn();
  AwaitState(a, "a", txn::KafkaTxnState::kCompleteAbort);
  AwaitState(b, "b", txn::KafkaTxnState::kCompleteAbort);
  std::printf("aborted %.3f s after the start of the next lockstepd\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  daemon_.Kill();
  Serve();
  EXPECT_EQ(Commit(txn, {&a, &b}).outcome(), v1::OUTCOME_ABORTED);
  ExpectFenced(a);
  ExpectFenced(b);
  ExpectOneCommits(Started("a"), Started("b"), "next");
  ExpectOnBoth({"next"});
}

/// At a failpoint of the commit, and then perhaps at one of the recovery.
class EnlistCrashTest : public EnlistTest,
                        public ::testing::WithParamInterface<std::pair<const char*, const char*>> {
};

TEST_P(EnlistCrashTest, BothAgreeAndTheProducersGoOnOnceRegisteredAnew) {
  const auto [in_commit, in_recovery] = GetParam();
  Serve({std::string(in_commit) + "=crash"});
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "crash");
  AwaitStored(txn, 2);
  v1::CommitResponse response;
  EXPECT_FALSE(TryCommit(txn, {&a, &b}, &response).ok());
  ASSERT_TRUE(daemon_.AwaitEnd(20s).has_value()) << in_commit << " was not reached";
  if (in_recovery != nullptr) {
    daemon_.Spawn({std::string(in_recovery) + "=crash"});
    ASSERT_TRUE(daemon_.AwaitEnd(20s).has_value()) << in_recovery << " was not reached";
  }
  Serve();
  // The rule: nothing of its own before a definite answer. So ask again.
  response = Commit(txn, {&a, &b});
  const bool decided = std::string_view(in_commit) != "coordinator.votes_in";
  EXPECT_EQ(response.outcome(), decided ? v1::OUTCOME_COMMITTED : v1::OUTCOME_ABORTED);
  for (const auto& branch : response.branches()) {
    EXPECT_TRUE(branch.enlisted().reinit_required());
    EXPECT_EQ(branch.enlisted().transactional_id(), name_ + "-on-" + branch.cluster());
  }
  if (decided) {
    EXPECT_EQ(a.CommitOwn(), "");
    EXPECT_EQ(b.CommitOwn(), "");
  }
  ExpectOnBoth(decided ? Values{"crash"} : Values{});
  ExpectFenced(a);
  ExpectOneCommits(Started("a"), Started("b"), "next");
  ExpectOnBoth(decided ? Values{"crash", "next"} : Values{"next"});
}

INSTANTIATE_TEST_SUITE_P(
    , EnlistCrashTest,
    ::testing::Values(std::pair{"coordinator.votes_in", nullptr},
                      std::pair{"coordinator.decision_durable", nullptr},
                      std::pair{"coordinator.participant_ended", nullptr},
                      std::pair{"coordinator.completion_durable", nullptr},
                      std::pair{"coordinator.before_answer", nullptr},
                      std::pair{"coordinator.decision_durable", "resolver.before_end_txn"},
                      std::pair{"coordinator.decision_durable", "resolver.after_end_txn"}),
    [](const auto& param) {
      std::string name = param.param.first;
      if (param.param.second != nullptr) name += std::string("_") + param.param.second;
      std::ranges::replace(name, '.', '_');
      return name;
    });

/// A new instance registers while the coordinator is still about to commit the last one's.
TEST_F(EnlistTest, ARegistrationWaitsForWhatIsDecided) {
  Serve({"coordinator.decision_durable=crash"});
  std::string txn;
  {
    OwnProducer& a = Started("a");
    OwnProducer& b = Started("b");
    txn = Begin();
    EnlistAndWrite({&a, &b}, txn, "decided");
    v1::CommitResponse response;
    EXPECT_FALSE(TryCommit(txn, {&a, &b}, &response).ok());
    ASSERT_TRUE(daemon_.AwaitEnd(20s).has_value());
    producers_.clear();
  }
  daemon_.Start({"resolver.before_end_txn=delay:500"});
  OwnProducer* a = nullptr;
  daemon_.Await("the registration", 30s, [&] {
    a = &Make("a");
    return a->Register(daemon_.coordinator()).ok();
  });
  a->Init();
  EXPECT_EQ(testing::GetTxn(daemon_.coordinator(), txn).branches(0).outcome(),
            v1::BRANCH_OUTCOME_COMMITTED);
  daemon_.AwaitReady();
  ExpectOneCommits(*a, Started("b"), "next");
  ExpectOnBoth({"decided", "next"});
}

}  // namespace
}  // namespace lockstep
