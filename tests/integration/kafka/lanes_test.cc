// What one lane does for one transaction after another, on a healthy broker of each version.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.h"

namespace lockstep::kafka::testing {
namespace {

using coordinator::ClusterState;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using txn::AbortReason;
using txn::KafkaTxnState;

class LanesTest : public ::testing::TestWithParam<std::string>, public LanesFixture {
 protected:
  LanesTest() : LanesFixture(BrokerOf(GetParam())) { NewProcess(); }

  /// Consumed up to `offset` in partition 0 of this test's topic.
  txn::GroupOffsets Offsets(const std::string& group, std::int64_t offset) const {
    txn::GroupOffsets offsets;
    offsets.group_id = group;
    offsets.standalone = true;
    offsets.offsets = {{{topic_, 0}, offset, -1, "meta"}};
    return offsets;
  }
  std::string CommittedOffsets(const std::string& group) {
    return broker_.Tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        {"--bootstrap-server", "{bootstrap}", "--describe", "--offsets", "--group", group});
  }
};

INSTANTIATE_TEST_SUITE_P(Kafka, LanesTest, ::testing::Values("4.4.0", "3.9.1"), VersionName);

// ---- The way it goes ----------------------------------------------------------------------------

TEST_P(LanesTest, PreparedIsInvisibleAndCommittedIsVisible) {
  const auto branch = NewBranch();
  const MonoTime before = process_->clock().Now();
  const txn::Vote vote =
      branch->Prepare(Records({MakeRecord(topic_, "x", 0), MakeRecord(topic_, "y", 2)}));
  ASSERT_EQ(vote.kind, txn::Vote::Kind::kYes) << vote.refusal.message;

  const txn::ParticipantName& name = vote.prepared.name;
  EXPECT_EQ(name.cluster.get(), "a");
  EXPECT_EQ(name.kafka_cluster_id.get(), broker_.cluster_id());
  EXPECT_EQ(name.protocol, txn::EndTxnProtocol::kTv1);
  EXPECT_THAT(name.transactional_id.get(), HasSubstr("lockstep-" + folder_.log_id.get() + "-1-a-"));
  EXPECT_THAT(vote.prepared.evidence,
              ElementsAre(txn::Evidence{{topic_, 0}, 0}, txn::Evidence{{topic_, 2}, 0}));
  EXPECT_GE(vote.deadline, before + std::chrono::seconds(60));
  EXPECT_LE(vote.deadline, process_->clock().Now() + std::chrono::seconds(60));
  EXPECT_EQ(vote.prepared.deadline.ms, name.start_time_ms + 60'000);

  const txn::TxnDescription open = Describe(name);
  EXPECT_EQ(open.state, KafkaTxnState::kOngoing);
  EXPECT_EQ(open.start_time_ms, name.start_time_ms);
  EXPECT_THAT(Committed(::lockstep::testing::Open::kStopAtThem), IsEmpty());

  ASSERT_TRUE(branch->Commit().ok());
  EXPECT_TRUE(BecomesState(name, KafkaTxnState::kCompleteCommit));
  EXPECT_THAT(Committed(), ElementsAre("x", "y"));
  EXPECT_THAT(Markers(vote.prepared),
              ElementsAre(txn::MarkerFound::kCommit, txn::MarkerFound::kCommit));
  branch->Release();
}

TEST_P(LanesTest, AbortedIsNeverVisible) {
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  branch->Abort();
  EXPECT_TRUE(BecomesState(prepared.name, KafkaTxnState::kCompleteAbort));
  EXPECT_THAT(Markers(prepared), ElementsAre(txn::MarkerFound::kAbort));
  branch->Release();
  CommitOne("y");
  EXPECT_THAT(Committed(), ElementsAre("y"));
}

TEST_P(LanesTest, NullAndEmptyStayDifferent) {
  std::vector<txn::Record> records(4, MakeRecord(topic_, "", 0));
  records[0].value = std::nullopt;
  records[1].key = "";
  records[2].key = "k";
  records[3].headers = {{"none", std::nullopt}, {"empty", ""}, {"full", "v"}};
  records[3].timestamp_ms = 1'700'000'000'000;
  const auto branch = NewBranch();
  PrepareYes(*branch, Records(records));
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();
  const auto read = ::lockstep::testing::ReadTopic(broker_.bootstrap(), topic_);
  ASSERT_EQ(read.size(), 4u);
  EXPECT_EQ(read[0].value, std::nullopt);
  EXPECT_EQ(read[0].key, std::nullopt);
  EXPECT_EQ(read[1].value, "");
  EXPECT_EQ(read[1].key, "");
  EXPECT_EQ(read[2].key, "k");
  // Kafka 4.2 renamed it.
  const std::string property = GetParam().starts_with("3.") ? "--property" : "--formatter-property";
  const std::string console = broker_.Tool(
      "org.apache.kafka.tools.consumer.ConsoleConsumer",
      {"--bootstrap-server", "{bootstrap}", "--topic", topic_, "--partition", "0", "--offset", "3",
       "--max-messages", "1", "--timeout-ms", "10000", property, "print.headers=true", property,
       "print.timestamp=true", property, "null.literal=(null)"});
  EXPECT_THAT(console,
              AllOf(HasSubstr("none:(null),empty:,full:v"), HasSubstr("CreateTime:1700000000000")));
}

// Java's murmur2: what any other producer of the user's would choose.
TEST_P(LanesTest, KeysGoWhereJavasProducersPutThem) {
  std::vector<txn::Record> records;
  for (const char* key : {"foobar", "21", "abc", "a-little-bit-long-string"}) {
    records.push_back(MakeRecord(topic_, key));
    records.back().key = key;
  }
  const auto branch = NewBranch();
  PrepareYes(*branch, Records(records));
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();
  std::map<std::string, std::int32_t> partitions;
  for (const auto& record : ::lockstep::testing::ReadTopic(broker_.bootstrap(), topic_)) {
    partitions[*record.key] = record.partition;
  }
  // toPositive(murmur2(key)) % 3, by org.apache.kafka.common.utils.Utils' own test values.
  const auto expected = [](std::int32_t hash) { return (hash & 0x7fffffff) % 3; };
  EXPECT_EQ(partitions["21"], expected(-973932308));
  EXPECT_EQ(partitions["foobar"], expected(-790332482));
  EXPECT_EQ(partitions["abc"], expected(479470107));
  EXPECT_EQ(partitions["a-little-bit-long-string"], expected(-985981536));
}

TEST_P(LanesTest, AThousandRecordsAndTheirEvidence) {
  std::vector<txn::Record> records;
  for (int i = 0; i < 1000; ++i) records.push_back(MakeRecord(topic_, std::to_string(i), i % 3));
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, Records(records));
  EXPECT_THAT(prepared.evidence,
              ElementsAre(txn::Evidence{{topic_, 0}, 333}, txn::Evidence{{topic_, 1}, 332},
                          txn::Evidence{{topic_, 2}, 332}));
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();
  EXPECT_EQ(Committed().size(), 1000u);
}

// ---- In pieces ----------------------------------------------------------------------------------

TEST_P(LanesTest, PiecesAreWrittenBeforeTheVote) {
  CommitOne("before");
  const auto branch = NewBranch();
  auto vote = branch->Stream();
  for (int piece = 0; piece < 5; ++piece) {
    std::vector<txn::Record> records;
    for (int i = 0; i < 100; ++i) {
      records.push_back(MakeRecord(topic_, std::to_string(piece * 100 + i), 0));
    }
    ASSERT_EQ(branch->Write(Records(records)).wait_for(std::chrono::seconds(20)),
              std::future_status::ready);
  }
  EXPECT_FALSE(branch->voted());
  EXPECT_THAT(Committed(::lockstep::testing::Open::kStopAtThem), ElementsAre("before"));

  txn::BranchWork last = One("last");
  last.offsets = {Offsets("pieces", 7)};
  branch->Write(last);
  branch->Finish();
  const txn::Vote yes = vote.get();
  ASSERT_EQ(yes.kind, txn::Vote::Kind::kYes) << yes.refusal.message;
  ASSERT_NE(yes.positions, nullptr);
  ASSERT_EQ(yes.positions->size(), 501u);
  EXPECT_EQ(yes.positions->back().offset, yes.positions->front().offset + 500);
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();

  const std::vector<std::string> read = Committed();
  ASSERT_EQ(read.size(), 502u);
  EXPECT_EQ(read[1], "0");
  EXPECT_EQ(read[500], "499");
  EXPECT_EQ(read.back(), "last");
  EXPECT_THAT(CommittedOffsets("pieces"), HasSubstr(topic_));
}

TEST_P(LanesTest, AStreamThatIsAbortedIsNeverVisible) {
  const auto branch = NewBranch();
  auto vote = branch->Stream();
  branch->Write(One("x")).wait();
  branch->Write(One("y"));
  branch->Abort();
  branch->Release();
  EXPECT_FALSE(branch->voted());
  CommitOne("z");
  EXPECT_THAT(Committed(), ElementsAre("z"));
}

TEST_P(LanesTest, WhatIsWrongWithAPieceIsToldAtOnce) {
  const auto branch = NewBranch();
  auto vote = branch->Stream();
  branch->Write(Records({MakeRecord(topic_, "1"), MakeRecord(topic_, "2")})).wait();
  txn::Record third = MakeRecord(topic_, "3");
  third.timestamp_ms = -1;
  branch->Write(Records({third}));
  const txn::Vote no = vote.get();
  EXPECT_EQ(no.kind, txn::Vote::Kind::kNo);
  EXPECT_EQ(no.refusal.reason, AbortReason::kInvalidRecord);
  EXPECT_THAT(no.refusal.message, HasSubstr("record 3: timestamp -1"));
  branch->Abort();
  branch->Release();

  const auto other = NewBranch();
  auto refused = other->Stream();
  other->Write(One("4")).wait();
  other->Write(Records({MakeRecord("no-such-topic", "5")}));
  const txn::Vote unknown = refused.get();
  EXPECT_EQ(unknown.refusal.reason, AbortReason::kUnknownTopic);
  other->Abort();
  other->Release();
  CommitOne("z");
  EXPECT_THAT(Committed(), ElementsAre("z"));
}

TEST_P(LanesTest, PiecesThatComeBeforeALaneIsFreeWaitForIt) {
  const auto first = NewBranch();  // There is one lane.
  PrepareYes(*first, One("first"));
  const auto branch = NewBranch();
  auto vote = branch->Stream();
  auto written = branch->Write(One("second"));
  branch->Finish();
  ASSERT_TRUE(first->Commit().ok());
  first->Release();
  const txn::Vote yes = vote.get();
  ASSERT_EQ(yes.kind, txn::Vote::Kind::kYes) << yes.refusal.message;
  EXPECT_EQ(written.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();
  EXPECT_THAT(Committed(), ElementsAre("first", "second"));
}

// The broker would end it, and the records written so far would be lost without a word.
TEST_P(LanesTest, KafkasOwnTimeoutIsToldBeforeCommit) {
  ClusterConfig config = Config();
  config.transaction_timeout = std::chrono::seconds(2);
  NewProcess(config);
  const auto branch = NewBranch();
  auto vote = branch->Stream(std::chrono::minutes(5));
  branch->Write(One("x")).wait();
  const txn::Vote no = vote.get();
  EXPECT_EQ(no.refusal.reason, AbortReason::kDeadlineTooClose);
  EXPECT_THAT(no.refusal.message, HasSubstr("raise the cluster's transaction_timeout"));
  branch->Abort();
  branch->Release();
  CommitOne("z");
  EXPECT_THAT(Committed(), ElementsAre("z"));
}

TEST_P(LanesTest, NothingToWriteIsAReadOnlyVote) {
  for (const bool empty_group : {false, true}) {
    txn::BranchWork work;
    if (empty_group) {
      work.offsets = {Offsets("g", 1)};
      work.offsets[0].offsets.clear();
    }
    const auto branch = NewBranch();
    EXPECT_EQ(branch->Prepare(work).kind, txn::Vote::Kind::kReadOnly);
    branch->Release();
  }
}

// ---- Group offsets ------------------------------------------------------------------------------

TEST_P(LanesTest, OffsetsCommitWithTheRecords) {
  const std::string group = FreshName("g");
  txn::BranchWork work = One("x");
  work.offsets = {Offsets(group, 41)};
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, work);
  ASSERT_EQ(prepared.evidence.size(), 2u);
  std::set<std::string> topics;
  for (const auto& evidence : prepared.evidence) topics.insert(evidence.partition.topic);
  EXPECT_THAT(topics, ElementsAre("__consumer_offsets", topic_));
  ASSERT_TRUE(branch->Commit().ok());
  EXPECT_TRUE(
      Eventually([&] { return Markers(prepared) == std::vector(2, txn::MarkerFound::kCommit); }));
  branch->Release();
  EXPECT_THAT(CommittedOffsets(group), HasSubstr(" 41 "));
}

TEST_P(LanesTest, OffsetsAloneMakeATransaction) {
  txn::BranchWork work;
  work.offsets = {Offsets(FreshName("g"), 7), Offsets(FreshName("g"), 8)};
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, work);
  branch->Abort();
  EXPECT_TRUE(Eventually([&] {
    return Markers(prepared) == std::vector(prepared.evidence.size(), txn::MarkerFound::kAbort);
  }));
  branch->Release();
}

