#include "cli/lockstepctl.h"

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "api_fixture.h"
#include "cli/record_spec.h"
#include "cli/render.h"
#include "ctl.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Ran = lockstep::testing::CtlRan;
using lockstep::testing::RunCtl;

/// Against the server of this test.
class LockstepctlTest : public ApiFixture {
 protected:
  Ran Ctl(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), {"--server", "127.0.0.1:" + std::to_string(daemon_->port())});
    return RunCtl(std::move(words), input);
  }
  std::string BeginByHand() {
    const Ran begin = Ctl({"begin", "--timeout", "5m"});
    EXPECT_EQ(begin.exit_code, 0);
    return begin.out.substr(0, begin.out.find('\n'));
  }
};

// ---- The process --------------------------------------------------------------------------------

TEST(Lockstepctl, WrongUsageIsOneAndHelpIsNot) {
  EXPECT_EQ(RunCtl({}).exit_code, 1);
  EXPECT_EQ(RunCtl({"frobnicate"}).exit_code, 1);
  EXPECT_EQ(RunCtl({"commit"}).exit_code, 1);
  EXPECT_EQ(RunCtl({"txn"}).exit_code, 1);
  EXPECT_EQ(RunCtl({"produce", "id", "east", "t", "v"}).exit_code, 1);  // No sequence.
  EXPECT_EQ(RunCtl({"commit", "id", "--wait", "never"}).exit_code, 1);
  EXPECT_EQ(RunCtl({"--output", "xml", "status"}).exit_code, 1);
  EXPECT_EQ(RunCtl({"--deadline", "soon", "status"}).exit_code, 1);
  const Ran help = RunCtl({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* line :
       {"0  done", "2  commit, txn, watch: ABORTED", "3  commit, txn, resolve, watch"}) {
    EXPECT_THAT(help.out, HasSubstr(line));
  }
  EXPECT_THAT(RunCtl({"--version"}).out, HasSubstr(LOCKSTEP_VERSION));
}

TEST(Lockstepctl, AServerThatIsNotThereIsNamed) {
  const Ran no_port = RunCtl({"--server", "localhost", "status"});
  EXPECT_EQ(no_port.exit_code, 1);
  EXPECT_THAT(no_port.err, HasSubstr("expected HOST:PORT"));
  const Ran status = RunCtl({"--server", "127.0.0.1:1", "status"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_THAT(status.err, HasSubstr("lockstepd at 127.0.0.1:1"));
  // A commit may have got through: its outcome is not known.
  const Ran commit = RunCtl({"--server", "127.0.0.1:1", "--deadline", "300ms", "commit", "id"});
  EXPECT_EQ(commit.exit_code, 4);
  EXPECT_THAT(commit.err, HasSubstr("ask again"));
}

TEST(Lockstepctl, TheServerMayComeFromTheEnvironment) {
  setenv("LOCKSTEP_SERVER", "127.0.0.1:2", 1);
  const Ran status = RunCtl({"status"});
  unsetenv("LOCKSTEP_SERVER");
  EXPECT_THAT(status.err, HasSubstr("127.0.0.1:2"));
}

// ---- Commands -----------------------------------------------------------------------------------

TEST_F(LockstepctlTest, ATransactionInOneCommand) {
  Serve();
  const Ran txn = Ctl({"txn", "--record", "east:orders=hello=you", "--record",
                       "west:orders:2:k:x=v", "--record", "east:orders::gone"});
  EXPECT_EQ(txn.exit_code, 0) << txn.err;
  EXPECT_THAT(txn.err, StartsWith("began "));
  EXPECT_THAT(txn.out, HasSubstr(" COMMITTED\n"));
  const auto east = east_.prepared_work();
  ASSERT_EQ(east.records.size(), 2u);
  EXPECT_EQ(east.records[0].value, "hello=you");
  EXPECT_FALSE(east.records[0].key.has_value());
  EXPECT_FALSE(east.records[1].value.has_value());
  EXPECT_EQ(east.records[1].key, "gone");
  const auto west = west_.prepared_work();
  EXPECT_EQ(west.records.at(0).partition, 2);
  EXPECT_EQ(west.records.at(0).key, "k:x");
}

TEST_F(LockstepctlTest, EachOutcomeHasItsExitCode) {
  Serve();
  const std::vector<std::string> txn = {"txn", "--record", "east:t=1", "--record", "west:t=1"};
  west_.Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("west"), "no topic", false}});
  const Ran aborted = Ctl(txn);
  EXPECT_EQ(aborted.exit_code, 2);
  EXPECT_THAT(aborted.out, HasSubstr("ABORTED: UNKNOWN_TOPIC on west: no topic"));
  west_.Set({.aborted_it = true});
  EXPECT_EQ(Ctl(txn).exit_code, 3);
  west_.Set({.commits = false});
  auto hurried = txn;
  hurried.insert(hurried.end(), {"--max-wait", "1ms"});
  EXPECT_EQ(Ctl(hurried).exit_code, 4);
  hurried = txn;
  hurried.insert(hurried.end(), {"--wait", "decided"});
  EXPECT_EQ(Ctl(hurried).exit_code, 4);
  west_.Set({});
  auto given_up = txn;
  given_up.emplace_back("--abort");
  EXPECT_EQ(Ctl(given_up).exit_code, 0);
}

