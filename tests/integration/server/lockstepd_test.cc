// lockstepd and lockstepctl as a user runs them, on two real clusters: one transaction over both,
// its bad days, and how the process starts and ends.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <sstream>

#include "call_context.h"
#include "clusters.h"
#include "ctl.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Lockstepd;

class LockstepdTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = new std::vector(testing::StartKafkaClusters({{}, {}}));
  }
  static void TearDownTestSuite() { delete clusters_; }

  static const std::string& Bootstrap(int cluster) { return (*clusters_)[cluster]->bootstrap(); }

  /// A topic of the running test's own, on both clusters.
  static std::string NewTopic() {
    std::string topic = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const auto& cluster : *clusters_) cluster->CreateTopic(topic + ":2");
    return topic;
  }

  static Lockstepd::Options BothClusters() {
    Lockstepd::Options options;
    options.clusters = {{"a", Bootstrap(0)}, {"b", Bootstrap(1)}};
    return options;
  }

  /// Log made, bindings made, lanes open.
  static void StartReady(Lockstepd& daemon, const std::vector<std::string>& failpoints = {}) {
    daemon.Start(failpoints);
    daemon.AwaitReady();
  }

  using Ran = testing::CtlRan;
  static Ran Ctl(const Lockstepd& daemon, std::vector<std::string> words) {
    words.insert(words.begin(), {"--server", daemon.address()});
    return testing::RunCtl(std::move(words));
  }

  /// lockstepd itself, until it ends by itself.
  static testing::Ran RunBinary(std::vector<std::string> words) {
    words.insert(words.begin(), LOCKSTEPD_BINARY);
    return testing::RunProgram(words);
  }

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
};
std::vector<std::unique_ptr<testing::KafkaCluster>>* LockstepdTest::clusters_ = nullptr;

// ---- Transactions -------------------------------------------------------------------------------

TEST_F(LockstepdTest, OneTransactionIsOnBothClustersOrOnNone) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon);
  EXPECT_EQ(Ctl(daemon, {"txn", "--record", "a:" + topic + "=kept", "--record",
                         "b:" + topic + ":1:key=kept"})
                .exit_code,
            0);
  EXPECT_EQ(Ctl(daemon, {"txn", "--abort", "--record", "a:" + topic + "=dropped", "--record",
                         "b:" + topic + "=dropped"})
                .exit_code,
            0);
  const Ran refused = Ctl(daemon, {"txn", "--record", "a:" + topic + "=dropped", "--record",
                                   "b:no-such-topic=dropped"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.out, HasSubstr("UNKNOWN_TOPIC on b"));
  const Ran no_partition = Ctl(daemon, {"txn", "--record", "a:" + topic + "=dropped", "--record",
                                        "b:" + topic + ":7=dropped"});
  EXPECT_EQ(no_partition.exit_code, 2);
  EXPECT_THAT(no_partition.out, HasSubstr("UNKNOWN_PARTITION on b"));
  EXPECT_THAT(testing::ReadValues(Bootstrap(0), topic), ElementsAre("kept"));
  const auto on_b = testing::ReadTopic(Bootstrap(1), topic);
  ASSERT_EQ(on_b.size(), 1u);
  EXPECT_EQ(on_b[0].partition, 1);
  EXPECT_EQ(on_b[0].key, "key");
  EXPECT_EQ(daemon.Stop(), 0);
}

TEST_F(LockstepdTest, ACrashBetweenTheTwoCommitsIsHealedByTheNextStart) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon, {"lane.before_commit@b=crash"});
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "value").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "value").ok());
  const Ran cut_off = Ctl(daemon, {"commit", txn.id()});
  EXPECT_EQ(cut_off.exit_code, 4);
  EXPECT_THAT(cut_off.err, HasSubstr("ask again"));
  ASSERT_TRUE(daemon.AwaitEnd(20s).has_value());

  const Ran dump = Ctl(daemon, {"log", "dump", daemon.data_dir()});
  EXPECT_EQ(dump.exit_code, 0);
  EXPECT_THAT(dump.out, HasSubstr(txn.id()));

  daemon.Start();
  // Asked at once, while b may still be joining: the answer is the decision's, whatever it takes.
  const Ran again = Ctl(daemon, {"commit", txn.id()});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(testing::ReadValues(Bootstrap(0), topic), ElementsAre("value"));
  EXPECT_THAT(testing::ReadValues(Bootstrap(1), topic), ElementsAre("value"));
}

