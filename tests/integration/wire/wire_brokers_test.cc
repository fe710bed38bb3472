#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "clusters.h"
#include "wire/await.h"
#include "wire/client.h"
#include "wire/raw_client.h"

/// The wire client on real brokers, of the oldest and the newest release that are promised, and
/// what the design rests on: what brokers answer, and when.
namespace lockstep::wire {
namespace {

using namespace std::chrono_literals;
using testing::Await;
using testing::KafkaCluster;
using testing::Pending;
using testing::RawClient;
using testing::RawProducer;
using txn::Direction;
using txn::EndTxnProtocol;
using txn::KafkaTxnState;

constexpr Duration kLong = 60s;

const std::vector<std::string>& Versions() {
  static const std::vector<std::string> versions = {"3.9.1", "4.4.0"};
  return versions;
}

/// One cluster a version for the whole program.
KafkaCluster& ClusterOf(const std::string& version) {
  static const auto clusters = [] {
    std::vector<testing::KafkaClusterOptions> options;
    for (const std::string& each : Versions())
      options.push_back({.kafka = each, .topics = {"t:3"}});
    return StartKafkaClusters(options);
  }();
  return *clusters.at(version == Versions().front() ? 0 : 1);
}

IoThread& Io() {
  static IoThread thread;
  return thread;
}

std::unique_ptr<Client> ClientOf(const KafkaCluster& cluster) {
  ClientOptions options;
  options.bootstrap = {cluster.bootstrap().substr(0, cluster.bootstrap().find(','))};
  return std::make_unique<Client>(Io(), options);
}

template <typename Condition>
void AwaitCondition(const char* what, Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "waited for " << what;
    std::this_thread::sleep_for(2ms);  // the pace of polling
  }
}

class WireBrokersTest : public ::testing::TestWithParam<std::string> {
 protected:
  WireBrokersTest()
      : cluster_(ClusterOf(GetParam())),
        client_(ClientOf(cluster_)),
        raw_(cluster_.bootstrap()),
        id_(std::string("lockstep-") +
            ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        producer_(raw_, id_) {}

  /// A transaction that is left open would hold back the other tests' last stable offsets. Over a
  /// connection of its own, for the brokers may have been restarted.
  void TearDown() override {
    RawClient raw(cluster_.bootstrap());
    EXPECT_EQ(RawProducer(raw, id_).Init(), ErrorCode::kNone);
  }

  bool IsNew() const { return GetParam() == "4.4.0"; }

  void Begin(std::int32_t partition = 0) {
    if (producer_.producer_id() < 0) {
      ASSERT_EQ(producer_.Init(), ErrorCode::kNone);
    }
    ASSERT_EQ(producer_.AddPartition("t", partition), ErrorCode::kNone);
    ASSERT_EQ(producer_.Produce("t", partition, "v", &written_at_), ErrorCode::kNone);
  }
  txn::TxnDescription Describe() { return Describe(id_); }
  txn::TxnDescription Describe(const std::string& id) {
    auto result = Await<txn::TxnDescription>(
        [&](auto done) { client_->DescribeTransaction(TransactionalId(id), kLong, done); });
    EXPECT_TRUE(result.ok()) << ToString(result.error());
    return *result;
  }
  Result<EndTxnAnswer> End(Direction direction, EndTxnProtocol protocol = EndTxnProtocol::kTv1,
                           Attempts attempts = Attempts::kUntilDeadline) {
    const EndTxnRequest request{TransactionalId(id_), ProducerId(producer_.producer_id()),
                                ProducerEpoch(producer_.producer_epoch()), direction, protocol};
    return Await<EndTxnAnswer>([&](auto done) { client_->EndTxn(request, attempts, kLong, done); });
  }
  void AwaitState(KafkaTxnState state) {
    AwaitCondition("a transaction's state", [&] { return Describe().state == state; });
  }
  std::int64_t LastStableOffset(std::int32_t partition = 0) {
    const auto offsets = Await<std::vector<PartitionOffset>>([&](auto done) {
      client_->ListOffsets({{"t", partition}}, Isolation::kReadCommitted, kLong, done);
    });
    EXPECT_TRUE(offsets.ok() && offsets->at(0).offset.ok());
    return *offsets->at(0).offset;
  }
  MarkerAnswer Marker() {
    const MarkerQuery query{{"t", 0}, written_at_, ProducerId(producer_.producer_id())};
    const auto marker =
        Await<MarkerAnswer>([&](auto done) { client_->FindMarker(query, kLong, done); });
    EXPECT_TRUE(marker.ok()) << ToString(marker.error());
    return *marker;
  }

  KafkaCluster& cluster_;
  std::unique_ptr<Client> client_;
  RawClient raw_;
  std::string id_;
  RawProducer producer_;
  std::int64_t written_at_ = -1;
};

TEST_P(WireBrokersTest, Facts) {
  const auto facts = Await<ClusterFacts>([&](auto done) { client_->GetFacts(kLong, done); });
  ASSERT_TRUE(facts.ok()) << ToString(facts.error());
  EXPECT_EQ(facts->cluster_id.get(), cluster_.cluster_id());
  EXPECT_EQ(facts->transaction_version, IsNew() ? 2 : 0);
  ASSERT_EQ(facts->brokers.size(), 1U);
  EXPECT_TRUE(facts->brokers[0].reachable);
  EXPECT_EQ(facts->brokers[0].metadata_version_max, IsNew() ? 33 : 21);
  EXPECT_EQ(facts->may_lose_markers, IsNew());
}

TEST_P(WireBrokersTest, Topics) {
  const auto topics = Await<std::vector<TopicFacts>>([&](auto done) {
    client_->GetTopics({"t", "not-there"}, kLong, done);
  });
  ASSERT_TRUE(topics.ok()) << ToString(topics.error());
  ASSERT_EQ(topics->size(), 2U);
  for (const TopicFacts& topic : *topics) {
    const bool there = topic.topic == "t";
    EXPECT_EQ(topic.error, there ? ErrorCode::kNone : ErrorCode::kUnknownTopicOrPartition);
    EXPECT_EQ(topic.partitions.size(), there ? 3U : 0U);
  }
}

TEST_P(WireBrokersTest, CommitsWithTv1) {
  Begin();
  const txn::TxnDescription ongoing = Describe();
  EXPECT_EQ(ongoing.state, KafkaTxnState::kOngoing);
  EXPECT_EQ(ongoing.producer_id, ProducerId(producer_.producer_id()));
  EXPECT_EQ(ongoing.partitions, (std::vector<txn::TopicPartition>{{"t", 0}}));
  EXPECT_EQ(Marker().kind, MarkerAnswer::Kind::kNone);
  EXPECT_LE(LastStableOffset(), written_at_);

  const auto answer = End(Direction::kCommit);
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kNone);
  EXPECT_EQ(answer->version, 4);
  AwaitState(KafkaTxnState::kCompleteCommit);
  AwaitCondition("the marker", [&] { return LastStableOffset() > written_at_; });
  const MarkerAnswer marker = Marker();
  EXPECT_EQ(marker.kind, MarkerAnswer::Kind::kCommit);
  EXPECT_GT(marker.offset, written_at_);
  EXPECT_EQ(marker.producer_epoch, ProducerEpoch(producer_.producer_epoch()));

  EXPECT_EQ(End(Direction::kCommit)->error, ErrorCode::kNone);
  EXPECT_EQ(End(Direction::kAbort)->error, ErrorCode::kInvalidTxnState);
}

TEST_P(WireBrokersTest, AbortsWithTv1) {
  Begin();
  ASSERT_EQ(End(Direction::kAbort)->error, ErrorCode::kNone);
  AwaitState(KafkaTxnState::kCompleteAbort);
  AwaitCondition("the marker", [&] { return LastStableOffset() > written_at_; });
  EXPECT_EQ(Marker().kind, MarkerAnswer::Kind::kAbort);
}

TEST_P(WireBrokersTest, Tv2WhereItIsFinalizedAndNowhereElse) {
  Begin();
  const auto answer = End(Direction::kCommit, EndTxnProtocol::kTv2);
  if (!IsNew()) {
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Code::kUnimplemented);
    EXPECT_EQ(answer.error().effect, Effect::kNone);
    EXPECT_EQ(Describe().state, KafkaTxnState::kOngoing);
    return;
  }
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kNone);
  EXPECT_EQ(answer->version, 5);
  EXPECT_EQ(answer->identity.producer_epoch.get(), producer_.producer_epoch() + 1);
  AwaitState(KafkaTxnState::kCompleteCommit);
  EXPECT_EQ(Describe().producer_epoch, answer->identity.producer_epoch);
}

TEST_P(WireBrokersTest, InitProducerIdFencesAndAborts) {
  Begin();
  const auto identity = Await<ProducerIdentity>(
      [&](auto done) { client_->InitProducerId(TransactionalId(id_), 60s, kLong, done); });
  ASSERT_TRUE(identity.ok()) << ToString(identity.error());
  EXPECT_GT(identity->producer_epoch.get(), producer_.producer_epoch());
  EXPECT_EQ(End(Direction::kCommit)->error, ErrorCode::kProducerFenced);
  AwaitCondition("the marker", [&] { return LastStableOffset() > written_at_; });
  EXPECT_EQ(Marker().kind, MarkerAnswer::Kind::kAbort);
}

TEST_P(WireBrokersTest, ATimeoutAboveTheBrokersMaximumIsInvalid) {
  const auto maximum = Await<std::chrono::milliseconds>(
      [&](auto done) { client_->GetTransactionMaxTimeout(kLong, done); });
  ASSERT_TRUE(maximum.ok()) << ToString(maximum.error());
  EXPECT_EQ(*maximum, 15min);
  const auto identity = Await<ProducerIdentity>([&](auto done) {
    client_->InitProducerId(TransactionalId(id_), *maximum + 1ms, kLong, done);
  });
  ASSERT_FALSE(identity.ok());
  EXPECT_EQ(identity.error().code, Code::kInvalidArgument);
}

TEST_P(WireBrokersTest, AnUnknownIdDoesNotExist) { EXPECT_FALSE(Describe("never-seen").exists); }

TEST_P(WireBrokersTest, ListsByStateAndPrefix) {
  Begin();
  const auto list = [&](std::vector<KafkaTxnState> states, const std::string& prefix) {
    std::set<std::string> ids;
    const auto listing = Await<TransactionListing>([&](auto done) {
      client_->ListTransactions({states, prefix}, kLong, done);
    });
    EXPECT_TRUE(listing.ok() && listing->failures.empty());
    for (const auto& each : listing->transactions) ids.insert(each.transactional_id.get());
    return ids;
  };
  EXPECT_EQ(list({KafkaTxnState::kOngoing}, id_), std::set<std::string>{id_});
  EXPECT_TRUE(list({}, id_).contains(id_));
  EXPECT_TRUE(list({KafkaTxnState::kCompleteCommit}, id_).empty());
  EXPECT_TRUE(list({KafkaTxnState::kOngoing}, "other-").empty());
}

TEST_P(WireBrokersTest, OffsetsOfWhatIsThereAndErrorsForWhatIsNot) {
  Begin(2);
  const auto offsets = Await<std::vector<PartitionOffset>>([&](auto done) {
    client_->ListOffsets({{"t", 2}, {"t", 9}, {"not-there", 0}}, Isolation::kReadUncommitted, kLong,
                         done);
  });
  ASSERT_TRUE(offsets.ok());
  EXPECT_EQ(*offsets->at(0).offset, written_at_ + 1);
  EXPECT_EQ(offsets->at(1).offset.error().code, Code::kNotFound);
  EXPECT_EQ(offsets->at(2).offset.error().code, Code::kNotFound);
}

