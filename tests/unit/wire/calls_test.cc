#include <algorithm>
#include <map>
#include <set>

#include "client_fixture.h"
#include "wire/messages.h"

/// What each call makes of what brokers answer.
namespace lockstep::wire {
namespace {

using protocol::ApiKey;
using protocol::Reader;
using protocol::Writer;
using txn::TopicPartition;

/// Two brokers that know each other, and a client of the first.
class TwoBrokersTest : public ClientTest {
 protected:
  TwoBrokersTest() {
    one_.cluster = two_.cluster = {&one_, &two_};
    one_.SetLeaders("t", {1, 2});
    two_.SetLeaders("t", {1, 2});
  }
  void Connect() { client_ = std::make_unique<Client>(io(), Options({&one_})); }

  FakeBroker one_{1};
  FakeBroker two_{2};
  std::unique_ptr<Client> client_;
};

// ---- Transactions -----------------------------------------------------------------------------

TEST_F(ClientTest, AnUnknownIdIsAnAnswer) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kDescribeTransactions, [](const FakeRequest&, Writer& w) {
    w.Int32(0);
    w.ArrayCount(1);
    w.Error(ErrorCode::kTransactionalIdNotFound);
    w.String("x");
    w.String("");
    w.Int32(0);
    w.Int64(0);
    w.Int64(0);
    w.Int16(0);
    w.ArrayCount(0);
    w.NoTags();
    w.NoTags();
    return true;
  });
  const auto client = Connect(broker);
  const auto description = StartDescribe(*client, "x").Get();
  ASSERT_TRUE(description.ok()) << ToString(description.error());
  EXPECT_FALSE(description->exists);
}

TEST_F(ClientTest, AnAnswerForAnotherIdIsCorrupt) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kDescribeTransactions, [](const FakeRequest&, Writer& w) {
    WriteDescription(w, "y", "CompleteCommit");
    return true;
  });
  const auto client = Connect(broker);
  const auto description = StartDescribe(*client, "x").Get();
  ASSERT_FALSE(description.ok());
  EXPECT_EQ(description.error().code, Code::kCorrupt);
}

TEST_F(ClientTest, EveryStateOfKafkaIsKnownAndANewOneIsUnknown) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  std::string state;
  broker.Handle(ApiKey::kDescribeTransactions, [&](const FakeRequest&, Writer& w) {
    WriteDescription(w, "x", state);
    return true;
  });
  const auto client = Connect(broker);
  using enum txn::KafkaTxnState;
  for (const auto expected : {kEmpty, kOngoing, kPrepareCommit, kPrepareAbort, kCompleteCommit,
                              kCompleteAbort, kDead, kPrepareEpochFence}) {
    state = Name(expected);
    EXPECT_EQ(StartDescribe(*client, "x").Get()->state, expected);
  }
  state = "Unknown";
  EXPECT_EQ(StartDescribe(*client, "x").Get()->state, kUnknown);
  state = "HalfDone";
  EXPECT_EQ(StartDescribe(*client, "x").Get()->state, kUnknown);
}

class ListTransactionsTest : public TwoBrokersTest {
 protected:
  static void AnswerList(FakeBroker& broker, const std::vector<std::string>& ids) {
    broker.Handle(ApiKey::kListTransactions, [ids](const FakeRequest&, Writer& w) {
      w.Int32(0);
      w.Error(ErrorCode::kNone);
      w.ArrayCount(0);
      w.Array(ids, [&](const std::string& id) {
        w.String(id);
        w.Int64(7);
        w.String("Ongoing");
        w.NoTags();
      });
      w.NoTags();
      return true;
    });
  }
  Result<TransactionListing> List(Duration timeout = kLong) {
    return Await<TransactionListing>([&](auto done) {
      client_->ListTransactions({{txn::KafkaTxnState::kOngoing}, "lockstep-"}, timeout, done);
    });
  }
};

TEST_F(ListTransactionsTest, MergesAllBrokersAndKeepsOurPrefix) {
  AnswerList(one_, {"lockstep-1", "other"});
  AnswerList(two_, {"lockstep-2"});
  Connect();
  const auto listing = List();
  ASSERT_TRUE(listing.ok()) << ToString(listing.error());
  EXPECT_TRUE(listing->failures.empty());
  std::set<std::string> ids;
  for (const auto& each : listing->transactions) ids.insert(each.transactional_id.get());
  EXPECT_EQ(ids, (std::set<std::string>{"lockstep-1", "lockstep-2"}));
  const FakeRequest request = two_.requests(ApiKey::kListTransactions).at(0);
  Reader r = request.Read();
  EXPECT_EQ(r.Array([&] { return r.String(); }), std::vector<std::string>{"Ongoing"});
}

TEST_F(ListTransactionsTest, TellsWhichBrokerFailed) {
  AnswerList(one_, {"lockstep-1"});
  two_.Hold(ApiKey::kListTransactions);
  Connect();
  const auto listing = List(kShort);
  ASSERT_TRUE(listing.ok()) << ToString(listing.error());
  EXPECT_EQ(listing->transactions.size(), 1U);
  ASSERT_EQ(listing->failures.size(), 1U);
  EXPECT_EQ(listing->failures[0].broker.node_id, 2);
  EXPECT_EQ(listing->failures[0].error.code, Code::kDeadlineExceeded);
}

TEST_F(ListTransactionsTest, TellsWhichPartOfTheLogNobodyLists) {
  AnswerList(one_, {});
  AnswerList(two_, {});
  one_.SetLeaders("__transaction_state", {1, -1, 2});
  Connect();
  const auto listing = List();
  ASSERT_TRUE(listing.ok()) << ToString(listing.error());
  ASSERT_EQ(listing->failures.size(), 1U);
  EXPECT_NE(listing->failures[0].error.message.find("__transaction_state-1"), std::string::npos);
}

// ---- The cluster ------------------------------------------------------------------------------

TEST_F(TwoBrokersTest, FactsComeFromEveryBroker) {
  one_.metadata_version_max = 29;
  two_.metadata_version_max = 29;
  Connect();
  const auto facts = Await<ClusterFacts>([&](auto done) { client_->GetFacts(kLong, done); });
  ASSERT_TRUE(facts.ok()) << ToString(facts.error());
  EXPECT_EQ(facts->cluster_id, KafkaClusterId("cluster-a"));
  EXPECT_EQ(facts->transaction_version, 2);
  ASSERT_EQ(facts->brokers.size(), 2U);
  EXPECT_TRUE(facts->brokers[0].reachable && facts->brokers[1].reachable);
  EXPECT_EQ(facts->brokers[1].metadata_version_max, 29);
  EXPECT_FALSE(facts->may_lose_markers);
}

TEST_F(TwoBrokersTest, OneBrokerOfTheNewReleaseIsEnoughToLoseMarkers) {
  one_.metadata_version_max = 29;
  two_.metadata_version_max = 30;
  Connect();
  EXPECT_TRUE(
      Await<ClusterFacts>([&](auto done) { client_->GetFacts(kLong, done); })->may_lose_markers);
}

TEST_F(TwoBrokersTest, ABrokerThatDoesNotAnswerMayBeOfAnyRelease) {
  one_.metadata_version_max = 29;
  two_.Hold(ApiKey::kApiVersions);
  Connect();
  const auto facts = Await<ClusterFacts>([&](auto done) { client_->GetFacts(kShort, done); });
  ASSERT_TRUE(facts.ok()) << ToString(facts.error());
  EXPECT_FALSE(facts->brokers[1].reachable);
  EXPECT_TRUE(facts->may_lose_markers);
}

TEST_F(TwoBrokersTest, TheLeastMaximumTimeoutCounts) {
  const auto answer = [](const char* value) {
    return [value](const FakeRequest&, Writer& w) {
      WriteMaxTimeout(w, value);
      return true;
    };
  };
  one_.Handle(ApiKey::kDescribeConfigs, answer("900000"));
  two_.Handle(ApiKey::kDescribeConfigs, answer("60000"));
  Connect();
  const auto timeout = Await<std::chrono::milliseconds>(
      [&](auto done) { client_->GetTransactionMaxTimeout(kLong, done); });
  ASSERT_TRUE(timeout.ok()) << ToString(timeout.error());
  EXPECT_EQ(*timeout, 60s);
}

// ---- Partitions -------------------------------------------------------------------------------

/// Answers ListOffsets: a code, or else an offset, a partition.
FakeBroker::Handler OffsetsHandler(std::map<TopicPartition, std::vector<std::int64_t>> answers) {
  return [answers](const FakeRequest& request, Writer& w) mutable {
    Reader r = request.Read();
    r.Int32();
    r.Int8();
    w.Int32(0);
    const auto topics = r.Array([&] {
      protocol::TopicPartitions topic{r.String(), {}};
      topic.partitions = r.Array([&] {
        const std::int32_t partition = r.Int32();
        r.Int32();
        r.Int64();
        r.SkipTags();
        return partition;
      });
      r.SkipTags();
      return topic;
    });
    w.Array(topics, [&](const protocol::TopicPartitions& topic) {
      w.String(topic.topic);
      w.Array(topic.partitions, [&](std::int32_t partition) {
        auto& left = answers.at({topic.topic, partition});
        const std::int64_t now = left.front();
        if (left.size() > 1) left.erase(left.begin());
        w.Int32(partition);
        w.Error(now < 0 ? static_cast<ErrorCode>(-now) : ErrorCode::kNone);
        w.Int64(-1);
        w.Int64(now);
        w.Int32(0);
        w.NoTags();
      });
      w.NoTags();
    });
    w.NoTags();
    return true;
  };
}

constexpr std::int64_t kMoved = -static_cast<std::int64_t>(ErrorCode::kNotLeaderOrFollower);

class ListOffsetsTest : public TwoBrokersTest {
 protected:
  Result<std::vector<PartitionOffset>> List(const std::vector<TopicPartition>& partitions,
                                            Duration timeout = kLong) {
    return Await<std::vector<PartitionOffset>>([&](auto done) {
      client_->ListOffsets(partitions, Isolation::kReadCommitted, timeout, done);
    });
  }
};

TEST_F(ListOffsetsTest, EachLeaderIsAskedOnceForAllItLeads) {
  one_.SetLeaders("t", {1, 2, 1});
  one_.SetLeaders("u", {1});
  one_.Handle(ApiKey::kListOffsets,
              OffsetsHandler({{{"t", 0}, {10}}, {{"t", 2}, {12}}, {{"u", 0}, {13}}}));
  two_.Handle(ApiKey::kListOffsets, OffsetsHandler({{{"t", 1}, {11}}}));
  Connect();
  const auto offsets = List({{"t", 2}, {"t", 1}, {"t", 0}, {"u", 0}});
  ASSERT_TRUE(offsets.ok());
  ASSERT_EQ(offsets->size(), 4U);
  EXPECT_EQ(*offsets->at(0).offset, 12);
  EXPECT_EQ(*offsets->at(1).offset, 11);
  EXPECT_EQ(*offsets->at(2).offset, 10);
  EXPECT_EQ(*offsets->at(3).offset, 13);
  EXPECT_EQ(one_.requests(ApiKey::kListOffsets).size(), 1U);
  const FakeRequest request = one_.requests(ApiKey::kListOffsets).at(0);
  Reader r = request.Read();
  EXPECT_EQ(r.Int32(), -1);
  EXPECT_EQ(r.Int8(), 1);  // read committed
}

TEST_F(ListOffsetsTest, AMovedLeaderIsLookedUpAgainAndOnlyItsPartitionIsAskedAgain) {
  one_.SetLeaders("t", {1, 1});
  two_.SetLeaders("t", {2, 1});
  one_.Handle(ApiKey::kListOffsets,
              [&, answer = OffsetsHandler({{{"t", 0}, {kMoved}}, {{"t", 1}, {11, 99}}})](
                  const FakeRequest& request, Writer& w) {
                one_.SetLeaders("t", {2, 1});
                return answer(request, w);
              });
  two_.Handle(ApiKey::kListOffsets, OffsetsHandler({{{"t", 0}, {10}}}));
  Connect();
  const auto offsets = List({{"t", 0}, {"t", 1}});
  ASSERT_TRUE(offsets.ok());
  ASSERT_TRUE(offsets->at(0).offset.ok()) << ToString(offsets->at(0).offset.error());
  EXPECT_EQ(*offsets->at(0).offset, 10);
  EXPECT_EQ(*offsets->at(1).offset, 11);
}

TEST_F(ListOffsetsTest, WhatDoesNotExistFailsAloneAndAtOnce) {
  one_.Handle(ApiKey::kListOffsets, OffsetsHandler({{{"t", 0}, {10}}}));
  Connect();
  const auto offsets = List({{"t", 0}, {"t", 7}, {"nope", 0}});
  ASSERT_TRUE(offsets.ok());
  EXPECT_EQ(*offsets->at(0).offset, 10);
  EXPECT_EQ(offsets->at(1).offset.error().code, Code::kNotFound);
  EXPECT_EQ(offsets->at(2).offset.error().code, Code::kNotFound);
}

TEST_F(ListOffsetsTest, APartitionWithoutLeaderKeepsOnlyItselfWaiting) {
  one_.SetLeaders("t", {1, -1});
  two_.SetLeaders("t", {1, -1});
  one_.Handle(ApiKey::kListOffsets, OffsetsHandler({{{"t", 0}, {10}}}));
  Connect();
  const auto offsets = List({{"t", 0}, {"t", 1}}, kShort);
  ASSERT_TRUE(offsets.ok());
  EXPECT_EQ(*offsets->at(0).offset, 10);
  ASSERT_FALSE(offsets->at(1).offset.ok());
  EXPECT_EQ(offsets->at(1).offset.error().code, Code::kDeadlineExceeded);
  EXPECT_NE(offsets->at(1).offset.error().message.find("no leader"), std::string::npos);
}

class FindMarkerTest : public TwoBrokersTest {
 protected:
  /// Serves a log of whole batches, `per_fetch` of them at a time, from the one that holds the
  /// offset on, or from one that comes before it.
  void ServeLog(std::vector<std::string> batches, std::size_t per_fetch,
                std::int64_t first_offset = 0, std::int64_t too_early = 0) {
    one_.Handle(ApiKey::kFetch, [=](const FakeRequest& request, Writer& w) {
      Reader r = request.Read();
      r.Raw(4 * 4 + 1 + 2 * 4 + 1);  // up to the topic
      r.String();
      r.Raw(1 + 2 * 4);
      const auto at = r.Int64() - first_offset;
      const auto size = static_cast<std::int64_t>(batches.size());
      std::string records;
      for (auto i = at - too_early;
           i >= 0 && i < size && i < at - too_early + static_cast<std::int64_t>(per_fetch); ++i) {
        records += batches.at(static_cast<std::size_t>(i));
      }
      w.Int32(0);
      w.Error(ErrorCode::kNone);
      w.Int32(0);
      w.ArrayCount(1);
      w.String("t");
      w.ArrayCount(1);
      w.Int32(0);
      w.Error(at < 0 || at > size ? ErrorCode::kOffsetOutOfRange : ErrorCode::kNone);
      w.Int64(first_offset + size);
      w.Int64(first_offset + size);
      w.Int64(first_offset);
      w.ArrayCount(0);
      w.Int32(-1);
      w.Bytes(records);
      w.NoTags();
      w.NoTags();
      w.NoTags();
      return true;
    });
  }
  /// A data batch of one record at an offset, patched in where EncodeRecordBatch writes 0.
  static std::string Data(std::int64_t offset, std::int64_t producer_id) {
    Writer w(0, false);
    w.Int64(offset);
    return w.Take() + testing::EncodeRecordBatch({producer_id, 0, 0, true, {"v"}}).substr(8);
  }
  Result<MarkerAnswer> Find(std::int64_t from, std::size_t max_bytes = 1 << 20) {
    return Await<MarkerAnswer>([&](auto done) {
      client_->FindMarker({{"t", 0}, from, ProducerId(7), max_bytes}, kLong, done);
    });
  }
};

using Kind = MarkerAnswer::Kind;

TEST_F(FindMarkerTest, PassesOverOthersAndReadsOn) {
  ServeLog({Data(0, 7), Data(1, 8), testing::EncodeMarker(2, 8, 0, false), Data(3, 7),
            testing::EncodeMarker(4, 7, 3, true), testing::EncodeMarker(5, 7, 3, false)},
           1);
  Connect();
  const auto marker = Find(0);
  ASSERT_TRUE(marker.ok()) << ToString(marker.error());
  EXPECT_EQ(marker->kind, Kind::kCommit);
  EXPECT_EQ(marker->offset, 4);
  EXPECT_EQ(marker->producer_epoch, ProducerEpoch(3));
  EXPECT_EQ(one_.requests(ApiKey::kFetch).size(), 5U);
}

TEST_F(FindMarkerTest, TheFirstMarkerAfterTheEvidenceCounts) {
  ServeLog(
      {testing::EncodeMarker(0, 7, 3, true), Data(1, 7), testing::EncodeMarker(2, 7, 3, false)}, 3);
  Connect();
  EXPECT_EQ(Find(1)->kind, Kind::kAbort);
  EXPECT_EQ(Find(0)->kind, Kind::kCommit);
}

TEST_F(FindMarkerTest, AMarkerBeforeTheEvidenceIsAnotherTransactions) {
  ServeLog({testing::EncodeMarker(0, 7, 3, false), testing::EncodeMarker(1, 7, 3, true)}, 2, 0, 1);
  Connect();
  const auto marker = Find(1);
  ASSERT_TRUE(marker.ok()) << ToString(marker.error());
  EXPECT_EQ(marker->kind, Kind::kCommit);
}

TEST_F(FindMarkerTest, NoneUpToTheEnd) {
  ServeLog({Data(0, 7), Data(1, 7)}, 1);
  Connect();
  const auto marker = Find(0);
  ASSERT_TRUE(marker.ok()) << ToString(marker.error());
  EXPECT_EQ(marker->kind, Kind::kNone);
  EXPECT_EQ(marker->offset, 2);
  EXPECT_EQ(Find(2)->kind, Kind::kNone);
}

TEST_F(FindMarkerTest, BelowTheLogsStartNothingCanBeSaid) {
  ServeLog({testing::EncodeMarker(5, 7, 3, true)}, 1, 5);
  Connect();
  EXPECT_EQ(Find(4)->kind, Kind::kOffsetOutOfRange);
  EXPECT_EQ(Find(5)->kind, Kind::kCommit);
  EXPECT_EQ(Find(7)->kind, Kind::kOffsetOutOfRange);
}

TEST_F(FindMarkerTest, GivesUpAfterSoManyBytes) {
  ServeLog({Data(0, 7), Data(1, 7), Data(2, 7), testing::EncodeMarker(3, 7, 3, true)}, 1);
  Connect();
  const auto marker = Find(0, 100);
  ASSERT_FALSE(marker.ok());
  EXPECT_EQ(marker.error().code, Code::kResourceExhausted);
}

TEST_F(FindMarkerTest, ADamagedMarkerIsNoOutcome) {
  std::string damaged = testing::EncodeMarker(0, 7, 3, true);
  damaged.back() ^= 1;
  ServeLog({damaged}, 1);
  Connect();
  const auto marker = Find(0);
  ASSERT_FALSE(marker.ok());
  EXPECT_EQ(marker.error().code, Code::kCorrupt);
}

