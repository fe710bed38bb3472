#include "server/monitor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <future>
#include <limits>
#include <sstream>
#include <thread>

#include "api_fixture.h"
#include "http_get.h"
#include "server/metrics.h"

namespace lockstep::server {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::StartsWith;

const ListenAddress kAnyPort{"127.0.0.1", 0};

class MonitorTest : public ApiFixture {
 protected:
  MonitorTest() : monitor_(*Monitor::Listen(kAnyPort, clock_)) {}
  ~MonitorTest() override {
    StopServer();
    watch_.reset();
  }

  void ServeWatched() {
    Serve();
    watch_.emplace(*monitor_, daemon_->api());
  }
  HttpAnswer Ask(const std::string& path) { return HttpGet(monitor_->port(), path); }
  std::map<std::string, double> Metrics() { return ParseMetrics(Ask("/metrics").body); }
  double Metric(const std::string& name) {
    const auto all = Metrics();
    EXPECT_THAT(all, Contains(Key(name)));
    return all.contains(name) ? all.at(name) : -1;
  }
  /// What comes with the end of something that the client was told before.
  void AwaitMetric(const std::string& name, double value) {
    while (Metric(name) != value) std::this_thread::yield();
  }
  void AwaitReady(int status) {
    while (Ask("/readyz").status != status) std::this_thread::yield();
  }
  std::string CommitOne() {
    const std::string id = BeginWithWork();
    v1::CommitResponse response;
    EXPECT_TRUE(Commit(id, &response).ok());
    return id;
  }

  static txn::Decision DecidedAgo(std::chrono::milliseconds age, const std::string& cluster) {
    txn::Decision decision;
    decision.batch = BatchId(1);
    decision.decided_at = WallTime{SystemClock().WallNow().ms - age.count()};
    decision.members = {GlobalTxnId("0123456789abcdef-1-1-1")};
    decision.participants.resize(1);
    decision.participants[0].prepared.name.cluster = ClusterName(cluster);
    return decision;
  }

  std::unique_ptr<Monitor> monitor_;
  std::optional<Monitor::Watch> watch_;
};

TEST_F(MonitorTest, IsAliveButNotReadyWhileTheLogIsOpened) {
  EXPECT_EQ(Ask("/livez").status, 200);
  const HttpAnswer ready = Ask("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("the decision log is being opened"));
  EXPECT_EQ(Metric("lockstep_ready"), 0);
  EXPECT_GT(Metric("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(Metric("process_open_fds"), 3);
  EXPECT_NEAR(Metric("process_start_time_seconds"), static_cast<double>(clock_.WallNow().ms) / 1000,
              600);
}

TEST_F(MonitorTest, IsReadyFromServingToDraining) {
  StartServer();
  watch_.emplace(*monitor_, daemon_->api());
  EXPECT_EQ(Ask("/readyz").body, "not ready: starting\n");
  ASSERT_TRUE(daemon_->Serve().ok());
  EXPECT_EQ(Ask("/readyz").status, 200);
  EXPECT_EQ(Metric("lockstep_ready"), 1);
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, {}, &drained).ok());
  EXPECT_EQ(Ask("/readyz").body, "not ready: drained by an operator: no new transactions\n");
  EXPECT_EQ(Metric("lockstep_draining"), 1);
  EXPECT_EQ(Ask("/livez").status, 200);
  v1::UndrainResponse undrained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Undrain, {}, &undrained).ok());
  EXPECT_EQ(Ask("/readyz").status, 200);
}

TEST_F(MonitorTest, IsNotReadyBeforeWhatWasInDoubtIsSettled) {
  east_.Set({.commits = false});
  log_.Recover(DecidedAgo(std::chrono::seconds(90), "east"));
  ServeWatched();
  EXPECT_EQ(Ask("/readyz").body,
            "not ready: recovering: 1 of 1 decisions found in doubt are not settled\n");
  EXPECT_EQ(Metric("lockstep_recovery_decisions"), 1);
  EXPECT_EQ(Metric("lockstep_recovery_pending_decisions"), 1);
  EXPECT_EQ(Metric("lockstep_in_doubt_branches{cluster=\"east\"}"), 1);
  EXPECT_EQ(Metric("lockstep_in_doubt_branches{cluster=\"west\"}"), 0);
  EXPECT_NEAR(Metric("lockstep_in_doubt_oldest_age_seconds{cluster=\"east\"}"), 100, 10);
  EXPECT_EQ(Metric("lockstep_in_doubt_oldest_age_seconds{cluster=\"west\"}"), 0);
  east_.Set({});
  AwaitReady(200);
  EXPECT_EQ(Metric("lockstep_recovery_pending_decisions"), 0);
  EXPECT_EQ(Metric("lockstep_in_doubt_transactions"), 0);
  const double took = Metric("lockstep_recovery_seconds");
  EXPECT_GT(took, 0);
  EXPECT_EQ(Metric("lockstep_recovery_seconds"), took) << "it goes on counting";
  // Nothing is told of times that another process may have seen.
  EXPECT_EQ(Metric("lockstep_commit_seconds_count"), 0);
  EXPECT_EQ(Metric("lockstep_visibility_skew_seconds_count"), 0);
}

