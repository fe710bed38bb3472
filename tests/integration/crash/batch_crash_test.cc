// Transactions of many clients at once, which share batches, over two real clusters. lockstepd is
// killed at each failpoint in the midst of them, and every client asks its key again. Each key has
// one effect on both clusters, or none and its own reason: those that another member spoiled too.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "call_context.h"
#include "clusters.h"
#include "crash_cases.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::CrashCase;
using testing::Direction;
using testing::Lockstepd;

constexpr char kTopic[] = "batched";
constexpr int kClients = 24;
// At which hit of the failpoint: the first batches have one member.
constexpr char kHit[] = "#5";

class BatchCrashTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = new std::vector(testing::StartKafkaClusters(
        {{.topics = {std::string(kTopic) + ":2"}}, {.topics = {std::string(kTopic) + ":2"}}}));
  }
  static void TearDownTestSuite() { delete clusters_; }

  BatchCrashTest()
      : daemon_({.clusters = {{"a", (*clusters_)[0]->bootstrap()},
                              {"b", (*clusters_)[1]->bootstrap()}}}) {
    daemon_.Start();  // Once in peace: log and bindings are made.
    daemon_.AwaitReady();
    daemon_.Kill();
  }

  /// Every fifth key of a client has a record on b for a topic that is not there.
  static bool IsBad(int number) { return number % 5 == 4; }

  static v1::ExecuteRequest Request(const std::string& key, bool bad) {
    v1::ExecuteRequest request = testing::RecordOnBoth(key, kTopic, key);
    if (bad) {
      v1::ProduceWork& on_b = *request.mutable_work(1)->mutable_produce();
      on_b.mutable_records(0)->set_topic("no-such-topic");
    }
    return request;
  }

  /// The key is executed until it has an outcome; across the crash if that comes between.
  void Execute(std::unique_ptr<v1::Coordinator::Stub>& stub, const std::string& key, bool bad) {
    const v1::ExecuteRequest request = Request(key, bad);
    for (;;) {
      v1::ExecuteResponse response;
      CallContext context(30s);
      const grpc::Status status = stub->Execute(&context, request, &response);
      if (status.ok() && response.outcome() != v1::OUTCOME_COMMITTING) {
        return Note(key, bad, response);
      }
      if (status.error_code() == grpc::UNAVAILABLE) stub = Connect();
    }
  }

  void Note(const std::string& key, bool bad, const v1::ExecuteResponse& response) {
    const std::lock_guard lock(mutex_);
    if (response.outcome() == v1::OUTCOME_COMMITTED) {
      EXPECT_FALSE(bad) << key;
      committed_.insert(key);
      return;
    }
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_TRUE(bad) << key << ": " << response.abort().message();
    if (bad) {
      EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_UNKNOWN_TOPIC);
    }
  }

  /// To the start that lives, or is to come.
  std::unique_ptr<v1::Coordinator::Stub> Connect() {
    const std::lock_guard lock(life_);
    return v1::Coordinator::NewStub(
        grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
  }

  /// How often each key's record is on the cluster.
  std::map<std::string, int> Visible(int cluster, const std::string& prefix) const {
    std::map<std::string, int> counts;
    for (const std::string& value :
         testing::ReadValues((*clusters_)[cluster]->bootstrap(), kTopic)) {
      if (value.starts_with(prefix)) ++counts[value];
    }
    return counts;
  }

  void RunCase(const CrashCase& crash);

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
  Lockstepd daemon_;
  std::mutex life_;  // Of daemon_: held between two of them.
  std::atomic<bool> enough_ = false;
  std::mutex mutex_;
  std::set<std::string> committed_;  // Guarded by mutex_.
};

std::vector<std::unique_ptr<testing::KafkaCluster>>* BatchCrashTest::clusters_ = nullptr;

void BatchCrashTest::RunCase(const CrashCase& crash) {
  const std::string prefix = std::string(crash.failpoint) + "/";
  daemon_.Start({std::string(crash.failpoint) + "=crash" + kHit});
  daemon_.AwaitReady();
  enough_ = false;
  committed_.clear();
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([this, client, prefix] {
      auto stub = Connect();
      for (int i = 0; !enough_ || i < 5; ++i) {
        Execute(stub, prefix + std::to_string(client) + "." + std::to_string(i), IsBad(i));
      }
    });
  }
  const bool crashed = AwaitCrash(daemon_);
  EXPECT_TRUE(crashed) << "the failpoint was not reached";
  {
    const std::lock_guard lock(life_);
    daemon_.Kill();
    daemon_.Start();
  }
  enough_ = true;
  for (std::thread& client : clients) client.join();
  daemon_.AwaitNothingInDoubt();
  std::map<std::string, int> once;
  for (const std::string& key : committed_) once[key] = 1;
  for (const int cluster : {0, 1}) {
    // A spoiled batch's abort, on its way still, holds readers up.
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    std::map<std::string, int> visible;
    do {
      visible = Visible(cluster, prefix);
    } while (visible != once && std::chrono::steady_clock::now() < give_up);
    EXPECT_EQ(visible, once) << "on cluster " << cluster;
  }
  EXPECT_GE(committed_.size(), static_cast<std::size_t>(4 * kClients));
  daemon_.Kill();
}

TEST_F(BatchCrashTest, EachMemberHasOneEffectWhereverItCrashes) {
  for (const CrashCase& crash : testing::AllCrashCases()) {
    // Recovery of a batch is that of any decision; aborts are the bad keys' here.
    if (crash.in_recovery || crash.direction == Direction::kAbort) continue;
    SCOPED_TRACE(ToString(crash));
    const auto start = std::chrono::steady_clock::now();
    RunCase(crash);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-42s %4.1f s, %zu committed\n", ToString(crash).c_str(), took.count(),
                committed_.size());
    std::fflush(stdout);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep
