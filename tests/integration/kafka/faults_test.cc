// What a lane does when brokers or networks fail: it must know what it does not know.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fixture.h"
#include "gate.h"
#include "kafka/request_ledger.h"

namespace lockstep::kafka::testing {
namespace {

using coordinator::ClusterState;
using ::lockstep::testing::Gate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using txn::AbortReason;
using txn::KafkaTxnState;

/// A broker behind a gate.
struct GatedBroker {
  explicit GatedBroker(const std::string& version) {
    ::lockstep::testing::KafkaClusterOptions options;
    options.kafka = version;
    options.properties = {
        {"transaction.abort.timed.out.transaction.cleanup.interval.ms", "200"},
        {"advertised.listeners", "PLAINTEXT://127.0.0.1:" + std::to_string(gate.port())}};
    broker = std::make_unique<Broker>(options);
    const std::string& address = broker->bootstrap();
    gate.LeadTo(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  }
  Gate gate;
  std::unique_ptr<Broker> broker;

  static GatedBroker& Of(const std::string& version) {
    static std::map<std::string, std::unique_ptr<GatedBroker>> brokers;
    auto& broker = brokers[version];
    if (broker == nullptr) broker = std::make_unique<GatedBroker>(version);
    return *broker;
  }
};

class FaultsTest : public ::testing::TestWithParam<std::string>, public LanesFixture {
 protected:
  FaultsTest()
      : LanesFixture(*GatedBroker::Of(GetParam()).broker), gate_(GatedBroker::Of(GetParam()).gate) {
    NewProcess();
  }
  ~FaultsTest() override { EXPECT_EQ(gate_.StillToLose(), 0); }

  void Lose(Gate::Loss loss, TxnApi api, int count = 1) {
    // Lanes' client.id is their transactional.id; the wire client's is "lockstep".
    gate_.Lose(loss, static_cast<std::int16_t>(api), "lockstep-" + folder_.log_id.get(), count);
  }

