// How a cluster joins: who it is, and what earlier starts left on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.h"

namespace lockstep::kafka::testing {
namespace {

using coordinator::ClusterState;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using txn::AbortReason;
using txn::KafkaTxnState;

class JoinTest : public ::testing::TestWithParam<std::string>, public LanesFixture {
 protected:
  JoinTest() : LanesFixture(BrokerOf(GetParam())) {}
};

INSTANTIATE_TEST_SUITE_P(Kafka, JoinTest, ::testing::Values("4.4.0", "3.9.1"), VersionName);

TEST_P(JoinTest, BindsTheClusterAtFirstSightAndIsReady) {
  NewProcess();
  EXPECT_TRUE(cluster_->status().check_markers || cluster_->status().state == ClusterState::kReady)
      << "taken for harmless before it was asked";
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  const auto status = cluster_->status();
  EXPECT_EQ(status.kafka_cluster_id.get(), broker_.cluster_id());
  EXPECT_EQ(folder_.bindings[ClusterName("a")].get(), broker_.cluster_id());
  EXPECT_EQ(status.problem, "");
  EXPECT_EQ(status.check_markers, GetParam() == "4.4.0");
  EXPECT_EQ(status.lanes_idle, 1);
  EXPECT_EQ(status.lanes_busy + status.lanes_renewing, 0);
}

TEST_P(JoinTest, FencesWhatAnEarlierStartLeftOpen) {
  NewProcess();
  const auto branch = NewBranch();
  const txn::PreparedParticipant open = PrepareYes(*branch, One("lost"));
  NewProcess();
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  const txn::TxnDescription fenced = Describe(open.name);
  EXPECT_EQ(fenced.state, KafkaTxnState::kEmpty);
  EXPECT_GT(fenced.producer_epoch, open.name.producer_epoch);
  EXPECT_THAT(Markers(open), ElementsAre(txn::MarkerFound::kAbort));
  const txn::ParticipantName ours = CommitOne("x");
  EXPECT_THAT(ours.transactional_id.get(), HasSubstr("-2-a-"));
  EXPECT_THAT(Committed(), ElementsAre("x"));  // Nothing holds readers back.
}

TEST_P(JoinTest, LeavesPendingIdsAloneUntilTheyAreSettled) {
  NewProcess();
  auto branch = NewBranch();
  const txn::PreparedParticipant decided = PrepareYes(*branch, One("decided"));
  branch.reset();
  NewProcess({decided.name.transactional_id});
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  EXPECT_EQ(Describe(decided.name).state, KafkaTxnState::kOngoing);
  EXPECT_EQ(Describe(decided.name).producer_epoch, decided.name.producer_epoch);

  EXPECT_TRUE(EndByWire(decided.name));
  EXPECT_TRUE(BecomesState(decided.name, KafkaTxnState::kCompleteCommit));
  EXPECT_THAT(Committed(), ElementsAre("decided"));

  process_->executor()->Post([&] { cluster_->FencePending(decided.name.transactional_id); });
  EXPECT_TRUE(BecomesState(decided.name, KafkaTxnState::kEmpty));
  EXPECT_GT(Describe(decided.name).producer_epoch, decided.name.producer_epoch);
}

TEST_P(JoinTest, NeverInitialisesALaneOfTheLogThatItsOwnWasRestoredFrom) {
  NewProcess();
  auto branch = NewBranch();
  const txn::PreparedParticipant decided = PrepareYes(*branch, One("decided"));
  branch.reset();
  folder_.log_id = LogId("fedcba9876543210");
  NewProcess({decided.name.transactional_id});
  ASSERT_TRUE(Becomes(ClusterState::kReady));

  using Listing = Result<coordinator::OrphanListing>;
  const auto list = [&] {
    return process_->Ask<Listing>(
        [&](const std::function<void(Listing)>& done) { cluster_->ListOrphans(done); });
  };
  const coordinator::Orphan orphan{decided.name.transactional_id, {}, Describe(decided.name)};
  using Ended = Result<txn::TxnDescription>;
  const auto end = [&] {
    return process_->Ask<Ended>([&](const std::function<void(Ended)>& done) {
      cluster_->EndOrphan(orphan, txn::Direction::kAbort, done);
    });
  };
  // In doubt, it is no orphan, and nobody aborts it by mistake.
  EXPECT_THAT(list()->orphans, IsEmpty());
  EXPECT_EQ(end().error().code, Code::kInvalidArgument);
  process_->executor()->Post([&] { cluster_->FencePending(decided.name.transactional_id); });
  CommitOne("x");
  EXPECT_EQ(Describe(decided.name).state, KafkaTxnState::kOngoing);
  EXPECT_EQ(Describe(decided.name).producer_epoch, decided.name.producer_epoch);
  // Settled here, and open: its own log's, or nobody's.
  EXPECT_EQ(list()->orphans.size(), 1u);
  EXPECT_TRUE(end().ok());
}

TEST_P(JoinTest, RefusesADataFolderThatIsOlderThanWhatTheClusterHolds) {
  NewProcess();
  NewProcess();
  CommitOne("x");
  incarnation_ = 1;  // A restored copy: it counts its starts from where it was.
  NewProcess();
  ASSERT_TRUE(Becomes(ClusterState::kRefused));
  EXPECT_THAT(cluster_->status().problem,
              AllOf(HasSubstr("data folder is older"), HasSubstr("start 2"), HasSubstr("newest")));
  EXPECT_FALSE(PrepareNo(One("y"), AbortReason::kClusterUnavailable).retriable);
  EXPECT_EQ(cluster_->status().lanes_idle + cluster_->status().lanes_renewing, 0);
}

TEST_P(JoinTest, RefusesAnotherKafkaClusterThanTheOneItKnows) {
  folder_.bindings[ClusterName("a")] = KafkaClusterId("some-other-cluster-id");
  NewProcess();
  ASSERT_TRUE(Becomes(ClusterState::kMismatch));
  EXPECT_THAT(cluster_->status().problem,
              AllOf(HasSubstr("some-other-cluster-id"), HasSubstr(broker_.cluster_id())));
  PrepareNo(One("x"), AbortReason::kClusterMismatch);
  txn::ParticipantName name;
  name.kafka_cluster_id = KafkaClusterId(broker_.cluster_id());
  EXPECT_EQ(TryDescribe(name).error().code, Code::kFailedPrecondition);
  // And what it is bound to is not at this address: no request reaches the wrong cluster.
  name.kafka_cluster_id = KafkaClusterId("some-other-cluster-id");
  name.transactional_id = TransactionalId("some-id");
  EXPECT_EQ(TryDescribe(name).error().code, Code::kFailedPrecondition);
}

TEST_P(JoinTest, RefusesOneKafkaClusterUnderTwoNames) {
  NewProcess();
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  ClusterConfig config = Config();
  config.name = ClusterName("b");
  KafkaCluster& second = process_->Add(config);
  EXPECT_TRUE(Eventually([&] { return second.status().state == ClusterState::kRefused; }));
  EXPECT_THAT(second.status().problem,
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr(broker_.cluster_id())));
  EXPECT_TRUE(folder_.bindings.find(ClusterName("b")) == folder_.bindings.end());
  CommitOne("x");
}

TEST_P(JoinTest, RefusesATransactionTimeoutAboveTheBrokers) {
  ClusterConfig config = Config();
  config.transaction_timeout = std::chrono::hours(1);
  NewProcess(config);
  ASSERT_TRUE(Becomes(ClusterState::kRefused));
  EXPECT_THAT(cluster_->status().problem,
              AllOf(HasSubstr("is 1h,"), HasSubstr("transaction.max.timeout.ms is 15m:")));
}

TEST_P(JoinTest, AsksForTheBrokersMaximumByDefault) {
  ClusterConfig config = Config();
  config.transaction_timeout.reset();
  NewProcess(config);
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  EXPECT_EQ(Describe(prepared.name).timeout_ms, 900'000);
  branch->Abort();
  branch->Release();
}

TEST_P(JoinTest, ALaneThatCannotBeOpenedIsTriedAgain) {
  ASSERT_TRUE(ArmFailpoint("lane.before_init@a=error").ok());
  NewProcess();
  ASSERT_TRUE(Eventually([&] { return !cluster_->status().problem.empty(); }));
  EXPECT_EQ(cluster_->status().state, ClusterState::kConnecting);
  DisarmFailpoints();
  CommitOne("x");
  EXPECT_EQ(cluster_->status().problem, "");
}

TEST_P(JoinTest, ADeadClusterDelaysNobody) {
  NewProcess();
  ClusterConfig dead = Config();
  dead.name = ClusterName("dead");
  dead.bootstrap_servers = {"127.0.0.1:1"};
  KafkaCluster& other = process_->Add(dead);
  const auto waiting = process_->NewBranch(other);
  auto vote = waiting->StartPrepare(One("x"), std::chrono::seconds(4));
  CommitOne("x");
  EXPECT_FALSE(waiting->voted());
  const txn::Refusal refusal = vote.get().refusal;
  EXPECT_EQ(refusal.reason, AbortReason::kClusterUnavailable);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("CONNECTING"), HasSubstr("127.0.0.1:1")));
  EXPECT_EQ(other.status().state, ClusterState::kConnecting);
  txn::ParticipantName name;
  EXPECT_EQ(process_
                ->Ask<Result<txn::TxnDescription>>(
                    [&](const std::function<void(Result<txn::TxnDescription>)>& done) {
                      other.Describe(name, done);
                    })
                .error()
                .code,
            Code::kUnavailable);
  waiting->Abort();
  waiting->Release();
}

TEST_P(JoinTest, FenceFailpointsAreReached) {
  NewProcess();
  const auto branch = NewBranch();
  PrepareYes(*branch, One("x"));
  ASSERT_TRUE(ArmFailpoint("fence.before@a=count").ok());
  ASSERT_TRUE(ArmFailpoint("fence.after@a=count").ok());
  NewProcess();
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  for (const auto& [name, hits] : FailpointHits()) EXPECT_EQ(hits, 1u) << name;
}

}  // namespace
}  // namespace lockstep::kafka::testing