TEST_F(LockstepctlTest, AMistakeInARecordBeginsNothing) {
  config_.open_transactions = 1;
  Serve();
  for (const char* record : {"east", ":t=v", "east:=v", "east:t:x=v", "east:t:-1=v"}) {
    const Ran txn = Ctl({"txn", "--record", record});
    EXPECT_EQ(txn.exit_code, 1) << record;
    EXPECT_THAT(txn.err, HasSubstr("expected cluster:topic")) << record;
  }
  // An unknown cluster only the server can tell: the transaction is aborted then.
  const Ran txn = Ctl({"txn", "--record", "north:t=v"});
  EXPECT_EQ(txn.exit_code, 1);
  EXPECT_THAT(txn.err, HasSubstr("UNKNOWN_CLUSTER"));
  EXPECT_FALSE(BeginByHand().empty());  // There would be no room for a second one.
}

TEST_F(LockstepctlTest, StepByStep) {
  Serve();
  const std::string id = BeginByHand();
  EXPECT_EQ(Ctl({"produce", id, "east", "t", "one", "--key", "k", "--partition", "1", "--header",
                 "a=b", "--header", "n", "--sequence", "0"})
                .exit_code,
            0);
  EXPECT_EQ(Ctl({"produce", id, "east", "t", "--sequence", "1"}, "from input\n").exit_code, 0);
  EXPECT_EQ(Ctl({"produce", id, "east", "t", "--lines", "--sequence", "2"}, "x\ny\n").exit_code, 0);
  EXPECT_EQ(Ctl({"produce", id, "east", "t", "--null", "--sequence", "3"}).exit_code, 0);
  EXPECT_EQ(Ctl({"send-offsets", id, "west", "--group", "g", "--generation", "4", "--member", "m",
                 "--offset", "t:0=7", "--offset", "t:1=8", "--sequence", "4"})
                .exit_code,
            0);
  EXPECT_EQ(Ctl({"produce", id, "east", "t", "late", "--sequence", "9"}).exit_code, 1);
  const std::string open = Ctl({"show", id}).out;
  EXPECT_THAT(open, HasSubstr("state    ACTIVE"));
  EXPECT_THAT(open, HasSubstr("next     sequence 5"));
  EXPECT_EQ(Ctl({"commit", id}).exit_code, 0);
  EXPECT_EQ(Ctl({"abort", id}).exit_code, 5);
  EXPECT_THAT(Ctl({"show", id}).out, HasSubstr("state    COMMITTED"));

  const auto work = east_.prepared_work();
  ASSERT_EQ(work.records.size(), 5u);
  EXPECT_EQ(work.records[0].key, "k");
  EXPECT_EQ(work.records[0].partition, 1);
  EXPECT_EQ(work.records[0].headers.at(0).value, "b");
  EXPECT_FALSE(work.records[0].headers.at(1).value.has_value());
  EXPECT_EQ(work.records[1].value, "from input\n");
  EXPECT_EQ(work.records[3].value, "y");
  EXPECT_FALSE(work.records[4].value.has_value());
  const auto offsets = west_.prepared_work().offsets;
  ASSERT_EQ(offsets.at(0).offsets.size(), 2u);
  EXPECT_EQ(offsets[0].generation, 4);
  EXPECT_EQ(offsets[0].offsets[1].offset, 8);
}