TEST_F(LockstepdTest, AnUndecidedTransactionIsAbortedByACrash) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon, {"coordinator.votes_in=crash"});
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "value").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "value").ok());
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 4);
  ASSERT_TRUE(daemon.AwaitEnd(20s).has_value());
  StartReady(daemon);
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 2);
  // A transaction after it, so that the end of the topic is not held back by anything.
  EXPECT_EQ(
      Ctl(daemon, {"txn", "--record", "a:" + topic + "=next", "--record", "b:" + topic + "=next"})
          .exit_code,
      0);
  EXPECT_THAT(testing::ReadValues(Bootstrap(0), topic), ElementsAre("next"));
  EXPECT_THAT(testing::ReadValues(Bootstrap(1), topic), ElementsAre("next"));
}

TEST_F(LockstepdTest, ALargeTransactionIsWrittenBeforeCommitAndNotSeenBefore) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon);
  const std::string value(400'000, 'x');
  const auto write = [&](testing::TestTxn& txn) {
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(txn.Produce(i % 2 == 0 ? "a" : "b", topic, std::to_string(i) + value, 0).ok());
    }
  };
  testing::TestTxn killed(daemon.coordinator());
  write(killed);
  daemon.Kill();
  StartReady(daemon);
  EXPECT_EQ(testing::GetTxn(daemon.coordinator(), killed.id()).state(), v1::TXN_STATE_ABORTED);

  testing::TestTxn txn(daemon.coordinator());
  write(txn);
  EXPECT_EQ(testing::GetTxn(daemon.coordinator(), txn.id()).state(), v1::TXN_STATE_ACTIVE);
  // It is on the broker, open, behind what is left of the one before.
  EXPECT_THAT(testing::ReadValues(Bootstrap(0), topic, testing::Open::kStopAtThem), IsEmpty());
  v1::CommitResponse committed;
  ASSERT_TRUE(txn.Commit(&committed).ok());
  EXPECT_EQ(committed.outcome(), v1::OUTCOME_COMMITTED);
  for (const int cluster : {0, 1}) {
    const auto values = testing::ReadValues(Bootstrap(cluster), topic);
    ASSERT_EQ(values.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(values[i], std::to_string(2 * i + cluster) + value);
    }
  }
}

TEST_F(LockstepdTest, ALargeTransactionThatIsWrongAbortsAsItIsSent) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon);
  testing::TestTxn txn(daemon.coordinator());
  const std::string value(400'000, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(txn.Produce("a", topic, value).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(txn.Produce("a", "no-such-topic", value).ok());
  daemon.Await("abort", 10s, [&] {
    return testing::GetTxn(daemon.coordinator(), txn.id()).state() == v1::TXN_STATE_ABORTED;
  });
  EXPECT_EQ(txn.Produce("a", topic, value).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  v1::CommitResponse answer;
  ASSERT_TRUE(txn.Commit(&answer).ok());
  EXPECT_EQ(answer.outcome(), v1::OUTCOME_ABORTED);
  EXPECT_EQ(answer.abort().reason(), v1::ABORT_REASON_UNKNOWN_TOPIC);
}

// ---- Watches ------------------------------------------------------------------------------------

struct Watched {
  std::vector<v1::WatchTxnResponse> seen;
  grpc::Status status;
};

/// Follows a transaction until the server ends the stream; `each` is called between two messages.
Watched Watch(Lockstepd& daemon, const std::string& id, const std::string& resume_token,
              const std::function<void(const v1::WatchTxnResponse&)>& each) {
  CallContext context(60s);
  v1::WatchTxnRequest request;
  request.set_txn_id(id);
  request.set_resume_token(resume_token);
  const auto stream = daemon.coordinator().WatchTxn(&context, request);
  Watched watched;
  for (v1::WatchTxnResponse response; stream->Read(&response);) {
    watched.seen.push_back(response);
    each(response);
  }
  watched.status = stream->Finish();
  return watched;
}

TEST_F(LockstepdTest, AWatchGoesOnAfterACrashWithASnapshot) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon, {"lane.before_commit@b=crash"});
  testing::TestTxn undecided(daemon.coordinator());
  ASSERT_TRUE(undecided.Produce("a", topic, "undecided").ok());
  testing::TestTxn decided(daemon.coordinator());
  ASSERT_TRUE(decided.Produce("a", topic, "decided").ok());
  ASSERT_TRUE(decided.Produce("b", topic, "decided").ok());
  std::future<grpc::Status> commit;
  v1::CommitResponse committed;
  const Watched before = Watch(daemon, decided.id(), "", [&](const auto& response) {
    if (!response.snapshot()) return;
    commit = std::async(std::launch::async, [&] { return decided.Commit(&committed); });
  });
  EXPECT_EQ(before.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(commit.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_GE(before.seen.size(), 2u);
  ASSERT_TRUE(daemon.AwaitEnd(20s).has_value());

  daemon.Start();
  const Watched after =
      Watch(daemon, decided.id(), before.seen.back().resume_token(), [](const auto&) {});
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  std::uint64_t revision = 0;
  for (const v1::WatchTxnResponse& response : after.seen) {
    EXPECT_EQ(response.snapshot(), revision == 0);
    EXPECT_GT(response.revision(), revision);
    revision = response.revision();
  }
  ASSERT_FALSE(after.seen.empty());
  EXPECT_EQ(after.seen.back().txn().state(), v1::TXN_STATE_COMMITTED);
  const Watched aborted =
      Watch(daemon, undecided.id(), before.seen.back().resume_token(), [](const auto&) {});
  ASSERT_TRUE(aborted.status.ok()) << aborted.status.error_message();
  ASSERT_EQ(aborted.seen.size(), 1u);
  EXPECT_TRUE(aborted.seen[0].snapshot());
  EXPECT_EQ(aborted.seen[0].txn().state(), v1::TXN_STATE_ABORTED);
  // Who has seen the end in this start is not told again.
  EXPECT_TRUE(Watch(daemon, decided.id(), after.seen.back().resume_token(), [](const auto&) {
              }).seen.empty());
}

// ---- The end of the process ---------------------------------------------------------------------

TEST_F(LockstepdTest, OnSigtermTheDecidedIsCompletedAndTheUndecidedAborted) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon, {"lane.before_commit@b=delay:1500"});
  testing::TestTxn open(daemon.coordinator());
  ASSERT_TRUE(open.Produce("a", topic, "undecided").ok());
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "decided").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "decided").ok());
  v1::CommitResponse response;
  auto commit = std::async(std::launch::async, [&] { return txn.Commit(&response); });
  daemon.Await("the decision", 20s, [&] {
    return testing::GetTxn(daemon.coordinator(), txn.id()).state() == v1::TXN_STATE_COMMITTING;
  });
  EXPECT_EQ(daemon.Stop(), 0);
  ASSERT_TRUE(commit.get().ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_THAT(daemon.Log(), HasSubstr("stopped"));
  EXPECT_THAT(testing::ReadValues(Bootstrap(0), topic), ElementsAre("decided"));
  EXPECT_THAT(testing::ReadValues(Bootstrap(1), topic), ElementsAre("decided"));
}

