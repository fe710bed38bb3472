// What only an operator's word ends: a decision on a cluster that is gone for good, and what a lost
// data folder left open. By lockstepctl, on real clusters.

#include <gmock/gmock.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

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
using testing::Lockstepd;

class OperatorTest : public ::testing::Test {
 protected:
  using Ran = testing::CtlRan;
  static Ran Ctl(const Lockstepd& daemon, std::vector<std::string> words) {
    words.insert(words.begin(), {"--server", daemon.address()});
    return testing::RunCtl(std::move(words));
  }

  /// A transaction with a record on each cluster, whose Commit the server does not survive.
  static std::string CrashInCommit(Lockstepd& daemon, const std::string& failpoint,
                                   const std::string& topic) {
    daemon.Start({failpoint});
    daemon.AwaitReady();
    testing::TestTxn txn(daemon.coordinator());
    EXPECT_TRUE(txn.Produce("a", topic, "left").ok());
    EXPECT_TRUE(txn.Produce("b", topic, "left").ok());
    v1::CommitResponse response;
    EXPECT_FALSE(txn.Commit(&response).ok());
    EXPECT_TRUE(daemon.AwaitEnd(20s).has_value());
    return txn.id();
  }

  static v1::ListOrphansResponse Orphans(Lockstepd& daemon) {
    CallContext context;
    v1::ListOrphansResponse found;
    EXPECT_TRUE(daemon.admin().ListOrphans(&context, v1::ListOrphansRequest(), &found).ok());
    return found;
  }

  static int End(const Lockstepd& daemon, const v1::Orphan& orphan, const std::string& how,
                 bool force = false) {
    std::vector<std::string> words = {
        "orphans",
        "end",
        orphan.cluster(),
        orphan.transactional_id(),
        how,
        "--started",
        google::protobuf::util::TimeUtil::ToString(orphan.start_time()),
        "--who",
        "ann",
        "--why",
        "its folder is lost"};
    if (force) words.emplace_back("--force");
    const Ran ran = Ctl(daemon, words);
    if (ran.exit_code != 0) std::cerr << ran.err;
    return ran.exit_code;
  }

  const std::vector<std::unique_ptr<testing::KafkaCluster>> clusters_ =
      testing::StartKafkaClusters({{.topics = {"orders"}}, {.topics = {"orders"}}});
  const Lockstepd::Options options_{
      .clusters = {{"a", clusters_[0]->bootstrap()}, {"b", clusters_[1]->bootstrap()}}};
};

TEST_F(OperatorTest, WhatALostFolderLeftOpenIsFoundAndEnded) {
  Lockstepd lost(options_);
  CrashInCommit(lost, "coordinator.votes_in=crash", "orders");

  Lockstepd daemon(options_);  // Another folder, hence another log.
  daemon.Start();
  daemon.AwaitReady();
  const v1::ListOrphansResponse found = Orphans(daemon);
  ASSERT_EQ(found.orphans_size(), 2) << found.DebugString();
  EXPECT_EQ(found.problems_size(), 0) << found.DebugString();
  EXPECT_EQ(found.orphans(0).cluster(), "a");
  EXPECT_EQ(found.orphans(0).kafka_state(), "Ongoing");
  ASSERT_EQ(found.orphans(0).partitions_size(), 1);
  EXPECT_EQ(found.orphans(0).partitions(0).topic(), "orders");
  EXPECT_THAT(Ctl(daemon, {"orphans"}).out, HasSubstr(found.orphans(1).transactional_id()));

  // Somebody else's transaction under the id, or a lane of our own: refused.
  v1::EndOrphanRequest other;
  *other.mutable_orphan() = found.orphans(0);
  other.mutable_orphan()->mutable_start_time()->set_seconds(1);
  other.set_direction(v1::END_DIRECTION_ABORT);
  other.set_who("ann");
  other.set_why("by mistake");
  v1::EndOrphanResponse ended;
  {
    CallContext context;
    EXPECT_EQ(daemon.admin().EndOrphan(&context, other, &ended).error_code(),
              grpc::FAILED_PRECONDITION);
  }
  v1::GetStatusResponse status;
  {
    CallContext context;
    ASSERT_TRUE(daemon.admin().GetStatus(&context, v1::GetStatusRequest(), &status).ok());
  }
  other.mutable_orphan()->set_transactional_id("lockstep-" + status.log_id() + "-1-a-0");
  {
    CallContext context;
    EXPECT_EQ(daemon.admin().EndOrphan(&context, other, &ended).error_code(),
              grpc::INVALID_ARGUMENT);
  }

  EXPECT_EQ(End(daemon, found.orphans(0), "commit"), 1) << "it takes force";
  EXPECT_EQ(End(daemon, found.orphans(0), "abort"), 0);
  EXPECT_EQ(End(daemon, found.orphans(1), "commit", true), 0);
  // PrepareAbort and PrepareCommit, decided and without markers yet, still count as open.
  daemon.Await("they are ended", 20s, [&] { return Orphans(daemon).orphans_size() == 0; });

  // Readers go on behind it, and see what was said.
  EXPECT_EQ(Ctl(daemon, {"txn", "--record", "a:orders=new", "--record", "b:orders=new"}).exit_code,
            0);
  EXPECT_THAT(testing::ReadValues(clusters_[0]->bootstrap(), "orders"), ElementsAre("new"));
  EXPECT_THAT(testing::ReadValues(clusters_[1]->bootstrap(), "orders"), ElementsAre("left", "new"));
  EXPECT_EQ(daemon.Stop(), 0);
}