/// The markers that KAFKA-20734 leaves out look just like those of a transaction that is still
/// open.
TEST_P(WireBrokersTest, WritesAMissingMarker) {
  Begin();
  const auto repair = [&](std::int64_t evidence) {
    const MarkerWrite write{ProducerId(producer_.producer_id()),
                            ProducerEpoch(producer_.producer_epoch()),
                            Direction::kCommit,
                            {{{"t", 0}, evidence}}};
    return Await<std::vector<MarkerWritten>>(
        [&](auto done) { client_->WriteTxnMarkers(write, kLong, done); });
  };
  const auto too_early = repair(written_at_ - 1);
  ASSERT_TRUE(too_early.ok() && too_early->size() == 1);
  EXPECT_EQ(too_early->at(0).status.error().code, Code::kFailedPrecondition);
  EXPECT_LE(LastStableOffset(), written_at_);

  const auto written = repair(written_at_);
  ASSERT_TRUE(written.ok() && written->size() == 1);
  EXPECT_TRUE(written->at(0).status.ok()) << ToString(written->at(0).status.error());
  EXPECT_GT(LastStableOffset(), written_at_);
  EXPECT_EQ(Marker().kind, MarkerAnswer::Kind::kCommit);
  EXPECT_FALSE(repair(written_at_)->at(0).status.ok());
}

TEST_P(WireBrokersTest, Groups) {
  const auto describe = [&](const std::string& group) {
    const auto facts =
        Await<GroupFacts>([&](auto done) { client_->DescribeGroup(group, kLong, done); });
    EXPECT_TRUE(facts.ok()) << ToString(facts.error());
    return *facts;
  };
  EXPECT_FALSE(describe("no-such-group").exists);

  Begin();
  ASSERT_EQ(producer_.AddGroup("classic"), ErrorCode::kNone);
  testing::TxnOffsetCommit commit;
  commit.transactional_id = id_;
  commit.group_id = "classic";
  commit.producer_id = producer_.producer_id();
  commit.producer_epoch = producer_.producer_epoch();
  commit.topic = "t";
  ASSERT_EQ(raw_.Ask(commit, 3).error, ErrorCode::kNone);
  ASSERT_EQ(producer_.EndAndSettle(true, 4), ErrorCode::kNone);
  const GroupFacts classic = describe("classic");
  EXPECT_TRUE(classic.exists);
  EXPECT_FALSE(classic.consumer_protocol);
  EXPECT_EQ(classic.state, "Empty");

  if (!IsNew()) return;  // 3.9 has KIP-848 switched off.
  const auto joined = raw_.Ask(testing::ConsumerGroupHeartbeat{"modern", "t"});
  ASSERT_EQ(joined.error, ErrorCode::kNone) << joined.error_message;
  const GroupFacts modern = describe("modern");
  EXPECT_TRUE(modern.exists);
  EXPECT_TRUE(modern.consumer_protocol);
  ASSERT_EQ(modern.members.size(), 1U);
  EXPECT_EQ(modern.members[0].member_id, joined.member_id);
  EXPECT_EQ(modern.members[0].epoch, joined.member_epoch);
}

/// (producer id, epoch, start time) names a transaction from Ongoing to Complete:
/// docs/design/wire.md.
TEST_P(WireBrokersTest, TheStartTimeStaysWithItsTransaction) {
  ASSERT_EQ(producer_.Init(), ErrorCode::kNone);
  EXPECT_EQ(Describe().start_time_ms, -1);
  Begin(0);
  const std::int64_t first = Describe().start_time_ms;
  EXPECT_GT(first, 0);
  Begin(1);
  EXPECT_EQ(Describe().start_time_ms, first);
  ASSERT_EQ(End(Direction::kCommit)->error, ErrorCode::kNone);
  EXPECT_EQ(Describe().start_time_ms, first);
  AwaitState(KafkaTxnState::kCompleteCommit);
  EXPECT_EQ(Describe().start_time_ms, first);

  Begin(0);
  const std::int64_t second = Describe().start_time_ms;
  EXPECT_GT(second, first);
  ASSERT_EQ(End(Direction::kAbort)->error, ErrorCode::kNone);
  AwaitState(KafkaTxnState::kCompleteAbort);
  EXPECT_EQ(Describe().start_time_ms, second);
}

TEST_P(WireBrokersTest, ATimedOutTransactionKeepsItsStartTimeUnderTheNextEpoch) {
  ASSERT_EQ(producer_.Init(1s), ErrorCode::kNone);
  Begin();
  const txn::TxnDescription ongoing = Describe();
  AwaitState(KafkaTxnState::kCompleteAbort);
  const txn::TxnDescription aborted = Describe();
  EXPECT_EQ(aborted.start_time_ms, ongoing.start_time_ms);
  EXPECT_EQ(aborted.producer_epoch.get(), ongoing.producer_epoch.get() + 1);
  EXPECT_EQ(End(Direction::kCommit)->error, ErrorCode::kProducerFenced);
}

