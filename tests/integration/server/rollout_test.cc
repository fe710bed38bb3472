// What a rollout of the StatefulSet does (deploy/kubernetes), simulated by processes, under load
// over two real clusters: drain, SIGTERM, and a start on the same folder, again and again. Nothing
// that was begun is lost by it, and nothing stays in doubt.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "clusters.h"
#include "ctl.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "steady_clients.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr char kTopic[] = "load";
constexpr int kClients = 4;
constexpr int kRollouts = 5;

/// Transactions one after another, whoever serves at the moment.
class Load {
 public:
  explicit Load(testing::Lockstepd& daemon)
      : clients_(daemon, kClients, [this, &daemon](const std::string& value, int /*n*/) {
          testing::TestTxn txn(daemon.coordinator());
          Work(txn, value);
        }) {}

  void Finish() { clients_.Finish(); }
  void Restart() { clients_.Restart(); }
  int committed() const { return committed_; }

  struct Ended {
    std::set<std::string> committed;
    std::set<std::string> aborted;
    std::map<std::string, std::string> unanswered;  ///< By value: the error.
  };
  /// After Finish.
  const Ended& ended() const { return ended_; }

 private:
  void Work(testing::TestTxn& txn, const std::string& value) {
    v1::CommitResponse response;
    grpc::Status status = txn.Produce("a", kTopic, value);
    if (status.ok()) status = txn.Produce("b", kTopic, value);
    if (status.ok()) status = txn.Commit(&response);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      ended_.unanswered[value] = status.error_message();
    } else if (response.outcome() == v1::OUTCOME_COMMITTED) {
      ended_.committed.insert(value);
      ++committed_;
    } else if (response.outcome() == v1::OUTCOME_ABORTED) {
      ended_.aborted.insert(value);
    } else {
      ended_.unanswered[value] = v1::Outcome_Name(response.outcome());
    }
  }

  std::mutex mutex_;
  Ended ended_;  // Guarded by mutex_.
  std::atomic<int> committed_{0};
  testing::SteadyClients clients_;  // Last: they use the others.
};

class RolloutTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = testing::StartKafkaClusters({{.kafka = "3.9.1"}, {.kafka = "3.9.1"}});
  }
  static void TearDownTestSuite() { clusters_.clear(); }

  RolloutTest() {
    for (const auto& cluster : clusters_) cluster->CreateTopic(kTopic);
    daemon_.Start();
    daemon_.AwaitReady();
  }
  ~RolloutTest() override {
    for (const auto& cluster : clusters_) {
      cluster->Tool("org.apache.kafka.tools.TopicCommand",
                    {"--bootstrap-server", "{bootstrap}", "--delete", "--topic", kTopic});
    }
  }

  /// Under load, `end` the server and start it again, a few times.
  Load::Ended RollOut(const std::function<void()>& end) {
    Load load(daemon_);
    for (int i = 0; i < kRollouts; ++i) {
      const int before = load.committed();
      daemon_.Await("load", 60s, [&] { return load.committed() > before + kClients; });
      end();
      load.Restart();
      daemon_.AwaitReady();
      daemon_.AwaitNothingInDoubt(5s);
    }
    load.Finish();
    return load.ended();
  }

  static std::set<std::string> Seen(int cluster) {
    std::set<std::string> seen;
    for (std::string& value : testing::ReadValues(clusters_[cluster]->bootstrap(), kTopic)) {
      EXPECT_TRUE(seen.insert(value).second) << "doubled: " << value;
    }
    return seen;
  }

  static std::vector<std::unique_ptr<testing::KafkaCluster>> clusters_;
  testing::Lockstepd daemon_{
      {.clusters = {{"a", clusters_[0]->bootstrap()}, {"b", clusters_[1]->bootstrap()}}}};
};

std::vector<std::unique_ptr<testing::KafkaCluster>> RolloutTest::clusters_;

TEST_F(RolloutTest, WhatIsOpenEndsBeforeAServerThatIsDrainedDoes) {
  const Load::Ended ended = RollOut([&] {
    const auto drained = testing::RunCtl({"--server", daemon_.address(), "drain", "--wait"});
    ASSERT_EQ(drained.exit_code, 0) << drained.err;
    ASSERT_EQ(daemon_.Stop(), 0);
  });
  for (const auto& [value, error] : ended.unanswered) ADD_FAILURE() << value << ": " << error;
  EXPECT_TRUE(ended.aborted.empty())
      << ended.aborted.size() << " aborted, such as " << *ended.aborted.begin();
  EXPECT_EQ(Seen(0), ended.committed);
  EXPECT_EQ(Seen(1), ended.committed);
}

TEST_F(RolloutTest, WithoutADrainOnlyWhatIsUndecidedAborts) {
  const Load::Ended ended = RollOut([&] { ASSERT_EQ(daemon_.Stop(), 0); });
  const std::set<std::string> on_a = Seen(0);
  EXPECT_EQ(on_a, Seen(1)) << "TORN";
  for (const std::string& value : ended.committed) {
    EXPECT_TRUE(on_a.contains(value)) << value << " was COMMITTED";
  }
  for (const std::string& value : ended.aborted) {
    EXPECT_FALSE(on_a.contains(value)) << value << " was ABORTED";
  }
}

}  // namespace
}  // namespace lockstep