TEST_F(LockstepctlTest, AbortOfAnOpenTransactionIsDone) {
  Serve();
  const std::string id = BeginByHand();
  EXPECT_EQ(Ctl({"abort", id}).exit_code, 0);
  EXPECT_EQ(Ctl({"commit", id}).exit_code, 2);
}

TEST_F(LockstepctlTest, AFailedCallShowsCodeReasonAndMessage) {
  Serve();
  const Ran show = Ctl({"show", "nonsense"});
  EXPECT_EQ(show.exit_code, 1);
  EXPECT_THAT(show.err, HasSubstr("INVALID_ARGUMENT (INVALID_REQUEST): 'nonsense'"));
  EXPECT_EQ(Ctl({"commit", "nonsense"}).exit_code, 1);
}

TEST_F(LockstepctlTest, AFailedLogIsUnknown) {
  Serve();
  const std::string id = BeginWithWork();
  log_.Fail();
  const Ran commit = Ctl({"--deadline", "300ms", "commit", id});
  EXPECT_EQ(commit.exit_code, 4);
  EXPECT_THAT(commit.err, HasSubstr("OUTCOME_UNKNOWN"));
}

TEST_F(LockstepctlTest, OperatorsSeeAndAct) {
  Serve();
  EXPECT_THAT(Ctl({"status"}).out, HasSubstr("kafka-west"));
  EXPECT_THAT(Ctl({"in-doubt"}).out, HasSubstr("nothing is in doubt"));
  west_.Set({.aborted_it = true});
  const std::string id = BeginWithWork();
  EXPECT_EQ(Ctl({"commit", id}).exit_code, 3);
  EXPECT_THAT(Ctl({"in-doubt"}).out, HasSubstr("HEURISTIC"));
  EXPECT_EQ(Ctl({"repair-markers", id, "west"}).exit_code, 1);
  EXPECT_EQ(Ctl({"acknowledge", id}).exit_code, 0);
  EXPECT_THAT(Ctl({"in-doubt"}).out, HasSubstr("nothing is in doubt"));
}

TEST_F(LockstepctlTest, AnOperatorsWordHasExitCodesOfItsOwn) {
  west_.Set({.commits = false, .state = coordinator::ClusterState::kUnreachable});
  Serve();
  const auto in_doubt = [&] {
    const std::string id = BeginWithWork();
    EXPECT_EQ(Ctl({"commit", id, "--wait", "decided"}).exit_code, 4);
    return id;
  };
  const auto resolve = [&](const std::string& id, const std::string& how, bool force = false) {
    std::vector<std::string> words = {"resolve", id, "west", how, "--who", "ann", "--why", "gone"};
    if (force) words.emplace_back("--force");
    for (;;) {  // The lane's answer may be on its way.
      const Ran ran = Ctl(words);
      if (ran.err.find("UNAVAILABLE:") == std::string::npos) return ran;
    }
  };
  const std::string committed = in_doubt();
  const Ran refused = resolve(committed, "abort");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("contradicts the decision"));
  const Ran declared = resolve(committed, "declare-committed");
  EXPECT_EQ(declared.exit_code, 0) << declared.err;
  EXPECT_THAT(declared.out, HasSubstr("DECLARE_COMMITTED by an operator (ann): gone"));
  EXPECT_EQ(resolve(in_doubt(), "declare-unknown", true).exit_code, 3);
  EXPECT_EQ(resolve(in_doubt(), "commit").exit_code, 4);
  EXPECT_EQ(Ctl({"resolve", committed, "west", "perhaps", "--who", "a", "--why", "b"}).exit_code,
            1);
}