TEST_P(LanesTest, AFencedGroupIsNoAndTheLaneSurvives) {
  const txn::ParticipantName before = CommitOne("x");
  txn::BranchWork work = One("y");
  work.offsets = {Offsets(FreshName("no-such-group"), 1)};
  work.offsets[0].standalone = false;
  work.offsets[0].generation = 3;
  work.offsets[0].member_id = "member-of-nothing";
  const txn::Refusal refusal = PrepareNo(work, AbortReason::kGroupFenced);
  EXPECT_THAT(refusal.message, HasSubstr("no-such-group"));
  EXPECT_FALSE(refusal.retriable);
  const txn::ParticipantName after = CommitOne("z");
  EXPECT_EQ(after.producer_epoch, before.producer_epoch);
  EXPECT_THAT(Committed(), ElementsAre("x", "z"));
}

TEST_P(LanesTest, OffsetsWithoutIdentityMustSayStandalone) {
  txn::BranchWork work;
  work.offsets = {Offsets("g", 1)};
  work.offsets[0].standalone = false;
  EXPECT_THAT(PrepareNo(work, AbortReason::kGroupFenced).message, HasSubstr("standalone"));
}

// ---- Bad records --------------------------------------------------------------------------------

TEST_P(LanesTest, ABadRecordIsRefusedBeforeAnythingIsWritten) {
  const txn::ParticipantName before = CommitOne("x");
  EXPECT_THAT(PrepareNo(Records({MakeRecord(topic_, "y", 0), MakeRecord("no-such-topic", "y")}),
                        AbortReason::kUnknownTopic)
                  .message,
              HasSubstr("'no-such-topic'"));
  EXPECT_THAT(
      PrepareNo(Records({MakeRecord(topic_, "y", 3)}), AbortReason::kUnknownPartition).message,
      AllOf(HasSubstr(topic_), HasSubstr("no partition 3"), HasSubstr("it has 3")));
  EXPECT_THAT(
      PrepareNo(Records({MakeRecord("bad topic!", "y")}), AbortReason::kInvalidRecord).message,
      HasSubstr("bad topic!"));
  txn::Record timeless = MakeRecord(topic_, "y", 0);
  timeless.timestamp_ms = -5;
  PrepareNo(Records({timeless}), AbortReason::kInvalidRecord);
  // Nothing was begun since.
  EXPECT_TRUE(BecomesState(before, KafkaTxnState::kCompleteCommit));
  EXPECT_EQ(CommitOne("z").producer_epoch, before.producer_epoch);
  EXPECT_THAT(Committed(), ElementsAre("x", "z"));
}