class WriteTxnMarkersTest : public TwoBrokersTest {
 protected:
  WriteTxnMarkersTest() {
    one_.SetLeaders("t", {1});
    one_.Handle(ApiKey::kWriteTxnMarkers, [](const FakeRequest&, Writer& w) {
      w.ArrayCount(1);
      w.Int64(7);
      w.ArrayCount(1);
      w.String("t");
      w.ArrayCount(1);
      w.Int32(0);
      w.Error(ErrorCode::kNone);
      w.NoTags();
      w.NoTags();
      w.NoTags();
      w.NoTags();
      return true;
    });
  }
  /// The partition has producer 7 with an open transaction from `start` on, or none (-1).
  void OpenTxn(std::int64_t start, std::int32_t coordinator_epoch) {
    one_.Handle(ApiKey::kDescribeProducers, [=](const FakeRequest&, Writer& w) {
      w.Int32(0);
      w.ArrayCount(1);
      w.String("t");
      w.ArrayCount(1);
      w.Int32(0);
      w.Error(ErrorCode::kNone);
      w.NullableString(std::nullopt);
      w.ArrayCount(1);
      w.Int64(7);
      w.Int32(3);
      w.Int32(0);
      w.Int64(0);
      w.Int32(coordinator_epoch);
      w.Int64(start);
      w.NoTags();
      w.NoTags();
      w.NoTags();
      w.NoTags();
      return true;
    });
  }
  Result<std::vector<MarkerWritten>> Repair(std::int64_t evidence) {
    const MarkerWrite write{
        ProducerId(7), ProducerEpoch(3), txn::Direction::kCommit, {{{"t", 0}, evidence}}};
    return Await<std::vector<MarkerWritten>>(
        [&](auto done) { client_->WriteTxnMarkers(write, kLong, done); });
  }
};

TEST_F(WriteTxnMarkersTest, UsesTheEpochOfThePartitionsLastMarker) {
  OpenTxn(40, 12);
  Connect();
  const auto written = Repair(40);
  ASSERT_TRUE(written.ok()) << ToString(written.error());
  ASSERT_EQ(written->size(), 1U);
  EXPECT_TRUE(written->at(0).status.ok());
  const FakeRequest request = one_.requests(ApiKey::kWriteTxnMarkers).at(0);
  Reader r = request.Read();
  r.UnsignedVarint();
  EXPECT_EQ(r.Int64(), 7);
  EXPECT_EQ(r.Int16(), 3);
  EXPECT_TRUE(r.Bool());
  r.SkipArray([&] {
    EXPECT_EQ(r.String(), "t");
    r.SkipArray([&] { EXPECT_EQ(r.Int32(), 0); });
    r.SkipTags();
  });
  EXPECT_EQ(r.Int32(), 12);
}

