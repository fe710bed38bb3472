// Consume on one cluster, produce to another: the group's offsets on the one and the records on the
// other commit together, and a consumer that is not a member any more, or whose group lives
// elsewhere, aborts both. Real brokers, classic groups (librdkafka) and KIP-848 groups (Kafka's own
// console consumer), static members; offsets sent by Lockstep and by the application's own
// producer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>

#include "call_context.h"
#include "clusters.h"
#include "group_consumer.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "own_producer.h"
#include "wire/client.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::CommittedOffset;
using testing::GroupConsumer;
using ::testing::HasSubstr;
using testing::Lockstepd;
using ::testing::Not;
using testing::OwnProducer;
using Values = std::vector<std::string>;

/// Who commits offsets.
struct Member {
  std::int32_t generation = 1;
  std::string id;
  std::optional<std::string> instance;
};

class OffsetsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    clusters_ = new std::vector(
        testing::StartKafkaClusters({{.topics = {"in:2"}}, {.topics = {"in:2", "out"}}}));
    daemon_ = new Lockstepd({.clusters = {{"a", Bootstrap("a")}, {"b", Bootstrap("b")}}});
    daemon_->Start();
    daemon_->AwaitReady();
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete clusters_;
  }

  OffsetsTest() : name_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {}

  static testing::KafkaCluster& Cluster(const std::string& name) {
    return *(*clusters_)[name == "a" ? 0 : 1];
  }
  static const std::string& Bootstrap(const std::string& cluster) {
    return Cluster(cluster).bootstrap();
  }

  v1::SendOffsetsRequest Offsets(const std::string& txn, const std::string& cluster,
                                 const Member& member, std::int64_t offset) const {
    v1::SendOffsetsRequest request;
    request.set_txn_id(txn);
    request.set_cluster(cluster);
    request.set_sequence(1);  // After one record.
    request.mutable_group()->set_group_id(name_);
    request.mutable_group()->set_generation(member.generation);
    request.mutable_group()->set_member_id(member.id);
    if (member.instance) request.mutable_group()->set_group_instance_id(*member.instance);
    v1::Offset& to = *request.add_offsets();
    to.set_topic("in");
    to.set_offset(offset);
    return request;
  }
  static grpc::Status Send(const v1::SendOffsetsRequest& request) {
    CallContext context;
    v1::SendOffsetsResponse response;
    return daemon_->coordinator().SendOffsets(&context, request, &response);
  }

  /// A record on b, and the group's offset on `cluster`, both by Lockstep.
  v1::CommitResponse Run(
      const Member& member, std::int64_t offset, const std::string& cluster = "a",
      const std::function<void()>& before_commit = [] {}) {
    testing::TestTxn txn(daemon_->coordinator());
    EXPECT_TRUE(txn.Produce("b", "out", name_ + std::to_string(offset)).ok());
    const grpc::Status sent = Send(Offsets(txn.id(), cluster, member, offset));
    EXPECT_TRUE(sent.ok()) << sent.error_message();
    before_commit();
    v1::CommitResponse response;
    EXPECT_TRUE(txn.Commit(&response).ok());
    return response;
  }

  void ExpectCommitted(const v1::CommitResponse& response, std::int64_t offset) const {
    EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED) << response.DebugString();
    EXPECT_EQ(CommittedOffset(Bootstrap("a"), name_, {"in", 0}), offset);
    EXPECT_TRUE(Written(offset));
  }
  /// Neither the offset, which stays `before`, nor the record.
  void ExpectFenced(const v1::CommitResponse& response, std::int64_t offset,
                    std::int64_t before) const {
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED) << response.DebugString();
    EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_GROUP_FENCED);
    EXPECT_THAT(response.abort().message(), HasSubstr(name_));
    EXPECT_EQ(CommittedOffset(Bootstrap("a"), name_, {"in", 0}), before);
    EXPECT_FALSE(Written(offset));
  }
  bool Written(std::int64_t offset) const {
    const Values values = testing::ReadValues(Bootstrap("b"), "out");
    return std::ranges::find(values, name_ + std::to_string(offset)) != values.end();
  }

  /// Another member joins the group of `first`; returns once `first` is in the next generation.
  std::unique_ptr<GroupConsumer> Join(GroupConsumer& first) {
    auto joining = std::async(std::launch::async, [&] {
      return std::make_unique<GroupConsumer>(Bootstrap("a"), name_, "in");
    });
    while (joining.wait_for(0s) != std::future_status::ready) first.Poll();
    return joining.get();
  }

  static wire::GroupFacts Describe(const std::string& cluster, const std::string& group) {
    wire::IoThread io;
    wire::Client client(io, {.bootstrap = {Bootstrap(cluster)}});
    std::promise<Result<wire::GroupFacts>> promise;
    client.DescribeGroup(group, 10s, [&](auto result) { promise.set_value(std::move(result)); });
    auto facts = promise.get_future().get();
    if (!facts.ok()) throw std::runtime_error(ToString(facts.error()));
    return *std::move(facts);
  }

  static std::vector<std::unique_ptr<testing::KafkaCluster>>* clusters_;
  static Lockstepd* daemon_;
  const std::string name_;  // Of the group, too.
};