TEST_P(LanesTest, PartitionsAddedLaterAreFound) {
  CommitOne("x");
  broker_.Tool(
      "org.apache.kafka.tools.TopicCommand",
      {"--bootstrap-server", "{bootstrap}", "--alter", "--topic", topic_, "--partitions", "5"});
  const auto branch = NewBranch();
  PrepareYes(*branch, Records({MakeRecord(topic_, "y", 4)}));
  ASSERT_TRUE(branch->Commit().ok());
  branch->Release();
}

TEST_P(LanesTest, ARecordThatTheBrokerFindsTooLargeIsNamed) {
  CommitOne("x");
  txn::BranchWork work = Records({MakeRecord(topic_, "y", 0), MakeRecord(topic_, "", 1)});
  work.records[1].value = std::string(2'000'000, 'z');
  const txn::Refusal refusal = PrepareNo(work, AbortReason::kRecordTooLarge);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("record 2 of 2"), HasSubstr(topic_ + "-1")));
  EXPECT_THAT(refusal.message, Not(HasSubstr("zz"))) << "the record's value";
  CommitOne("z");
  EXPECT_THAT(Committed(), ElementsAre("x", "z"));
}

TEST_P(LanesTest, ARecordThatNoBrokerWouldTakeIsNamedToo) {
  txn::BranchWork work = One("");
  work.records[0].value = std::string(40'000'000, 'z');
  EXPECT_THAT(PrepareNo(work, AbortReason::kRecordTooLarge).message, HasSubstr("record 1 of 1"));
  CommitOne("x");
}