TEST_F(LockstepdTest, AShutdownThatTakesTooLongAnswersCommittingAndLeaves) {
  const std::string topic = NewTopic();
  auto options = BothClusters();
  options.extra_yaml = "timeouts: {shutdown: 500ms}\n";
  Lockstepd daemon(options);
  StartReady(daemon, {"lane.before_commit@b=pause"});
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "value").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "value").ok());
  v1::CommitResponse response;
  auto commit = std::async(std::launch::async, [&] { return txn.Commit(&response); });
  daemon.Await("the decision", 20s, [&] {
    return testing::GetTxn(daemon.coordinator(), txn.id()).state() == v1::TXN_STATE_COMMITTING;
  });
  EXPECT_EQ(daemon.Stop(), 0);
  const grpc::Status status = commit.get();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTING);
  daemon.Start();
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 0);
  EXPECT_THAT(testing::ReadValues(Bootstrap(1), topic), ElementsAre("value"));
}

TEST_F(LockstepdTest, AFailedLogIsOutcomeUnknownAndEndsTheProcess) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon);  // Bindings are written in peace.
  EXPECT_EQ(daemon.Stop(), 0);
  StartReady(daemon, {"log.before_sync=error"});
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "value").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "value").ok());
  // It asks again until its time is up; nobody is there to answer.
  const Ran unknown = Ctl(daemon, {"--deadline", "3s", "commit", txn.id()});
  EXPECT_EQ(unknown.exit_code, 4);
  EXPECT_THAT(unknown.err, HasSubstr("The outcome of " + txn.id() + " is not known: ask again"));
  const auto status = daemon.AwaitEnd(30s);
  ASSERT_TRUE(status && WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 4);
  StartReady(daemon);
  // Nothing had been written: presumed abort.
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 2);
}

// ---- Starts -------------------------------------------------------------------------------------

TEST_F(LockstepdTest, AMistakeInTheConfigurationIsOne) {
  auto options = BothClusters();
  options.extra_yaml = "timeouts: {prepare: 5}\nnonsense: true\n";
  Lockstepd daemon(options);
  EXPECT_EQ(daemon.FailedStart(), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("lockstepd.yaml:3: timeouts.prepare: expected a duration"));
  EXPECT_THAT(daemon.Log(), HasSubstr("lockstepd.yaml:4: nonsense: unknown"));
}

TEST_F(LockstepdTest, AFailpointThatIsNoneIsOne) {
  Lockstepd daemon(BothClusters());
  EXPECT_EQ(daemon.FailedStart({"no.such.point=crash"}), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("no such failpoint"));
}