std::vector<std::unique_ptr<testing::KafkaCluster>>* OffsetsTest::clusters_ = nullptr;
Lockstepd* OffsetsTest::daemon_ = nullptr;

// ---- Classic groups -----------------------------------------------------------------------------

TEST_F(OffsetsTest, AMembersOffsetsCommitWithTheRecords) {
  const GroupConsumer consumer(Bootstrap("a"), name_, "in");
  ExpectCommitted(Run({.id = consumer.member_id()}, 5), 5);
  ExpectCommitted(Run({.id = consumer.member_id()}, 7), 7);
}

TEST_F(OffsetsTest, AStaleGenerationIsFenced) {
  GroupConsumer consumer(Bootstrap("a"), name_, "in");
  const Member member{.id = consumer.member_id()};
  ExpectCommitted(Run(member, 5), 5);
  const auto second = Join(consumer);
  ExpectFenced(Run(member, 9), 9, 5);
  ExpectFenced(Run({.generation = 1, .id = "nobody"}, 9), 9, 5);
}

TEST_F(OffsetsTest, ARebalanceBeforeCommitFences) {
  GroupConsumer consumer(Bootstrap("a"), name_, "in");
  const Member member{.id = consumer.member_id()};
  std::unique_ptr<GroupConsumer> second;
  ExpectFenced(Run(member, 5, "a", [&] { second = Join(consumer); }), 5, -1);
}

TEST_F(OffsetsTest, AStaticMemberIsFencedByItsSuccessor) {
  const GroupConsumer consumer(Bootstrap("a"), name_, "in", "static-1");
  const Member member{.id = consumer.member_id(), .instance = "static-1"};
  ExpectCommitted(Run(member, 5), 5);
  const GroupConsumer successor(Bootstrap("a"), name_, "in", "static-1");
  ExpectFenced(Run(member, 9), 9, 5);
  ExpectCommitted(Run({.id = successor.member_id(), .instance = "static-1"}, 7), 7);
}

TEST_F(OffsetsTest, AGroupOfTheOtherClusterIsToldWhereItLives) {
  const GroupConsumer consumer(Bootstrap("b"), name_, "in");
  const v1::CommitResponse response = Run({.id = consumer.member_id()}, 5);
  ExpectFenced(response, 5, -1);
  EXPECT_THAT(response.abort().message(), HasSubstr("group '" + name_ + "' lives on cluster 'b'"));
  // With the cluster id that the consumer saw it is refused before anything is begun.
  testing::TestTxn txn(daemon_->coordinator());
  ASSERT_TRUE(txn.Produce("b", "out", "x").ok());
  v1::SendOffsetsRequest request = Offsets(txn.id(), "a", {.id = consumer.member_id()}, 5);
  request.set_kafka_cluster_id(Cluster("b").cluster_id());
  const grpc::Status refused = Send(request);
  EXPECT_EQ(refused.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("they belong on 'b'"));
}

TEST_F(OffsetsTest, AGroupOfNowhereIsFencedAndNothingIsSaidOfClusters) {
  const v1::CommitResponse response = Run({.id = "nobody"}, 5);
  ExpectFenced(response, 5, -1);
  EXPECT_THAT(response.abort().message(), Not(HasSubstr("lives on")));
}

// ---- KIP-848 groups -----------------------------------------------------------------------------

/// Kafka's own console consumer, for as long as this lives: the only member of a KIP-848 group.
class ConsoleMember {
 public:
  ConsoleMember(testing::KafkaCluster& cluster, const std::string& group)
      : ran_(std::async(std::launch::async, [&cluster, group] {
          return cluster.Tool(
              "org.apache.kafka.tools.consumer.ConsoleConsumer",
              {"--bootstrap-server", "{bootstrap}", "--topic", "in", "--group", group,
               "--consumer-property", "group.protocol=consumer", "--consumer-property",
               "enable.auto.commit=false", "--timeout-ms", "20000"});
        })) {}
  ~ConsoleMember() { ran_.wait(); }

 private:
  std::future<std::string> ran_;
};

TEST_F(OffsetsTest, AGroupOfTheNewProtocolCommitsAndIsFenced) {
  const ConsoleMember console(Cluster("a"), name_);
  daemon_->Await("the member", 30s, [&] {
    const wire::GroupFacts facts = Describe("a", name_);
    return facts.state == "Stable" && !facts.members.empty();
  });
  const wire::GroupFacts group = Describe("a", name_);
  EXPECT_TRUE(group.consumer_protocol);
  const Member member{.generation = group.members[0].epoch, .id = group.members[0].member_id};
  ExpectCommitted(Run(member, 5), 5);
  Member stale = member;
  stale.generation = 0;
  ExpectFenced(Run(stale, 9), 9, 5);
  ExpectFenced(Run({.generation = member.generation, .id = "nobody"}, 9), 9, 5);
  // And named with the other cluster, on which nobody knows it.
  const v1::CommitResponse response = Run(member, 9, "b");
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_GROUP_FENCED);
  EXPECT_THAT(response.abort().message(), HasSubstr("group '" + name_ + "' lives on cluster 'a'"));
  EXPECT_FALSE(Written(9));
}