TEST_P(LanesTest, ATopicDeletedSinceItWasUsedIsNamed) {
  CommitOne("x");
  broker_.Tool("org.apache.kafka.tools.TopicCommand",
               {"--bootstrap-server", "{bootstrap}", "--delete", "--topic", topic_});
  EXPECT_THAT(PrepareNo(One("y"), AbortReason::kUnknownTopic).message, HasSubstr(topic_));
}

// ---- The lane afterwards ------------------------------------------------------------------------

TEST_P(LanesTest, ACleanLaneGoesOnUnderTheSameNameAndAnUncleanOneGetsANewEpoch) {
  const txn::ParticipantName first = CommitOne("1");
  const txn::ParticipantName second = CommitOne("2");
  EXPECT_EQ(second.transactional_id, first.transactional_id);
  EXPECT_EQ(second.producer_epoch, first.producer_epoch);
  EXPECT_GT(second.start_time_ms, first.start_time_ms);

  ASSERT_TRUE(ArmFailpoint("lane.after_commit@a=error#1").ok());
  const auto branch = NewBranch();
  const txn::PreparedParticipant third = PrepareYes(*branch, One("3"));
  const Status uncertain = branch->Commit();
  ASSERT_FALSE(uncertain.ok());
  EXPECT_EQ(uncertain.error().effect, Effect::kUnknown);
  DisarmFailpoints();
  // Nobody touches the id before Release, however long that takes: the answer is still there.
  EXPECT_TRUE(BecomesState(third.name, KafkaTxnState::kCompleteCommit));
  EXPECT_EQ(Describe(third.name).start_time_ms, third.name.start_time_ms);
  branch->Release();

  const txn::ParticipantName fourth = CommitOne("4");
  ExpectRenewed(fourth, first);
  EXPECT_THAT(Committed(), ElementsAre("1", "2", "3", "4"));
}