TEST_F(LockstepdTest, APortInUseIsTwo) {
  Lockstepd first(BothClusters());
  first.Start();
  // The support writes `listen` itself: a second key would be a mistake of its own.
  const std::string path = first.folder() + "/second.yaml";
  std::ofstream(path) << "listen: " << first.address() << "\ndata_dir: " << first.folder()
                      << "/second\nclusters: [{name: a, bootstrap_servers: '" << Bootstrap(0)
                      << "'}]\n";
  const auto second = RunBinary({"--config", path});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.out,
              HasSubstr("cannot listen on " + first.address() + ": Address already in use"));
}

TEST_F(LockstepdTest, ALogInUseIsThree) {
  Lockstepd first(BothClusters());
  first.Start();
  auto options = BothClusters();
  options.data_dir = first.data_dir();
  Lockstepd second(options);
  EXPECT_EQ(second.FailedStart(), 3);
  EXPECT_THAT(second.Log(), HasSubstr(std::to_string(first.pid())));
}

TEST_F(LockstepdTest, AClusterThatIsStillNeededMustStayInTheConfiguration) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  StartReady(daemon, {"lane.before_commit@b=crash"});
  testing::TestTxn txn(daemon.coordinator());
  ASSERT_TRUE(txn.Produce("a", topic, "value").ok());
  ASSERT_TRUE(txn.Produce("b", topic, "value").ok());
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 4);
  ASSERT_TRUE(daemon.AwaitEnd(20s).has_value());

  auto options = BothClusters();
  options.data_dir = daemon.data_dir();
  options.clusters.pop_back();
  Lockstepd without_b(options);
  EXPECT_EQ(without_b.FailedStart(), 1);
  EXPECT_THAT(without_b.Log(), HasSubstr("'b' (1)"));
  EXPECT_THAT(without_b.Log(), HasSubstr("put them back"));

  daemon.Start();
  EXPECT_EQ(Ctl(daemon, {"commit", txn.id()}).exit_code, 0);
  EXPECT_EQ(daemon.Stop(), 0);
  without_b.Start();  // Nothing is in doubt there any more.
}

TEST_F(LockstepdTest, ServesSoonAndIsSmall) {
  Lockstepd daemon(BothClusters());
  StartReady(daemon);
  daemon.Stop();
  const auto start = std::chrono::steady_clock::now();
  daemon.Start();
  const auto serving = std::chrono::steady_clock::now();
  daemon.AwaitReady();
  const auto ready = std::chrono::steady_clock::now();
  std::ifstream status("/proc/" + std::to_string(daemon.pid()) + "/status");
  long rss_kib = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> rss_kib;
  }
  const auto ms = [](auto span) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  };
  std::cout << "start to serving " << ms(serving - start) << " ms, to both clusters READY "
            << ms(ready - start) << " ms; idle RSS " << rss_kib / 1024 << " MiB\n";
  EXPECT_GT(rss_kib, 0);
  EXPECT_LE(rss_kib, 60 * 1024);
}

TEST_F(LockstepdTest, ASighupAddsAClusterOnceTheWholeFileIsRight) {
  Lockstepd::Options options;
  options.clusters = {{"a", Bootstrap(0)}};
  Lockstepd daemon(options);
  StartReady(daemon);
  const std::string topic = NewTopic();
  const std::string file = daemon.folder() + "/lockstepd.yaml";
  std::ostringstream before;
  before << std::ifstream(file).rdbuf();
  const std::string added = "  - name: b\n    bootstrap_servers: " + Bootstrap(1) + "\n";
  const auto hang_up = [&](const std::string& text) {
    std::ofstream(file) << text;
    ASSERT_EQ(::kill(daemon.pid(), SIGHUP), 0);
  };

  hang_up(before.str() + added + "    lanes: {min: 9, max: 3}\n");
  daemon.Await("the file is refused", 30s, [&] {
    return daemon.Log().find("everything goes on as before") != std::string::npos;
  });
  EXPECT_THAT(daemon.Log(), HasSubstr("lanes.min: must not be above lanes.max"));
  EXPECT_THAT(Ctl(daemon, {"txn", "--record", "b:" + topic + "=x"}).err,
              HasSubstr("UNKNOWN_CLUSTER"));

  hang_up(before.str() + added);
  daemon.Await("the cluster is there", 30s,
               [&] { return daemon.Log().find("cluster b is added") != std::string::npos; });
  daemon.AwaitReady();
  const std::vector<std::string> both = {"txn", "--record", "a:" + topic + "=x", "--record",
                                         "b:" + topic + "=x"};
  EXPECT_EQ(Ctl(daemon, both).exit_code, 0);
  daemon.Kill();
  StartReady(daemon);  // By the same file.
  EXPECT_EQ(testing::ReadValues(Bootstrap(0), topic), std::vector<std::string>{"x"});
  EXPECT_EQ(testing::ReadValues(Bootstrap(1), topic), std::vector<std::string>{"x"});
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace lockstep