  Gate& gate_;
};

INSTANTIATE_TEST_SUITE_P(Kafka, FaultsTest, ::testing::Values("4.4.0", "3.9.1"), VersionName);

// ---- Losses on the network ----------------------------------------------------------------------

// librdkafka sends EndTxn again and gets its OK: the commit is known, but the first EndTxn could
// end this lane's next transaction.
TEST_P(FaultsTest, ALostEndTxnLeavesTheLaneUnclean) {
  for (const auto loss : {Gate::Loss::kRequest, Gate::Loss::kAnswer}) {
    const txn::ParticipantName before = CommitOne("before");
    Lose(loss, TxnApi::kEndTxn);
    const auto branch = NewBranch();
    const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
    EXPECT_EQ(prepared.name.producer_epoch, before.producer_epoch);
    const Status status = branch->Commit();
    EXPECT_TRUE(status.ok()) << ToString(status.error());
    branch->Release();
    EXPECT_EQ(CommitOne("after").producer_epoch.get(), before.producer_epoch.get() + 1);
  }
  EXPECT_THAT(Committed(), ElementsAre("before", "x", "after", "before", "x", "after"));
}

// M3: each of these may still arrive, in the next transaction. Nor does this one get a YES: a copy
// that comes after its end would open another one under its name.
TEST_P(FaultsTest, AnyOtherUnansweredRequestIsNoAndLeavesTheLaneUnclean) {
  for (const TxnApi api : {TxnApi::kProduce, TxnApi::kAddPartitionsToTxn, TxnApi::kAddOffsetsToTxn,
                           TxnApi::kTxnOffsetCommit}) {
    SCOPED_TRACE(static_cast<int>(api));
    const txn::ParticipantName before = CommitOne("before");
    Lose(Gate::Loss::kAnswer, api);
    txn::BranchWork work = One("x");
    work.offsets.push_back(
        {FreshName("g"), -1, "", std::nullopt, true, {{{topic_, 0}, 5, -1, ""}}});
    const txn::Refusal refusal = PrepareNo(work, AbortReason::kClusterUnavailable);
    EXPECT_THAT(refusal.message, HasSubstr("not answered"));
    EXPECT_TRUE(refusal.retriable);
    ExpectRenewed(CommitOne("after"), before);
  }
}

TEST_P(FaultsTest, ALostAbortLeavesTheLaneUncleanToo) {
  const txn::ParticipantName before = CommitOne("before");
  Lose(Gate::Loss::kAnswer, TxnApi::kEndTxn);
  const auto branch = NewBranch();
  PrepareYes(*branch, One("x"));
  branch->Abort();
  branch->Release();
  ExpectRenewed(CommitOne("after"), before);
  EXPECT_THAT(Committed(), ElementsAre("before", "after"));
}

TEST_P(FaultsTest, ACommitWithoutAnyAnswerIsUncertainAndTheIdIsLeftAlone) {
  Lose(Gate::Loss::kRequest, TxnApi::kEndTxn, 1000);
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  const Status status = branch->Commit();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().effect, Effect::kUnknown);
  // M17: nothing but a decision ends it from here.
  EXPECT_EQ(Describe(prepared.name).state, KafkaTxnState::kOngoing);
  EXPECT_TRUE(EndByWire(prepared.name));
  EXPECT_TRUE(BecomesState(prepared.name, KafkaTxnState::kCompleteCommit));
  branch->Release();
  gate_.Forget();
  ExpectRenewed(CommitOne("y"), prepared.name);
  EXPECT_THAT(Committed(), ElementsAre("x", "y"));
}

// The lost one may arrive late, and would then end whatever runs on the id.
TEST_P(FaultsTest, AnInitProducerIdWithoutAnswerCostsTheId) {
  const txn::ParticipantName before = CommitOne("before");
  ASSERT_TRUE(ArmFailpoint("lane.after_commit@a=error#1").ok());
  const auto branch = NewBranch();
  PrepareYes(*branch, One("x"));
  EXPECT_FALSE(branch->Commit().ok());
  DisarmFailpoints();
  Lose(Gate::Loss::kAnswer, TxnApi::kInitProducerId);
  branch->Release();
  EXPECT_NE(CommitOne("after").transactional_id, before.transactional_id);
  EXPECT_THAT(Committed(), ElementsAre("before", "x", "after"));
}

// ---- Brokers that stop --------------------------------------------------------------------------

TEST_P(FaultsTest, AHangingBrokerIsGivenUpInTimeAndTheLaneRecovers) {
  CommitOne("before");
  broker_.Pause();
  const auto branch = NewBranch();
  const MonoTime start = process_->clock().Now();
  const txn::Vote vote = branch->Prepare(One("x"), std::chrono::seconds(3));
  EXPECT_EQ(vote.kind, txn::Vote::Kind::kNo);
  EXPECT_EQ(vote.refusal.reason, AbortReason::kClusterUnavailable) << vote.refusal.message;
  EXPECT_TRUE(vote.refusal.retriable);
  EXPECT_LT(process_->clock().Now() - start, std::chrono::seconds(5));
  branch->Abort();  // Set aside: the broker cannot be told.
  EXPECT_LT(process_->clock().Now() - start, std::chrono::seconds(10));
  EXPECT_TRUE(Becomes(ClusterState::kUnreachable));
  branch->Release();
  broker_.Resume();
  CommitOne("after");
  EXPECT_THAT(Committed(), ElementsAre("before", "after"));
}

TEST_P(FaultsTest, AbortEndsAPrepareThatHangs) {
  CommitOne("before");
  broker_.Pause();
  const auto branch = NewBranch();
  auto vote = branch->StartPrepare(One("x"), std::chrono::minutes(1));
  const MonoTime start = process_->clock().Now();
  branch->Abort();
  EXPECT_LT(process_->clock().Now() - start, std::chrono::seconds(6));
  EXPECT_FALSE(branch->voted());
  branch->Release();
  broker_.Resume();
  CommitOne("after");
  EXPECT_THAT(Committed(), ElementsAre("before", "after"));
}

// librdkafka numbers records as it takes them: one that is thrown away unsent leaves a gap, which
// it notices in the next transaction ("skipped sequence numbers").
TEST_P(FaultsTest, ARecordThatWasNeverSentDoesNotSpoilTheNextTransaction) {
  CommitOne("before");
  broker_.Pause();
  const auto branch = NewBranch();
  EXPECT_EQ(branch->Prepare(One("x"), std::chrono::seconds(1)).kind, txn::Vote::Kind::kNo);
  std::thread abort([&] { branch->Abort(); });
  broker_.Resume();
  abort.join();
  branch->Release();
  CommitOne("after");
  EXPECT_THAT(Committed(), ElementsAre("before", "after"));
}

TEST_P(FaultsTest, ACommitOnAHangingBrokerIsUncertainAndResolvable) {
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  broker_.Pause();
  const Status status = branch->Commit();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().effect, Effect::kUnknown);
  broker_.Resume();
  // The broker finds the EndTxn when it wakes up.
  EXPECT_TRUE(BecomesState(prepared.name, KafkaTxnState::kCompleteCommit));
  EXPECT_THAT(Markers(prepared), ElementsAre(txn::MarkerFound::kCommit));
  branch->Release();
  ExpectRenewed(CommitOne("y"), prepared.name);
  EXPECT_THAT(Committed(), ElementsAre("x", "y"));
}

TEST_P(FaultsTest, StoppingWithAHangingBrokerIsQuick) {
  const auto branch = NewBranch();
  PrepareYes(*branch, One("x"));
  broker_.Pause();
  const auto stuck = NewBranch();
  auto vote = stuck->StartPrepare(One("y"), std::chrono::minutes(1));
  const MonoTime start = process_->clock().Now();
  StopProcess();
  const BootClock clock;
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(4));
  broker_.Resume();
}