TEST_F(MonitorTest, CountsOutcomesByReason) {
  ServeWatched();
  CommitOne();
  CommitOne();
  v1::AbortResponse aborted;
  ASSERT_TRUE(Abort(BeginWithWork(), &aborted).ok());
  west_.Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("west"), "no topic", false}});
  CommitOne();
  const auto ended = [&](const std::string& outcome, const std::string& reason) {
    return Metric("lockstep_transactions_ended_total{outcome=\"" + outcome + "\",reason=\"" +
                  reason + "\"}");
  };
  EXPECT_EQ(ended("COMMITTED", "NONE"), 2);
  EXPECT_EQ(ended("ABORTED", "CLIENT_ABORT"), 1);
  EXPECT_EQ(ended("ABORTED", "UNKNOWN_TOPIC"), 1);
  EXPECT_EQ(ended("ABORTED", "INTERNAL"), 0);
  EXPECT_EQ(Metric("lockstep_transactions_begun_total"), 4);
  EXPECT_EQ(Metric("lockstep_open_transactions"), 0);
}

TEST_F(MonitorTest, MeasuresWhereTheTimeOfACommitGoes) {
  constexpr auto kVote = std::chrono::milliseconds(40);
  east_.Set({.vote_delay = kVote});
  ServeWatched();
  CommitOne();
  AwaitMetric("lockstep_commit_phase_seconds_count{phase=\"complete\"}", 1);
  for (const char* phase : {"line", "prepare", "log"}) {
    const std::string labels = std::string("{phase=\"") + phase + "\"}";
    EXPECT_EQ(Metric("lockstep_commit_phase_seconds_count" + labels), 1) << phase;
  }
  const double prepare = Metric("lockstep_commit_phase_seconds_sum{phase=\"prepare\"}");
  EXPECT_GE(prepare, 0.04);
  EXPECT_GE(Metric("lockstep_participant_seconds_sum{cluster=\"east\",step=\"prepare\"}"), 0.04);
  EXPECT_LT(Metric("lockstep_participant_seconds_sum{cluster=\"west\",step=\"prepare\"}"), prepare);
  EXPECT_EQ(Metric("lockstep_participant_seconds_count{cluster=\"west\",step=\"end\"}"), 1);
  EXPECT_EQ(Metric("lockstep_participant_seconds_count{cluster=\"west\",step=\"markers\"}"), 1);
  EXPECT_EQ(Metric("lockstep_visibility_skew_seconds_count"), 1);
  EXPECT_EQ(Metric("lockstep_batch_transactions_bucket{le=\"1\"}"), 1);
  EXPECT_GE(Metric("lockstep_commit_seconds_sum"), prepare);
  EXPECT_EQ(Metric("lockstep_commit_seconds_bucket{le=\"0.025\"}"), 0);
  EXPECT_EQ(Metric("lockstep_commit_seconds_bucket{le=\"+Inf\"}"), 1);
}

TEST_F(MonitorTest, TellsWhatIsBufferedWaitsAndHangs) {
  ServeWatched();
  east_.HoldVotes(true);
  const std::string first = BeginWithWork();
  EXPECT_GT(Metric("lockstep_buffer_bytes"), 2);
  std::promise<void> committed;
  const auto commit = [&](const std::string& id) {
    return std::async(std::launch::async, [this, id] {
      v1::CommitResponse response;
      return Commit(id, &response).ok();
    });
  };
  auto one = commit(first);
  AwaitMetric("lockstep_batches", 1);
  auto two = commit(BeginWithWork());
  AwaitMetric("lockstep_waiting_transactions", 1);
  EXPECT_EQ(Metric("lockstep_open_transactions"), 2);
  EXPECT_GE(Metric("lockstep_calls"), 2);
  west_.Set({.missing_markers = {{"orders", 0}, {"orders", 1}}});
  east_.HoldVotes(false);
  east_.LetHeldVotes();
  AwaitMetric("lockstep_missing_marker_partitions{cluster=\"west\"}", 4);
  EXPECT_EQ(Metric("lockstep_in_doubt_transactions"), 2);
  west_.Set({});
  EXPECT_TRUE(one.get() && two.get());
  EXPECT_EQ(Metric("lockstep_missing_marker_partitions{cluster=\"west\"}"), 0);
}

TEST_F(MonitorTest, AHeuristicOneCountsUntilItIsAcknowledged) {
  west_.Set({.aborted_it = true});
  ServeWatched();
  const std::string id = CommitOne();
  EXPECT_EQ(Metric("lockstep_heuristic_transactions"), 1);
  EXPECT_EQ(Metric("lockstep_transactions_ended_total{outcome=\"HEURISTIC\",reason=\"NONE\"}"), 1);
  v1::AcknowledgeHeuristicRequest request;
  request.set_txn_id(id);
  v1::AcknowledgeHeuristicResponse response;
  ASSERT_TRUE(Call(*admin_, &AdminStub::AcknowledgeHeuristic, request, &response).ok());
  EXPECT_EQ(Metric("lockstep_heuristic_transactions"), 0);
}

