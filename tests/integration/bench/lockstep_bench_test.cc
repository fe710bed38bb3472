#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "fake_cluster.h"
#include "lockstepd.h"

namespace lockstep::bench {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// lockstepd on two fake clusters, which can be looked at once nobody talks to them.
class LockstepBenchTest : public ::testing::Test {
 protected:
  LockstepBenchTest() {
    daemon_.Start();
    daemon_.AwaitReady();
  }
  ~LockstepBenchTest() override {
    io_.stop();
    broker_.join();
  }

  testing::Ran Run(std::vector<std::string> more) {
    std::vector<std::string> words = {LOCKSTEP_BENCH_BINARY,
                                      "--server",
                                      daemon_.address(),
                                      "--cluster",
                                      "a=" + a_.bootstrap(),
                                      "--cluster",
                                      "b=" + b_.bootstrap(),
                                      "--pid",
                                      "lockstepd=" + std::to_string(daemon_.pid()),
                                      "--json",
                                      File()};
    words.insert(words.end(), more.begin(), more.end());
    return testing::RunProgram(words);
  }
  std::string File() const { return daemon_.folder() + "/report.json"; }
  json Report() const { return json::parse(std::ifstream(File())); }

  boost::asio::io_context io_{1};
  FakeCluster a_{io_, 2};
  FakeCluster b_{io_, 2};
  std::thread broker_{[this] { io_.run(); }};
  testing::Lockstepd daemon_{{.clusters = {{"a", a_.bootstrap()}, {"b", b_.bootstrap()}}}};
};

TEST_F(LockstepBenchTest, EveryModeCommitsWhatItIsToldTo) {
  const std::vector<std::string> modes = {"plain",    "managed",     "execute", "stream",
                                          "enlisted", "plain-large", "large",   "call"};
  std::string list;
  for (const std::string& mode : modes) list += (list.empty() ? "" : ",") + mode;
  const auto ran =
      Run({"--modes", list, "--count", "20", "--rounds", "2", "--warmup", "0", "--partitions", "2",
           "--records", "3", "--large-records", "5000", "--threads", "2", "--clients", "4"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out;
  const json report = Report();
  EXPECT_EQ(report["schema"], 1);
  for (const std::string& mode : modes) {
    SCOPED_TRACE(mode);
    ASSERT_EQ(report["rounds"][mode].size(), 2u);
    for (const json& round : report["rounds"][mode]) {
      EXPECT_EQ(round["committed"], 20);
      EXPECT_FALSE(round.contains("failed"));
      EXPECT_GT(round["transactions_per_second"], 0);
      EXPECT_GT(round["latency_us"]["p50"], 0);
      EXPECT_GE(round["latency_us"]["max"], round["latency_us"]["p99"]);
    }
    EXPECT_THAT(ran.out, HasSubstr("\n" + mode + "\n"));
  }
  for (const char* mode : {"managed", "execute", "stream", "enlisted"}) {
    SCOPED_TRACE(mode);
    EXPECT_TRUE(report["ratios"][mode].contains("transactions_per_second"));
    const json& round = report["rounds"][mode][0];
    EXPECT_GT(round["syncs"], 0);
    EXPECT_GT(round["kafka_requests"], 0);
    EXPECT_TRUE(round["cpu_us"].contains("lockstepd"));
    EXPECT_GT(round["rss_mib"]["lockstepd"], 1);
  }
  // AddPartitionsToTxn, Produce, EndTxn on each cluster at least.
  EXPECT_GE(report["rounds"]["plain"][0]["kafka_requests"], 6);
  // 2 rounds of 20 transactions: five modes with 3 records a cluster, two with 5000.
  EXPECT_EQ(a_.committed_records(), 2 * 20 * (5 * 3 + 2 * 5000));
  EXPECT_EQ(b_.committed_records(), a_.committed_records());
}

TEST_F(LockstepBenchTest, AnOpenLoopKeepsItsRate) {
  const auto ran = Run({"--modes", "plain,execute,stream", "--rate", "50", "--seconds", "1",
                        "--rounds", "1", "--warmup", "0.1"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out;
  const json report = Report();
  for (const char* mode : {"plain", "execute", "stream"}) {
    EXPECT_EQ(report["rounds"][mode][0]["committed"], 50) << mode;
    EXPECT_GE(report["rounds"][mode][0]["seconds"], 0.95) << mode;
  }
}

TEST_F(LockstepBenchTest, TellsTheMemoryOfOpenTransactions) {
  const auto ran = Run({"--modes", "call", "--count", "1", "--rounds", "1", "--warmup", "0",
                        "--open", "500", "--bytes", "10000", "--settle", "0.5"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out;
  const json open = Report()["open_transactions"];
  EXPECT_EQ(open["count"], 500);
  EXPECT_GT(open["rss_mib"]["open"]["lockstepd"],
            open["rss_mib"]["before"]["lockstepd"].get<double>() + 4);
  EXPECT_TRUE(open["rss_mib"]["after"].contains("lockstepd"));
}

TEST_F(LockstepBenchTest, FailuresAreToldAndFailTheRun) {
  // More than lockstepd takes in one record.
  const auto ran = Run({"--modes", "call,execute", "--bytes", "33554432", "--clients", "1",
                        "--count", "1", "--rounds", "1", "--warmup", "0", "--timeout", "3"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, HasSubstr("FAILED"));
  EXPECT_EQ(Report()["rounds"]["execute"][0]["failed"], 1);
}

TEST_F(LockstepBenchTest, AClusterThatLockstepdDoesNotKnowIsNamed) {
  const auto ran = Run({"--cluster", "c=127.0.0.1:1"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, HasSubstr("lockstepd has no cluster 'c'"));
}

}  // namespace
}  // namespace lockstep::bench