TEST_F(WriteTxnMarkersTest, WritesNothingWhereNoTransactionIsOpen) {
  OpenTxn(-1, 12);
  Connect();
  const auto written = Repair(40);
  ASSERT_TRUE(written.ok()) << ToString(written.error());
  ASSERT_FALSE(written->at(0).status.ok());
  EXPECT_EQ(written->at(0).status.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(written->at(0).status.error().effect, Effect::kNone);
  EXPECT_TRUE(one_.requests(ApiKey::kWriteTxnMarkers).empty());
}

TEST_F(WriteTxnMarkersTest, WritesNothingIntoALaterTransaction) {
  OpenTxn(41, 12);
  Connect();
  const auto written = Repair(40);
  ASSERT_TRUE(written.ok()) << ToString(written.error());
  EXPECT_FALSE(written->at(0).status.ok());
  EXPECT_TRUE(one_.requests(ApiKey::kWriteTxnMarkers).empty());
}

// ---- Groups -----------------------------------------------------------------------------------

class DescribeGroupTest : public ClientTest {
 protected:
  DescribeGroupTest() { CoordinatedBy(broker_, broker_); }
  void Classic(const std::string& state, const std::vector<std::string>& members) {
    broker_.Handle(ApiKey::kDescribeGroups, [=](const FakeRequest&, Writer& w) {
      w.Int32(0);
      w.ArrayCount(1);
      w.Error(ErrorCode::kNone);
      w.String("g");
      w.String(state);
      w.String("consumer");
      w.String("range");
      w.Array(members, [&](const std::string& member) {
        w.String(member);
        w.NullableString(std::nullopt);
        w.String("c");
        w.String("h");
        w.Bytes("");
        w.Bytes("");
        w.NoTags();
      });
      w.Int32(0);
      w.NoTags();
      w.NoTags();
      return true;
    });
  }
  void Modern(ErrorCode error) {
    broker_.Handle(ApiKey::kConsumerGroupDescribe, [=](const FakeRequest&, Writer& w) {
      w.Int32(0);
      w.ArrayCount(1);
      w.Error(error);
      w.NullableString("text");
      w.String("g");
      w.String("Stable");
      w.Int32(6);
      w.Int32(6);
      w.String("uniform");
      w.ArrayCount(0);
      w.Int32(0);
      w.NoTags();
      w.NoTags();
      return true;
    });
  }
  Result<GroupFacts> Describe() {
    client_ = Connect(broker_);
    return Await<GroupFacts>([&](auto done) { client_->DescribeGroup("g", kLong, done); });
  }

  FakeBroker broker_;
  std::unique_ptr<Client> client_;
};

TEST_F(DescribeGroupTest, ClassicGroupsAreKnownByTheFirstAnswer) {
  Classic("Stable", {"m-1", "m-2"});
  const auto group = Describe();
  ASSERT_TRUE(group.ok()) << ToString(group.error());
  EXPECT_TRUE(group->exists);
  EXPECT_FALSE(group->consumer_protocol);
  ASSERT_EQ(group->members.size(), 2U);
  EXPECT_EQ(group->members[1].member_id, "m-2");
  EXPECT_TRUE(broker_.requests(ApiKey::kConsumerGroupDescribe).empty());
  const FakeRequest request = broker_.requests(ApiKey::kFindCoordinator).at(0);
  Reader r = request.Read();
  EXPECT_EQ(r.String(), "g");
  EXPECT_EQ(r.Int8(), 0);  // a group's coordinator
}

TEST_F(DescribeGroupTest, ADeadGroupMayBeOneOfTheNewProtocol) {
  Classic("Dead", {});
  Modern(ErrorCode::kNone);
  const auto group = Describe();
  ASSERT_TRUE(group.ok()) << ToString(group.error());
  EXPECT_TRUE(group->exists);
  EXPECT_TRUE(group->consumer_protocol);
  EXPECT_EQ(group->group_epoch, 6);
}

TEST_F(DescribeGroupTest, NoGroupOfEitherProtocolIsNoGroup) {
  Classic("Dead", {});
  for (const ErrorCode error : {ErrorCode::kGroupIdNotFound, ErrorCode::kUnsupportedVersion}) {
    Modern(error);
    const auto group = Describe();
    ASSERT_TRUE(group.ok()) << ToString(group.error());
    EXPECT_FALSE(group->exists);
  }
}

TEST_F(DescribeGroupTest, ABrokerWithoutTheNewProtocolHasNoSuchGroup) {
  Classic("Dead", {});
  broker_.versions[ApiKey::kConsumerGroupDescribe] = {1, 0};
  const auto group = Describe();
  ASSERT_TRUE(group.ok()) << ToString(group.error());
  EXPECT_FALSE(group->exists);
}

TEST_F(DescribeGroupTest, ARefusalIsNoAbsence) {
  Classic("Dead", {});
  Modern(ErrorCode::kGroupAuthorizationFailed);
  const auto group = Describe();
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace lockstep::wire
