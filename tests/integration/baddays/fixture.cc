#include "fixture.h"

namespace lockstep {
namespace {

using Clusters = std::vector<std::unique_ptr<testing::KafkaCluster>>;

/// Started by the first test, stopped after the last.
class SharedClusters : public ::testing::Environment {
 public:
  void SetUp() override {
    testing::KafkaClusterOptions two_nodes;
    two_nodes.nodes = 2;
    two_nodes.coordinators_on = 1;
    clusters_ = testing::StartKafkaClusters({{}, two_nodes});
  }
  void TearDown() override { clusters_.clear(); }
  testing::KafkaCluster& at(std::size_t i) { return *clusters_.at(i); }

 private:
  Clusters clusters_;
};

auto* const g_clusters = static_cast<SharedClusters*>(
    ::testing::AddGlobalTestEnvironment(std::make_unique<SharedClusters>().release()));

}  // namespace

testing::KafkaCluster& BadDaysTest::A() { return g_clusters->at(0); }
testing::KafkaCluster& BadDaysTest::B() { return g_clusters->at(1); }

testing::Lockstepd::Options BadDaysTest::BothClusters() {
  testing::Lockstepd::Options options;
  options.clusters = {{"a", A().bootstrap()}, {"b", B().bootstrap()}};
  return options;
}

std::string BadDaysTest::NewTopic() {
  std::string topic = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  A().CreateTopic(topic + ":2");
  B().CreateTopic(topic + ":2@1");
  return topic;
}

testing::Ran BadDaysTest::Ctl(const testing::Lockstepd& daemon, std::vector<std::string> words) {
  words.insert(words.begin(), {LOCKSTEPCTL_BINARY, "--server", daemon.address()});
  return testing::RunProgram(words);
}

std::string BadDaysTest::CrashDecided(testing::Lockstepd& daemon, const std::string& topic,
                                      const std::string& not_on, const std::string& value) {
  daemon.Start({"lane.before_commit@" + not_on + "=crash"});
  daemon.AwaitReady();
  testing::TestTxn txn(daemon.coordinator());
  EXPECT_TRUE(txn.Produce("a", topic, value).ok());
  EXPECT_TRUE(txn.Produce("b", topic, value).ok());
  v1::CommitResponse response;
  EXPECT_FALSE(txn.Commit(&response).ok());
  EXPECT_TRUE(daemon.AwaitEnd(std::chrono::seconds(20)).has_value());
  return txn.id();
}

std::vector<std::string> BadDaysTest::OnA(const std::string& topic) {
  return testing::ReadValues(A().bootstrap(), topic);
}
std::vector<std::string> BadDaysTest::OnB(const std::string& topic) {
  return testing::ReadValues(B().bootstrap(), topic);
}

}  // namespace lockstep