// ---- By the application's own producers ---------------------------------------------------------

class OwnOffsetsTest : public OffsetsTest {
 protected:
  OwnOffsetsTest()
      : offsets_({"a", Bootstrap("a"), name_ + "-a"}),
        records_({"b", Bootstrap("b"), name_ + "-b"}) {
    offsets_.Start(daemon_->coordinator());
    records_.Start(daemon_->coordinator());
  }

  std::string Begin(std::int64_t offset) {
    const std::string txn = testing::TestTxn(daemon_->coordinator()).id();
    for (OwnProducer* producer : {&offsets_, &records_}) {
      EXPECT_TRUE(producer->Enlist(daemon_->coordinator(), txn).ok());
      producer->Begin();
    }
    records_.Write("out", name_ + std::to_string(offset));
    records_.Flush();
    return txn;
  }

  v1::CommitResponse CommitAll(const std::string& txn) {
    CallContext context;
    v1::CommitRequest request;
    request.set_txn_id(txn);
    *request.add_enlisted() = offsets_.work();
    *request.add_enlisted() = records_.work();
    v1::CommitResponse response;
    const grpc::Status status = daemon_->coordinator().Commit(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (OwnProducer* producer : {&offsets_, &records_}) {
      EXPECT_EQ(response.outcome() == v1::OUTCOME_COMMITTED ? producer->CommitOwn()
                                                            : producer->AbortOwn(),
                "");
    }
    return response;
  }

  void AbortAll(const std::string& txn) {
    CallContext context;
    v1::AbortRequest request;
    request.set_txn_id(txn);
    v1::AbortResponse response;
    EXPECT_TRUE(daemon_->coordinator().Abort(&context, request, &response).ok());
    EXPECT_EQ(response.outcome(), v1::OUTCOME_ABORTED);
    EXPECT_EQ(offsets_.AbortOwn(), "");
    EXPECT_EQ(records_.AbortOwn(), "");
  }

  OwnProducer offsets_;
  OwnProducer records_;
};

TEST_F(OwnOffsetsTest, OffsetsOfTheOneAndRecordsOfTheOtherCommitTogether) {
  GroupConsumer consumer(Bootstrap("a"), name_, "in");
  std::string txn = Begin(5);
  ASSERT_EQ(offsets_.SendOffsets({"in", 0}, 5, consumer.metadata().get(), name_), "");
  ExpectCommitted(CommitAll(txn), 5);

  // The group moves on between its word and Commit: the broker has taken it, and keeps it.
  txn = Begin(6);
  ASSERT_EQ(offsets_.SendOffsets({"in", 0}, 6, consumer.metadata().get(), name_), "");
  const auto old = consumer.metadata();
  const auto second = Join(consumer);
  ExpectCommitted(CommitAll(txn), 6);

  // A stale member's is refused to the producer itself, and the transaction aborts.
  txn = Begin(7);
  EXPECT_NE(offsets_.SendOffsets({"in", 0}, 7, old.get(), name_), "");
  AbortAll(txn);
  EXPECT_EQ(CommittedOffset(Bootstrap("a"), name_, {"in", 0}), 6);
  EXPECT_FALSE(Written(7));
}

/// No request of ours tells of it: the broker refuses the producer itself.
TEST_F(OwnOffsetsTest, OffsetsOfTheOtherClustersGroupAreRefused) {
  const GroupConsumer consumer(Bootstrap("b"), name_, "in");
  const std::string txn = Begin(5);
  EXPECT_NE(offsets_.SendOffsets({"in", 0}, 5, consumer.metadata().get(), name_), "");
  AbortAll(txn);
  for (const auto* cluster : {"a", "b"}) {
    EXPECT_EQ(CommittedOffset(Bootstrap(cluster), name_, {"in", 0}), -1);
  }
  EXPECT_FALSE(Written(5));
}

/// Its offsets are told as written, and the broker does not show them.
TEST_F(OwnOffsetsTest, OffsetsThatTheBrokerDoesNotShowAbort) {
  const std::string txn = Begin(5);
  CallContext context;
  v1::CommitRequest request;
  request.set_txn_id(txn);
  *request.add_enlisted() = records_.work();
  request.mutable_enlisted(0)->add_group_ids(name_);
  *request.add_enlisted() = offsets_.work();
  request.mutable_enlisted(1)->set_read_only(true);
  v1::CommitResponse response;
  ASSERT_TRUE(daemon_->coordinator().Commit(&context, request, &response).ok());
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_VOTE_MISMATCH) << response.DebugString();
  EXPECT_THAT(response.abort().message(), HasSubstr("__consumer_offsets"));
  EXPECT_EQ(records_.AbortOwn(), "");
  EXPECT_FALSE(Written(5));
}

}  // namespace
}  // namespace lockstep