TEST_P(WireBrokersTest, ACallOutlivesABrokersRestart) {
  Begin();
  cluster_.Kill();
  const EndTxnRequest request{TransactionalId(id_), ProducerId(producer_.producer_id()),
                              ProducerEpoch(producer_.producer_epoch()), Direction::kCommit,
                              EndTxnProtocol::kTv1};
  Pending<EndTxnAnswer> pending(
      [&](auto done) { client_->EndTxn(request, Attempts::kUntilDeadline, 2 * kLong, done); });
  cluster_.Restart();
  const auto answer = pending.Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kNone);
  AwaitState(KafkaTxnState::kCompleteCommit);
}

INSTANTIATE_TEST_SUITE_P(Kafka, WireBrokersTest, ::testing::ValuesIn(Versions()),
                         [](const auto& p) { return p.param == "3.9.1" ? "v3_9_1" : "v4_4_0"; });

// ---- Clusters of their own --------------------------------------------------------------------

TEST(WireClusterTest, AWipedClusterIsRefusedOnceItIsPinned) {
  KafkaCluster cluster({.topics = {"t"}});
  const auto client = ClientOf(cluster);
  client->PinClusterId(KafkaClusterId(cluster.cluster_id()));
  const auto topics = [&] {
    return Await<std::vector<TopicFacts>>(
        [&](auto done) { client->GetTopics({"t"}, kLong, done); });
  };
  ASSERT_TRUE(topics().ok());
  cluster.Wipe();
  const auto refused = topics();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  const auto facts = Await<ClusterFacts>([&](auto done) { client->GetFacts(kLong, done); });
  ASSERT_TRUE(facts.ok()) << ToString(facts.error());
  EXPECT_EQ(facts->cluster_id.get(), cluster.cluster_id());
}

/// Three nodes, the transaction log on all of them; the coordinator hangs, then is gone.
TEST(WireClusterTest, FollowsTheCoordinatorToAnotherBroker) {
  KafkaCluster cluster({.nodes = 3,
                        .properties = {{"transaction.state.log.replication.factor", "3"},
                                       {"transaction.state.log.min.isr", "1"}},
                        .topics = {"t:1@1"}});
  const auto client = ClientOf(cluster);
  const auto coordinator_of = [&](const std::string& id) {
    const auto found = Await<BrokerAddress>([&](auto done) {
      client->FindCoordinator(CoordinatorType::kTransaction, id, kLong, done);
    });
    EXPECT_TRUE(found.ok()) << ToString(found.error());
    return *found;
  };
  std::string id;
  BrokerAddress home;
  for (int i = 0; i == 0 || home.node_id == 1; ++i) {  // Node 1 is the controller: it must stay.
    id = "mover-" + std::to_string(i);
    home = coordinator_of(id);
  }
  const auto identity = Await<ProducerIdentity>(
      [&](auto done) { client->InitProducerId(TransactionalId(id), 60s, kLong, done); });
  ASSERT_TRUE(identity.ok()) << ToString(identity.error());
  RawClient at_home(home.host + ":" + std::to_string(home.port));
  testing::AddPartitionsToTxn add;
  add.transactional_id = id;
  add.producer_id = identity->producer_id.get();
  add.producer_epoch = identity->producer_epoch.get();
  add.topics = {{"t", {0}}};
  ASSERT_EQ(at_home.Ask(add).partitions.at(0).error, ErrorCode::kNone);

  cluster.Pause(home.node_id);
  const EndTxnRequest request{TransactionalId(id), identity->producer_id, identity->producer_epoch,
                              Direction::kCommit, EndTxnProtocol::kTv1};
  const auto answer = Await<EndTxnAnswer>(
      [&](auto done) { client->EndTxn(request, Attempts::kUntilDeadline, kLong, done); });
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kNone);
  EXPECT_TRUE(answer->unanswered_before);
  EXPECT_NE(coordinator_of(id).node_id, home.node_id);
}

}  // namespace
}  // namespace lockstep::wire
