// Clusters that are not what they seem: without the markers of what they completed, one under two
// names, or another one at the old address.

#include <grpcpp/grpcpp.h>

#include "call_context.h"
#include "fixture.h"
#include "wire/raw_client.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Lockstepd;
using testing::RawClient;
namespace protocol = wire::protocol;

class BadClustersTest : public BadDaysTest {
 protected:
  static v1::GetStatusResponse StatusOf(Lockstepd& daemon) {
    CallContext context;
    v1::GetStatusResponse status;
    EXPECT_TRUE(daemon.admin().GetStatus(&context, {}, &status).ok());
    return status;
  }
  static v1::ClusterState StateOf(Lockstepd& daemon, const std::string& cluster) {
    const v1::GetStatusResponse status = StatusOf(daemon);
    for (const auto& each : status.clusters()) {
      if (each.name() == cluster) return each.state();
    }
    return v1::CLUSTER_STATE_UNSPECIFIED;
  }

  static v1::Branch BranchOf(Lockstepd& daemon, const std::string& id, const std::string& cluster) {
    const v1::Transaction txn = testing::GetTxn(daemon.coordinator(), id);
    for (const auto& branch : txn.branches()) {
      if (branch.cluster() == cluster) return branch;
    }
    ADD_FAILURE() << "no branch on " << cluster;
    return {};
  }
};

// KAFKA-20734, on purpose: the partition has no leader when its marker is due.
TEST_F(BadClustersTest, LostMarkersAreNoticedShownAndWrittenOnAWord) {
  const std::string topic = "lost-markers";
  A().CreateTopic(topic);
  B().CreateTopic(topic + ":1@2");
  Lockstepd daemon(BothClusters());
  const std::string id = CrashDecided(daemon, topic, "b", "value");

  RawClient node1(B().bootstrap());
  B().Kill(2);
  daemon.Await("the partition to lose its leader", 60s, [&] {
    const auto answer = node1.Ask(protocol::Metadata{{topic}});
    return answer.topics.at(0).partitions.at(0).leader == -1;
  });
  daemon.Start();
  const std::string lane = BranchOf(daemon, id, "b").managed().transactional_id();
  daemon.Await("the broker to say CompleteCommit", 60s, [&] {
    protocol::DescribeTransactions request;
    request.transactional_id = lane;
    return node1.Ask(request).state == "CompleteCommit";
  });
  B().Restart(2);

  // Noticed: the broker's word is not passed on.
  daemon.Await("the markers to be missed", 60s,
               [&] { return BranchOf(daemon, id, "b").managed().missing_markers_size() == 1; });
  EXPECT_EQ(testing::GetTxn(daemon.coordinator(), id).state(), v1::TXN_STATE_COMMITTING);
  const testing::Ran waiting = Ctl(daemon, {"commit", "--max-wait", "100ms", id});
  EXPECT_EQ(waiting.exit_code, 4);
  EXPECT_THAT(waiting.out, HasSubstr("COMMITTING"));
  EXPECT_THAT(OnA(topic), ElementsAre("value"));
  EXPECT_THAT(testing::ReadValues(B().bootstrap(), topic, testing::Open::kStopAtThem), IsEmpty());
  // Shown, with the way out.
  EXPECT_THAT(Ctl(daemon, {"in-doubt"}).out,
              AllOf(HasSubstr(id),
                    HasSubstr("no COMMIT marker stands behind the records on " + topic +
                              "-0: it may be lost (KAFKA-20734)"),
                    HasSubstr("repair-markers")));
  // Written, and not a second time.
  const testing::Ran repaired = Ctl(daemon, {"repair-markers", id, "b"});
  EXPECT_EQ(repaired.exit_code, 0) << repaired.out;
  daemon.AwaitNothingInDoubt();
  EXPECT_EQ(testing::GetTxn(daemon.coordinator(), id).state(), v1::TXN_STATE_COMMITTED);
  EXPECT_THAT(OnB(topic), ElementsAre("value"));
  const testing::Ran again = Ctl(daemon, {"repair-markers", id, "b"});
  EXPECT_EQ(again.exit_code, 1) << again.out;

  const testing::Ran next =
      Ctl(daemon, {"txn", "--record", "a:" + topic + "=next", "--record", "b:" + topic + "=next"});
  EXPECT_EQ(next.exit_code, 0) << next.out;
  EXPECT_THAT(OnB(topic), ElementsAre("value", "next"));
}

