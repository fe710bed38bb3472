// Applications with producers of their own (librdkafka) on two real clusters, enlisted in one
// transaction by a real lockstepd: it commits or aborts on both, whoever dies, and readers of
// either cluster see the same.

#include <gmock/gmock.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <list>

#include "call_context.h"
#include "clusters.h"
#include "ctl.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "own_producer.h"
#include "wire/client.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using testing::Lockstepd;
using testing::OwnProducer;
using Values = std::vector<std::string>;

constexpr char kTopic[] = "orders";

class EnlistTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const testing::KafkaClusterOptions options{
        .properties = {{"transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"}},
        .topics = {std::string(kTopic) + ":2"}};
    clusters_ = new std::vector(testing::StartKafkaClusters({options, options}));
  }
  static void TearDownTestSuite() { delete clusters_; }

  EnlistTest()
      : name_(::testing::UnitTest::GetInstance()->current_test_info()->name()),
        daemon_({.clusters = {{"a", Bootstrap("a")}, {"b", Bootstrap("b")}}}) {}

  static const std::string& Bootstrap(const std::string& cluster) {
    return (*clusters_)[cluster == "a" ? 0 : 1]->bootstrap();
  }

  void Serve(const std::vector<std::string>& failpoints = {}) {
    daemon_.Start(failpoints);
    daemon_.AwaitReady();
  }

  /// A producer of this test's own id on the cluster. Lives as long as the test.
  OwnProducer& Make(const std::string& cluster, std::chrono::milliseconds timeout = 60s) {
    return producers_.emplace_back(
        OwnProducer::Options{cluster, Bootstrap(cluster), name_ + "-on-" + cluster, timeout});
  }
  OwnProducer& Started(const std::string& cluster) {
    OwnProducer& producer = Make(cluster);
    producer.Start(daemon_.coordinator());
    return producer;
  }

  /// This test's values are its own on the shared topic.
  std::string Value(const std::string& text) const { return name_ + " " + text; }

  std::string Begin() { return testing::TestTxn(daemon_.coordinator()).id(); }

  void EnlistAndWrite(OwnProducer& producer, const std::string& txn, const std::string& text) {
    const grpc::Status status = producer.Enlist(daemon_.coordinator(), txn);
    ASSERT_TRUE(status.ok()) << status.error_message();
    producer.Begin();
    producer.Write(kTopic, Value(text));
    producer.Flush();
  }

  void EnlistAndWrite(const std::vector<OwnProducer*>& producers, const std::string& txn,
                      const std::string& text) {
    for (OwnProducer* producer : producers) EnlistAndWrite(*producer, txn, text);
  }

  grpc::Status TryCommit(const std::string& txn, const std::vector<OwnProducer*>& producers,
                         v1::CommitResponse* response) {
    v1::CommitRequest request;
    request.set_txn_id(txn);
    for (const OwnProducer* producer : producers) *request.add_enlisted() = producer->work();
    return TryCommit(request, response);
  }
  grpc::Status TryCommit(const v1::CommitRequest& request, v1::CommitResponse* response) {
    CallContext context(60s);
    return daemon_.coordinator().Commit(&context, request, response);
  }
  v1::CommitResponse Commit(const std::string& txn, const std::vector<OwnProducer*>& producers) {
    v1::CommitResponse response;
    const grpc::Status status = TryCommit(txn, producers, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::AbortResponse Abort(const std::string& txn) {
    CallContext context;
    v1::AbortRequest request;
    request.set_txn_id(txn);
    v1::AbortResponse response;
    const grpc::Status status = daemon_.coordinator().Abort(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  Values Visible(const std::string& cluster) const {
    Values values = testing::ReadValues(Bootstrap(cluster), kTopic);
    std::erase_if(values, [this](const auto& value) { return !value.starts_with(name_ + " "); });
    for (std::string& value : values) value.erase(0, name_.size() + 1);
    return values;
  }
  void ExpectVisible(const Values& on_a, const Values& on_b) const {
    EXPECT_EQ(Visible("a"), on_a);
    EXPECT_EQ(Visible("b"), on_b);
  }
  void ExpectOnBoth(const Values& values) const { ExpectVisible(values, values); }

  static txn::TxnDescription Describe(const OwnProducer& producer, const std::string& cluster) {
    wire::IoThread io;
    wire::Client client(io, {.bootstrap = {Bootstrap(cluster)}});
    std::promise<Result<txn::TxnDescription>> promise;
    client.DescribeTransaction(TransactionalId(producer.transactional_id()), 10s,
                               [&](auto result) { promise.set_value(std::move(result)); });
    const auto description = promise.get_future().get();
    if (!description.ok()) throw std::runtime_error(ToString(description.error()));
    return *description;
  }
  void AwaitState(const OwnProducer& producer, const std::string& cluster,
                  txn::KafkaTxnState state) {
    daemon_.Await(cluster + " to show " + std::string(txn::Name(state)), 30s,
                  [&] { return Describe(producer, cluster).state == state; });
  }

  /// Its enlistments on both clusters have left lockstepd's memory: a kill loses none any more.
  void AwaitEnlistmentsWritten(const std::string& txn) {
    daemon_.Await("the enlistments are written", 10s, [&] {
      const std::string dump = testing::RunCtl({"log", "dump", daemon_.data_dir()}).out;
      const std::string on = "enlisted in transaction " + txn + ": cluster ";
      return dump.find(on + "a ") != std::string::npos && dump.find(on + "b ") != std::string::npos;
    });
  }

  /// A transaction over both, from start to end, that the next ones need not care about.
  void ExpectOneCommits(OwnProducer& a, OwnProducer& b, const std::string& text) {
    const std::string txn = Begin();
    EnlistAndWrite({&a, &b}, txn, text);
    const v1::CommitResponse response = Commit(txn, {&a, &b});
    EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED) << response.DebugString();
    EXPECT_EQ(a.CommitOwn(), "");
    EXPECT_EQ(b.CommitOwn(), "");
  }

  void ExpectFenced(OwnProducer& producer) {
    const grpc::Status status = producer.Enlist(daemon_.coordinator(), Begin());
    EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("register"));
  }

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
  const std::string name_;
  Lockstepd daemon_;
  std::list<OwnProducer> producers_;
};

std::vector<std::unique_ptr<testing::KafkaCluster>>* EnlistTest::clusters_ = nullptr;

// ---- In peace -----------------------------------------------------------------------------------

TEST_F(EnlistTest, OneTransactionAfterTheOtherCommitsOnBoth) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  EXPECT_EQ(a.registration().protocol(), v1::PRODUCER_PROTOCOL_TV1);
  for (const auto* text : {"1", "2", "3"}) ExpectOneCommits(a, b, text);
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
    ASSERT_TRUE(txn.Produce("b", kTopic, Value(text), 0).ok());
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

// ---- Instances ----------------------------------------------------------------------------------

TEST_F(EnlistTest, AClientThatDiesBeforeCommitLeavesNothingToItsSuccessor) {
  Serve();
  std::string txn;
  {
    OwnProducer& a = Started("a");
    OwnProducer& b = Started("b");
    txn = Begin();
    EnlistAndWrite(a, txn, "died");
    ASSERT_TRUE(b.Enlist(daemon_.coordinator(), txn).ok());
    b.Begin();
    b.Write(kTopic, Value("died"));  // Never flushed.
    producers_.clear();
  }
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const v1::Transaction aborted = testing::GetTxn(daemon_.coordinator(), txn);
  EXPECT_EQ(aborted.state(), v1::TXN_STATE_ABORTED);
  EXPECT_EQ(aborted.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  ExpectOneCommits(a, b, "successor");
  ExpectOnBoth({"successor"});
}

/// Instance 1 prepared; instance 2 took the id over and wrote a half; then 1's Commit arrives.
TEST_F(EnlistTest, AZombiesCommitDoesNotCommitItsRegisteredSuccessor) {
  Serve();
  OwnProducer& b = Started("b");
  OwnProducer& first = Started("a");
  const std::string old = Begin();
  EnlistAndWrite({&first, &b}, old, "zombie");
  OwnProducer& second = Started("a");
  const std::string txn = Begin();
  EnlistAndWrite(second, txn, "half");
  EXPECT_EQ(Commit(old, {&first, &b}).outcome(), v1::OUTCOME_ABORTED);
  ExpectOnBoth({});
  EXPECT_EQ(b.AbortOwn(), "");
  EnlistAndWrite(b, txn, "half");
  EXPECT_EQ(Commit(txn, {&second, &b}).outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(second.CommitOwn(), "");
  ExpectOnBoth({"half"});
}

TEST_F(EnlistTest, AZombiesCommitDoesNotCommitASuccessorThatNobodyRegistered) {
  Serve();
  OwnProducer& b = Started("b");
  OwnProducer& first = Started("a");
  const std::string old = Begin();
  EnlistAndWrite({&first, &b}, old, "zombie");
  OwnProducer& second = Make("a");
  second.Init();
  second.Begin();
  second.Write(kTopic, Value("half"));
  second.Flush();
  const v1::CommitResponse response = Commit(old, {&first, &b});
  EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_PRODUCER_FENCED);
  EXPECT_EQ(response.abort().cluster(), "a");
  ExpectOnBoth({});
  EXPECT_EQ(Describe(second, "a").state, txn::KafkaTxnState::kOngoing);  // Left alone.
  EXPECT_EQ(second.CommitOwn(), "");
  EXPECT_EQ(b.AbortOwn(), "");
  ExpectVisible({"half"}, {});
  ExpectFenced(first);
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