TEST_F(OperatorTest, ADecisionOnAClusterThatIsGoneForGoodIsDeclared) {
  Lockstepd daemon(options_);
  const std::string id = CrashInCommit(daemon, "lane.before_commit@b=crash", "orders");
  clusters_[1]->Kill();
  daemon.Start();
  daemon.Await("a is committed", 30s, [&] {
    const auto txn = testing::GetTxn(daemon.coordinator(), id);
    return txn.branches_size() == 2 && txn.branches(0).outcome() == v1::BRANCH_OUTCOME_COMMITTED;
  });
  EXPECT_EQ(testing::GetTxn(daemon.coordinator(), id).state(), v1::TXN_STATE_COMMITTING);

  const auto resolve = [&](const std::string& how) {
    return Ctl(daemon, {"resolve", id, "b", how, "--who", "ann", "--why", "b was taken down"});
  };
  EXPECT_EQ(resolve("abort").exit_code, 1);
  EXPECT_THAT(resolve("declare-unknown").err, HasSubstr("contradicts the decision"));
  const Ran declared = resolve("declare-committed");
  EXPECT_TRUE(declared.exit_code == 0 || declared.exit_code == 4) << declared.err;
  daemon.Await("the declaration counts", 30s, [&] {
    return testing::GetTxn(daemon.coordinator(), id).state() == v1::TXN_STATE_COMMITTED;
  });
  EXPECT_EQ(resolve("declare-committed").exit_code, 0) << "it may be repeated";
  EXPECT_THAT(daemon.Log(), HasSubstr("DECLARE_COMMITTED by an operator (ann): b was taken down"));

  daemon.Kill();
  const Ran dump = Ctl(daemon, {"log", "dump", daemon.data_dir()});
  EXPECT_EQ(dump.exit_code, 0) << dump.err;
  EXPECT_THAT(dump.out, HasSubstr("DECLARE_COMMITTED by an operator (ann): b was taken down"));
  // Nothing is in doubt any more, so the cluster can leave the configuration.
  Lockstepd without({.clusters = {options_.clusters[0]}, .data_dir = daemon.data_dir()});
  without.Start();
  without.AwaitNothingInDoubt();
  EXPECT_EQ(testing::GetTxn(without.coordinator(), id).state(), v1::TXN_STATE_COMMITTED);
  EXPECT_THAT(testing::ReadValues(clusters_[0]->bootstrap(), "orders"), ElementsAre("left"));
  EXPECT_EQ(without.Stop(), 0);
}

}  // namespace
}  // namespace lockstep