TEST_P(LanesTest, AnEndTxnOfOursByWireMakesTheLaneUnclean) {
  const auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  ASSERT_TRUE(branch->Commit().ok());
  // PrepareCommit answers CONCURRENT_TRANSACTIONS, CompleteCommit answers NONE.
  EXPECT_TRUE(Eventually([&] { return EndByWire(prepared.name); }));
  branch->Release();
  EXPECT_EQ(CommitOne("y").producer_epoch.get(), prepared.name.producer_epoch.get() + 1);
}

TEST_P(LanesTest, SomebodyTookTheIdOver) {
  const txn::ParticipantName before = CommitOne("x");
  wire::ClientOptions options;
  options.bootstrap = {broker_.bootstrap()};
  wire::Client thief(process_->io(), options);
  const auto stolen = process_->Ask<Result<wire::ProducerIdentity>>([&](const auto& done) {
    thief.InitProducerId(before.transactional_id, std::chrono::seconds(60),
                         std::chrono::seconds(10), done);
  });
  ASSERT_TRUE(stolen.ok()) << ToString(stolen.error());
  EXPECT_TRUE(PrepareNo(One("y"), AbortReason::kProducerFenced).retriable);
  // The lane gets over it.
  ExpectRenewed(CommitOne("z"), before);
  EXPECT_THAT(Committed(), ElementsAre("x", "z"));
}