TEST_F(BadClustersTest, OneClusterUnderTwoNamesServesUnderOne) {
  const std::string topic = NewTopic();
  const std::string& both = B().bootstrap();
  Lockstepd::Options options;
  options.clusters = {{"one", both.substr(0, both.find(','))},
                      {"two", both.substr(both.find(',') + 1)}};
  Lockstepd daemon(options);
  daemon.Start();
  std::string served;
  std::string refused;
  daemon.Await("one to be READY and one REFUSED", 60s, [&] {
    const v1::GetStatusResponse status = StatusOf(daemon);
    for (const auto& cluster : status.clusters()) {
      if (cluster.state() == v1::CLUSTER_STATE_READY) served = cluster.name();
      if (cluster.state() == v1::CLUSTER_STATE_REFUSED) refused = cluster.name();
    }
    return !served.empty() && !refused.empty();
  });
  const std::string why = "clusters '" + served + "' and '" + refused +
                          "' are one Kafka cluster (" + B().cluster_id() + "): configure it once";
  EXPECT_THAT(Ctl(daemon, {"status"}).out, HasSubstr(why));
  const testing::Ran over_both = Ctl(daemon, {"txn", "--record", served + ":" + topic + "=dropped",
                                              "--record", refused + ":" + topic + "=dropped"});
  EXPECT_EQ(over_both.exit_code, 2);
  EXPECT_THAT(over_both.out, AllOf(HasSubstr("CLUSTER_UNAVAILABLE on " + refused), HasSubstr(why)));
  EXPECT_EQ(Ctl(daemon, {"txn", "--record", served + ":" + topic + "=kept"}).exit_code, 0);
  EXPECT_THAT(OnB(topic), ElementsAre("kept"));

  options.clusters = {{"one", both}, {"two", both}};
  Lockstepd plainly(options);
  EXPECT_EQ(plainly.FailedStart(), 1);
  EXPECT_THAT(plainly.Log(), HasSubstr("the same brokers as cluster 'one': one Kafka cluster must "
                                       "have one name"));
}

// Under a running lockstepd, with a decision that the old cluster has not heard of.
TEST_F(BadClustersTest, AClusterThatCameBackEmptyIsToldNothingAndTheDecisionIsKept) {
  const std::string topic = "emptied";
  A().CreateTopic(topic);
  B().CreateTopic(topic + ":1@1");
  auto options = BothClusters();
  options.extra_yaml = "timeouts: {shutdown: 500ms}\n";  // It waits for a for as long as it may.
  Lockstepd daemon(options);
  const std::string id = CrashDecided(daemon, topic, "a", "decided");
  A().Kill();
  daemon.Start();
  daemon.Await("b to complete", 60s,
               [&] { return BranchOf(daemon, id, "b").outcome() == v1::BRANCH_OUTCOME_COMMITTED; });
  const std::string old_id = A().cluster_id();
  A().Wipe();
  A().CreateTopic(topic);
  daemon.Await("the other cluster to be noticed", 60s,
               [&] { return StateOf(daemon, "a") == v1::CLUSTER_STATE_MISMATCH; });
  const std::string why = "the brokers at its address are Kafka cluster " + A().cluster_id() +
                          "; this log knows it as " + old_id;
  EXPECT_THAT(Ctl(daemon, {"status"}).out, AllOf(HasSubstr(why), HasSubstr("use a new name")));
  daemon.Await("the decision to say why it waits", 60s, [&] {
    return BranchOf(daemon, id, "a").problem().find("nothing was sent") != std::string::npos;
  });
  EXPECT_THAT(Ctl(daemon, {"in-doubt"}).out,
              AllOf(HasSubstr(id), HasSubstr("belongs to Kafka cluster " + A().cluster_id() +
                                             ", not to " + old_id + ": nothing was sent")));
  const testing::Ran on_a =
      Ctl(daemon, {"txn", "--record", "a:" + topic + "=x", "--record", "b:" + topic + "=dropped"});
  EXPECT_EQ(on_a.exit_code, 2);
  EXPECT_THAT(on_a.out, AllOf(HasSubstr("CLUSTER_MISMATCH on a"), HasSubstr(why)));
  EXPECT_EQ(Ctl(daemon, {"txn", "--record", "b:" + topic + "=kept"}).exit_code, 0);
  EXPECT_THAT(RawClient(A().bootstrap()).Ask(protocol::ListTransactions{}).transactions, IsEmpty());
  EXPECT_EQ(daemon.Stop(), 0);

  // The way out: the new one under a new name, the old one as it was, away.
  options.data_dir = daemon.data_dir();
  options.clusters = {{"a", "127.0.0.1:1"}, {"a2", A().bootstrap()}, {"b", B().bootstrap()}};
  Lockstepd renamed(options);
  renamed.Start();
  const testing::Ran anew = Ctl(renamed, {"txn", "--record", "a2:" + topic + "=kept", "--record",
                                          "b:" + topic + "=kept too"});
  EXPECT_EQ(anew.exit_code, 0) << anew.out;
  EXPECT_THAT(Ctl(renamed, {"in-doubt"}).out, HasSubstr(id));
  EXPECT_THAT(OnA(topic), ElementsAre("kept"));
  EXPECT_THAT(OnB(topic), ElementsAre("decided", "kept", "kept too"));
}

}  // namespace
}  // namespace lockstep