TEST_F(LockstepctlTest, OrphansAreListedAndEnded) {
  coordinator::Orphan orphan{TransactionalId("lane"), LogId("fedcba9876543210"), {}};
  orphan.description.start_time_ms = 1'700'000'000'123;
  orphan.description.partitions = {{"orders", 3}};
  east_.Set({.orphans = {orphan}});
  Serve();
  const Ran list = Ctl({"orphans"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("2023-11-14T22:13:20.123Z"));
  EXPECT_THAT(list.out, HasSubstr("orders-3"));
  const auto end = [&](const std::string& how, const std::string& started) {
    return Ctl({"orphans", "end", "east", "lane", how, "--started", started, "--who", "ann",
                "--why", "lost"});
  };
  EXPECT_EQ(end("abort", "yesterday").exit_code, 1);
  EXPECT_EQ(end("abort", "2023-11-14T22:13:21Z").exit_code, 1);
  EXPECT_EQ(end("commit", "2023-11-14T22:13:20.123Z").exit_code, 1);
  const Ran ended = end("abort", "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.out, "lane CompleteAbort\n");
  EXPECT_EQ(Ctl({"orphans"}).out, "no orphans\n");
  east_.Set({.commits = false});
  EXPECT_EQ(Ctl({"orphans"}).exit_code, 1) << "not every cluster could be asked";
}

TEST_F(LockstepctlTest, TheServerIsDrainedAndLooksIntoItself) {
  Serve();
  EXPECT_THAT(Ctl({"drain", "--wait"}).out, HasSubstr("0 transactions are open"));
  EXPECT_EQ(Ctl({"begin"}).exit_code, 1);
  EXPECT_THAT(Ctl({"status"}).out, HasSubstr("draining"));
  EXPECT_EQ(Ctl({"undrain"}).exit_code, 0);
  EXPECT_EQ(Ctl({"begin"}).exit_code, 0);
  const auto before = spdlog::get_level();
  spdlog::set_level(spdlog::level::warn);
  EXPECT_EQ(Ctl({"log-level", "debug"}).out, "it was WARN\n");
  EXPECT_EQ(spdlog::get_level(), spdlog::level::debug);
  spdlog::set_level(before);
  EXPECT_EQ(Ctl({"log-level", "loud"}).exit_code, 1);
  EXPECT_THAT(Ctl({"log", "info"}).out, HasSubstr("7 kept, 0 pending"));
  EXPECT_THAT(Ctl({"clusters"}).out, HasSubstr("kafka-west"));
  EXPECT_EQ(Ctl({"txns", "--state", "asleep"}).exit_code, 1);
  EXPECT_EQ(Ctl({"log"}).exit_code, 1);
  const Ran dump = Ctl({"log", "dump", "/nowhere/at/all"});
  EXPECT_EQ(dump.exit_code, 1);
  EXPECT_THAT(dump.err, HasSubstr("/nowhere/at/all"));
}

/// What a program prints that reads `script`.
std::string Feed(const std::string& program, const std::string& script) {
  std::string file = ::testing::TempDir() + "lockstepctl-completion-XXXXXX";
  const int fd = ::mkstemp(file.data());
  EXPECT_EQ(::write(fd, script.data(), script.size()), static_cast<ssize_t>(script.size()));
  ::close(fd);
  std::string out;
  std::FILE* pipe = ::popen((program + " " + file).c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    out.push_back(static_cast<char>(c));
  EXPECT_EQ(::pclose(pipe), 0) << program;
  ::unlink(file.c_str());
  return out;
}

/// What a shell offers for the word that would follow `line`.
std::string Complete(const std::string& shell, const std::string& line) {
  const Ran script = RunCtl({"completion", shell});
  EXPECT_EQ(script.exit_code, 0);
  const std::string place = std::to_string(std::count(line.begin(), line.end(), ' ') + 1);
  if (shell == "bash") {
    return Feed("bash --norc --noprofile", script.out + "COMP_WORDS=(" + line +
                                               " \"\"); COMP_CWORD=" + place +
                                               "; _lockstepctl; echo \"${COMPREPLY[@]}\"\n");
  }
  if (shell == "zsh") {
    // Its completion system needs a terminal: what the script asks of it is told instead.
    return Feed("zsh -f", "compdef() { :; }; compadd() { shift; echo \"$@\"; }\n" + script.out +
                              "words=(" + line + " ''); CURRENT=$((" + place +
                              " + 1)); _lockstepctl\n");
  }
  return Feed("fish --no-config",
              script.out + "complete -C '" + line + " '\n" + "complete -C '" + line + " --'\n");
}

TEST(Lockstepctl, ShellsCompleteWhatTheCommandTreeHas) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    SCOPED_TRACE(shell);
    EXPECT_THAT(Complete(shell, "lockstepctl"), HasSubstr("in-doubt"));
    EXPECT_THAT(Complete(shell, "lockstepctl log"), HasSubstr("dump"));
    EXPECT_THAT(Complete(shell, "lockstepctl --server h orphans end"), HasSubstr("--started"));
    EXPECT_THAT(Complete(shell, "lockstepctl commit id"), HasSubstr("--max-wait"));
    EXPECT_THAT(Complete(shell, "lockstepctl commit id"), Not(HasSubstr("in-doubt")));
  }
  EXPECT_EQ(RunCtl({"completion", "tcsh"}).exit_code, 1);
}

TEST_F(LockstepctlTest, JsonIsTheAnswerAsItIs) {
  Serve();
  const auto json = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--output", "json"});
    return nlohmann::json::parse(Ctl(words).out);
  };
  EXPECT_EQ(json({"status"})["clusters"][0]["state"], "CLUSTER_STATE_READY");
  EXPECT_TRUE(json({"in-doubt"})["in_doubt"].empty());
  const std::string id = json({"begin"})["txn_id"];
  EXPECT_EQ(json({"show", id})["txn"]["state"], "TXN_STATE_ACTIVE");
  EXPECT_EQ(json({"commit", id})["outcome"], "OUTCOME_COMMITTED");
  EXPECT_EQ(json({"abort", id})["outcome"], "OUTCOME_COMMITTED");
}