TEST_P(FaultsTest, ABrokerThatDiesAndComesBackFindsTheTransactionPrepared) {
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  broker_.Kill();
  EXPECT_TRUE(Becomes(ClusterState::kUnreachable));
  const Status status = branch->Commit();
  EXPECT_FALSE(status.ok());
  broker_.Restart();
  EXPECT_TRUE(Becomes(ClusterState::kReady));
  // librdkafka's own EndTxn may arrive by now; else this one ends it.
  EXPECT_TRUE(Eventually([&] { return EndByWire(prepared.name); }));
  EXPECT_TRUE(BecomesState(prepared.name, KafkaTxnState::kCompleteCommit));
  branch->Release();
  CommitOne("y");
  EXPECT_THAT(Committed(), ElementsAre("x", "y"));
}

TEST_P(FaultsTest, ATransactionThatTimesOutIsNoAndTheLaneGoesOn) {
  ClusterConfig config = Config();
  config.transaction_timeout = std::chrono::seconds(1);
  NewProcess(config);
  ASSERT_TRUE(ArmFailpoint("lane.after_flush@a=delay:3000#1").ok());
  const auto branch = NewBranch();
  const txn::Vote vote = branch->Prepare(One("x"), std::chrono::seconds(40));
  DisarmFailpoints();
  EXPECT_EQ(vote.kind, txn::Vote::Kind::kNo);
  EXPECT_EQ(vote.refusal.reason, AbortReason::kProducerFenced) << vote.refusal.message;
  branch->Abort();
  branch->Release();
  CommitOne("y");
  EXPECT_THAT(Committed(), ElementsAre("y"));
}

TEST_P(FaultsTest, AClusterThatCameBackEmptyIsNoticed) {
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  const std::string before = broker_.cluster_id();
  broker_.Wipe();
  EXPECT_TRUE(Becomes(ClusterState::kMismatch));
  EXPECT_THAT(cluster_->status().problem, HasSubstr(broker_.cluster_id()));
  EXPECT_EQ(cluster_->status().kafka_cluster_id.get(), before);
  PrepareNo(One("x"), AbortReason::kClusterMismatch);
}

}  // namespace
}  // namespace lockstep::kafka::testing