TEST_F(MonitorTest, CountsRefusedCallsByReason) {
  ServeWatched();
  EXPECT_FALSE(Produce("not-an-id", "east", 0).ok());
  EXPECT_FALSE(Produce(Begin(), "nowhere", 0).ok());
  EXPECT_EQ(Metric("lockstep_refused_calls_total{reason=\"INVALID_REQUEST\"}"), 1);
  EXPECT_EQ(Metric("lockstep_refused_calls_total{reason=\"UNKNOWN_CLUSTER\"}"), 1);
  EXPECT_EQ(Metric("lockstep_refused_calls_total{reason=\"LIMIT_REACHED\"}"), 0);
}

TEST_F(MonitorTest, TellsTheStateOfEachCluster) {
  west_.Set({.state = coordinator::ClusterState::kUnreachable});
  ServeWatched();
  EXPECT_EQ(Metric("lockstep_cluster_state{cluster=\"east\",state=\"READY\"}"), 1);
  EXPECT_EQ(Metric("lockstep_cluster_state{cluster=\"west\",state=\"READY\"}"), 0);
  EXPECT_EQ(Metric("lockstep_cluster_state{cluster=\"west\",state=\"UNREACHABLE\"}"), 1);
}

TEST_F(MonitorTest, EveryMetricIsToldAndDocumented) {
  ServeWatched();
  const std::string page = Ask("/metrics").body;
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/metrics.md");
  std::ostringstream docs;
  docs << file.rdbuf();
  for (const MetricInfo& metric : AllMetrics()) {
    const std::string name(metric.name);
    EXPECT_THAT(page, HasSubstr("# TYPE " + name + " " + std::string(Name(metric.kind)) + "\n"));
    const std::string labels(metric.labels);
    EXPECT_THAT(docs.str(), HasSubstr("| `" + name + "` | " + std::string(Name(metric.kind)) +
                                      " | " + labels + " | " + std::string(metric.help) + " |\n"));
  }
}

TEST_F(MonitorTest, RefusesWhatItDoesNotServe) {
  EXPECT_EQ(Ask("/nowhere").status, 404);
  EXPECT_EQ(HttpAsk(monitor_->port(), "POST", "/metrics").status, 405);
  const HttpAnswer head = HttpAsk(monitor_->port(), "HEAD", "/livez");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_THAT(head.head, HasSubstr("Content-Length: 6"));
  EXPECT_EQ(Ask("/" + std::string(20'000, 'x')).status, 0);
  EXPECT_EQ(Ask("/livez?verbose").status, 200);
}

TEST_F(MonitorTest, SilentConnectionsCostOthersNothing) {
  boost::asio::io_context io;
  std::vector<boost::asio::ip::tcp::socket> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(io).connect({boost::asio::ip::address_v4::loopback(), monitor_->port()});
  }
  EXPECT_EQ(Ask("/livez").status, 200);
}

TEST_F(MonitorTest, IsNotAliveWhileTheCoordinatorHangs) {
  ServeWatched();
  std::promise<void> go_on;
  executor_.Post([&] { go_on.get_future().wait(); });
  const HttpAnswer answer = Ask("/livez");
  EXPECT_EQ(answer.status, 503);
  go_on.set_value();
  EXPECT_EQ(Ask("/livez").status, 200);
}

TEST_F(MonitorTest, NamesWhatItCannotListenOn) {
  const auto second = Monitor::Listen({"127.0.0.1", monitor_->port()}, clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, StartsWith("cannot listen on 127.0.0.1:"));
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST_F(MonitorTest, FiftyClustersTakeLessThanFiftyMilliseconds) {
  std::vector<std::unique_ptr<FakeCluster>> clusters;
  ServeWatched();
  for (int i = 0; i < 48; ++i) {
    clusters.push_back(std::make_unique<FakeCluster>("cluster-" + std::to_string(i), executor_));
    daemon_->AddCluster(clusters.back().get());
  }
  CommitOne();
  // Processor time, ours as the reader included: others may be on the machine.
  auto best = std::numeric_limits<std::clock_t>::max();
  std::size_t bytes = 0;
  for (int i = 0; i < 10; ++i) {
    const std::clock_t start = std::clock();
    bytes = Ask("/metrics").body.size();
    best = std::min(best, std::clock() - start);
  }
  EXPECT_GT(Metric("lockstep_lanes{cluster=\"cluster-47\",state=\"IDLE\"}"), -1);
  RecordProperty("bytes", static_cast<int>(bytes));
  const double milliseconds = 1000.0 * static_cast<double>(best) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds", std::to_string(milliseconds));
  EXPECT_LT(milliseconds, 50) << bytes << " bytes";
  StopServer();
}

}  // namespace
}  // namespace lockstep::server