TEST_F(LockstepctlTest, InDoubtReadsEveryPage) {
  east_.Set({.commits = false});
  for (std::uint64_t batch = 1; batch <= 150; ++batch) {
    txn::Decision decision;
    decision.batch = BatchId(batch);
    decision.members = {GlobalTxnId("0123456789abcdef-1-1-" + std::to_string(batch))};
    decision.participants.resize(1);
    decision.participants[0].prepared.name.cluster = ClusterName("east");
    log_.Recover(decision);
  }
  Serve();
  const std::string out = Ctl({"in-doubt"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 150 * 5);
}

// ---- Short forms --------------------------------------------------------------------------------

TEST(RecordSpec, OffsetsAndDurations) {
  const auto offset = cli::ParseOffsetSpec("t:3=9");
  ASSERT_TRUE(offset.ok());
  EXPECT_EQ(offset->partition(), 3);
  EXPECT_EQ(offset->offset(), 9);
  for (const char* text : {"", "t", "t:3", "t=9", ":3=9", "t:x=9", "t:3=x", "t:-1=9", "t:1=-9"}) {
    EXPECT_FALSE(cli::ParseOffsetSpec(text).ok()) << text;
  }
  EXPECT_EQ(cli::ParseDurationSpec("1500ms")->nanos(), 500'000'000);
  EXPECT_EQ(cli::ParseDurationSpec("2h")->seconds(), 7200);
  for (const char* text : {"", "5", "s", "-1s", "1.5s", "1d", "99999999999999h"}) {
    EXPECT_FALSE(cli::ParseDurationSpec(text).ok()) << text;
  }
}

TEST(Render, AnEnlistedBranchShowsItsProducer) {
  v1::Transaction txn;
  txn.set_state(v1::TXN_STATE_COMMITTED);
  auto& branch = *txn.add_branches();
  branch.set_cluster("east");
  branch.set_outcome(v1::BRANCH_OUTCOME_COMMITTED);
  branch.mutable_enlisted()->set_transactional_id("app");
  branch.mutable_enlisted()->set_producer_id(500);
  branch.mutable_enlisted()->set_producer_epoch(7);
  branch.mutable_enlisted()->set_reinit_required(true);
  branch.mutable_enlisted()->add_missing_markers()->set_topic("orders");
  EXPECT_THAT(cli::Render(txn),
              HasSubstr("east     COMMITTED  enlisted  app               500       7      its "
                        "producer must be re-created; no marker on orders-0\n"));
  v1::ListTxnsResponse list;
  *list.add_txns() = txn;
  EXPECT_THAT(cli::Render(list), HasSubstr("east (enlisted)"));
}

TEST(Render, TablesArePadded) {
  EXPECT_EQ(cli::Table({{"A", "B"}, {"long", "x"}}), "A     B\nlong  x\n");
  EXPECT_EQ(cli::Table({{"A", "B"}}), "");
}

}  // namespace
}  // namespace lockstep::server