TEST_P(LanesTest, AParticipantThatGoesWithoutReleaseTakesItsLaneWithIt) {
  auto branch = NewBranch();
  const txn::PreparedParticipant prepared = PrepareYes(*branch, One("x"));
  branch.reset();
  const txn::ParticipantName next = CommitOne("y");
  EXPECT_NE(next.transactional_id, prepared.name.transactional_id);
  // Neither aborted nor initialised: whoever reads the log may still have to commit it.
  EXPECT_EQ(Describe(prepared.name).state, KafkaTxnState::kOngoing);
  EXPECT_EQ(Describe(prepared.name).producer_epoch, prepared.name.producer_epoch);
}

// ---- The pool -----------------------------------------------------------------------------------

TEST_P(LanesTest, WhoFindsNoLaneWaitsInLineUntilItGivesUp) {
  const auto first = NewBranch();
  PrepareYes(*first, One("1"));
  const auto second = NewBranch();
  auto second_vote = second->StartPrepare(One("2"));
  const txn::Refusal refusal =
      PrepareNo(One("3"), AbortReason::kClusterUnavailable, std::chrono::milliseconds(200));
  EXPECT_THAT(refusal.message, HasSubstr("all lanes are in use"));
  EXPECT_TRUE(refusal.retriable);
  EXPECT_FALSE(second->voted());

  ASSERT_TRUE(first->Commit().ok());
  first->Release();
  EXPECT_EQ(second_vote.get().kind, txn::Vote::Kind::kYes);
  ASSERT_TRUE(second->Commit().ok());
  second->Release();
  EXPECT_TRUE(BecomesIdle());
}

TEST_P(LanesTest, AbortInLineLeavesTheLine) {
  const auto first = NewBranch();
  PrepareYes(*first, One("1"));
  const auto second = NewBranch();
  auto vote = second->StartPrepare(One("2"));
  second->Abort();
  second->Release();
  first->Abort();
  first->Release();
  CommitOne("3");
  EXPECT_FALSE(second->voted());
}

TEST_P(LanesTest, TheLineIsBounded) {
  ClusterConfig config = Config();
  config.max_waiting = 1;
  NewProcess(config);
  const auto first = NewBranch();
  PrepareYes(*first, One("1"));
  const auto second = NewBranch();
  auto vote = second->StartPrepare(One("2"));
  PrepareNo(One("3"), AbortReason::kClusterUnavailable);
  first->Abort();
  first->Release();
  EXPECT_EQ(vote.get().kind, txn::Vote::Kind::kYes);
  second->Abort();
  second->Release();
}

TEST_P(LanesTest, LanesGrowOnDemandAndTakeTurns) {
  ClusterConfig config = Config();
  config.lanes_max = 3;
  NewProcess(config);
  ASSERT_TRUE(Becomes(ClusterState::kReady));
  EXPECT_EQ(cluster_->status().lanes_idle, 1);
  std::vector<std::unique_ptr<Branch>> branches;
  std::set<TransactionalId> ids;
  for (int i = 0; i < 3; ++i) {
    branches.push_back(NewBranch());
    ids.insert(PrepareYes(*branches.back(), One("x")).name.transactional_id);
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(cluster_->status().lanes_busy, 3);
  for (const auto& branch : branches) {
    ASSERT_TRUE(branch->Commit().ok());  // An abort may cost a lane its id.
    branch->Release();
  }
  ASSERT_TRUE(BecomesIdle());
  std::set<TransactionalId> in_turn;
  for (int i = 0; i < 3; ++i) {
    in_turn.insert(CommitOne("y").transactional_id);
    ASSERT_TRUE(BecomesIdle());
  }
  EXPECT_EQ(in_turn, ids);
}

}  // namespace
}  // namespace lockstep::kafka::testing
