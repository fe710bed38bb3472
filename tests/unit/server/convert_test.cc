#include "server/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "server/admin_convert.h"

namespace lockstep::server {
namespace {

using testing::StartsWith;

template <typename T>
void ExpectInvalid(const Result<T>& result, const std::string& field) {
  ASSERT_FALSE(result.ok()) << "accepted, although " << field << " is wrong";
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_EQ(result.error().effect, Effect::kNone);
  EXPECT_THAT(result.error().message, StartsWith(field));
}

// ---- Begin, Commit, ids -------------------------------------------------------------------------

TEST(ParseBegin, ATimeoutIsRequiredAndPositive) {
  v1::BeginGlobalTxnRequest request;
  ExpectInvalid(ParseBegin(request), "timeout:");
  for (const auto& [seconds, nanos] : std::vector<std::pair<std::int64_t, int>>{
           {0, 0}, {-1, 0}, {0, -1}, {1, -1}, {0, 1'000'000'000}, {std::int64_t{1} << 60, 0}}) {
    request.mutable_timeout()->set_seconds(seconds);
    request.mutable_timeout()->set_nanos(nanos);
    ExpectInvalid(ParseBegin(request), "timeout:");
  }
  request.mutable_timeout()->set_seconds(1);
  request.mutable_timeout()->set_nanos(500'000'000);
  request.set_label("nightly");
  const auto begin = ParseBegin(request);
  ASSERT_TRUE(begin.ok());
  EXPECT_EQ(begin->timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(begin->label, "nightly");
  request.set_label(std::string(257, 'x'));
  ExpectInvalid(ParseBegin(request), "label:");
}

TEST(ParseCommit, WaitsForCompleteUnlessAskedOtherwise) {
  v1::CommitRequest request;
  EXPECT_EQ(ParseCommit(request)->wait, coordinator::WaitFor::kComplete);
  EXPECT_FALSE(ParseCommit(request)->max_wait.has_value());
  request.set_wait(v1::COMMIT_WAIT_DECIDED);
  request.mutable_max_wait()->set_seconds(2);
  EXPECT_EQ(ParseCommit(request)->wait, coordinator::WaitFor::kDecided);
  EXPECT_EQ(ParseCommit(request)->max_wait, std::chrono::seconds(2));
  request.set_wait(static_cast<v1::CommitWait>(9));
  ExpectInvalid(ParseCommit(request), "wait:");
  request.set_wait(v1::COMMIT_WAIT_COMPLETE);
  request.mutable_max_wait()->set_seconds(0);
  ExpectInvalid(ParseCommit(request), "max_wait:");
}

// ---- What is enlisted ---------------------------------------------------------------------------

TEST(ParseCommit, TellsWhatWasWritten) {
  v1::CommitRequest request;
  auto& wrote = *request.add_enlisted();
  wrote.set_registration_id("r-1");
  wrote.add_partitions()->set_topic("orders");
  auto& second = *wrote.add_partitions();
  second.set_topic("orders");
  second.set_partition(1);
  second.set_offset(0);
  wrote.add_group_ids("g");
  auto& nothing = *request.add_enlisted();
  nothing.set_registration_id("r-2");
  nothing.set_read_only(true);
  const auto options = ParseCommit(request);
  ASSERT_TRUE(options.ok()) << options.error().message;
  ASSERT_EQ(options->enlisted.size(), 2u);
  const coordinator::EnlistedWork& work = options->enlisted.at("r-1");
  EXPECT_EQ(work.partitions.at({"orders", 0}), -1);  // Not told is not 0.
  EXPECT_EQ(work.partitions.at({"orders", 1}), 0);
  EXPECT_EQ(work.group_ids, std::set<std::string>{"g"});
  EXPECT_FALSE(work.read_only);
  EXPECT_TRUE(options->enlisted.at("r-2").read_only);
}

TEST(ParseCommit, EachFieldOfWhatWasWrittenIsChecked) {
  const auto with = [](const std::function<void(v1::CommitRequest&)>& spoil) {
    v1::CommitRequest request;
    auto& wrote = *request.add_enlisted();
    wrote.set_registration_id("r");
    wrote.add_partitions()->set_topic("orders");
    wrote.add_group_ids("g");
    EXPECT_TRUE(ParseCommit(request).ok());
    spoil(request);
    return ParseCommit(request);
  };
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->clear_registration_id(); }),
                "enlisted[0].registration_id:");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->set_registration_id("a b"); }),
                "enlisted[0].registration_id:");
  ExpectInvalid(with([](auto& r) { r.add_enlisted()->set_registration_id("r"); }),
                "enlisted[1].registration_id: is given twice");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->set_read_only(true); }),
                "enlisted[0].read_only:");
  ExpectInvalid(with([](auto& r) {
                  r.mutable_enlisted(0)->clear_partitions();
                  r.mutable_enlisted(0)->set_read_only(true);
                }),
                "enlisted[0].read_only:");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->mutable_partitions(0)->clear_topic(); }),
                "enlisted[0].partitions[0].topic:");
  ExpectInvalid(
      with([](auto& r) { r.mutable_enlisted(0)->mutable_partitions(0)->set_partition(-1); }),
      "enlisted[0].partitions[0].partition:");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->mutable_partitions(0)->set_offset(-1); }),
                "enlisted[0].partitions[0].offset:");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->add_partitions()->set_topic("orders"); }),
                "enlisted[0].partitions[1]: orders-0 is given twice");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->add_group_ids(""); }),
                "enlisted[0].group_ids[1]: must not be empty");
  ExpectInvalid(with([](auto& r) { r.mutable_enlisted(0)->add_group_ids("g"); }),
                "enlisted[0].group_ids[1]: group 'g' is given twice");
}

TEST(ParseRegister, EachFieldIsChecked) {
  v1::RegisterProducerRequest request;
  ExpectInvalid(ParseRegister(request), "cluster:");
  request.set_cluster("east");
  ExpectInvalid(ParseRegister(request), "transactional_id:");
  request.set_protocol(v1::PRODUCER_PROTOCOL_TV2);
  for (const std::string& id : {std::string(1025, 'x'), std::string("a\nb"),
                                std::string("lockstep-0123456789abcdef-3-east-0")}) {
    request.set_transactional_id(id);
    ExpectInvalid(ParseRegister(request), "transactional_id:");
  }
  request.set_transactional_id("lockstep-tests, the \xc3\xa9t\xc3\xa9 one");
  const auto call = ParseRegister(request);
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->cluster, ClusterName("east"));
  EXPECT_EQ(call->id, TransactionalId(request.transactional_id()));
  EXPECT_EQ(call->protocol, txn::EndTxnProtocol::kTv2);
  request.set_protocol(v1::PRODUCER_PROTOCOL_TV1);
  EXPECT_EQ(ParseRegister(request)->protocol, txn::EndTxnProtocol::kTv1);
  request.clear_protocol();
  ExpectInvalid(ParseRegister(request), "protocol:");
}

TEST(ParseEnlist, EachFieldIsChecked) {
  v1::EnlistRequest request;
  ExpectInvalid(ParseEnlist(request), "txn_id:");
  request.set_txn_id("id");
  ExpectInvalid(ParseEnlist(request), "registration_id:");
  request.set_registration_id("a b");
  ExpectInvalid(ParseEnlist(request), "registration_id:");
  request.set_registration_id("r");
  EXPECT_FALSE(ParseEnlist(request)->producer.told.has_value());
  request.set_producer_epoch(0);
  ExpectInvalid(ParseEnlist(request), "producer_id:");
  request.set_producer_id(0);
  EXPECT_EQ(ParseEnlist(request)->producer.told->producer_id, ProducerId(0));
  request.set_producer_epoch(32767);
  EXPECT_EQ(ParseEnlist(request)->producer.told->producer_epoch, ProducerEpoch(32767));
  request.set_producer_epoch(32768);
  ExpectInvalid(ParseEnlist(request), "producer_epoch:");
  request.set_producer_epoch(-1);
  ExpectInvalid(ParseEnlist(request), "producer_epoch:");
  request.clear_producer_epoch();
  ExpectInvalid(ParseEnlist(request), "producer_epoch:");
  request.set_producer_epoch(0);
  request.set_producer_id(-1);
  ExpectInvalid(ParseEnlist(request), "producer_id:");
}

TEST(ParseTxnId, IsPresentShortAndPrintable) {
  ExpectInvalid(ParseTxnId(""), "txn_id:");
  ExpectInvalid(ParseTxnId(std::string(257, 'a')), "txn_id:");
  ExpectInvalid(ParseTxnId("a\nb"), "txn_id:");
  ExpectInvalid(ParseTxnId("a b"), "txn_id:");
  EXPECT_TRUE(ParseTxnId("abc").ok());
}

// ---- Produce ------------------------------------------------------------------------------------

v1::ProduceRequest ProduceRequest() {
  v1::ProduceRequest request;
  request.set_txn_id("id");
  request.set_cluster("east");
  request.set_sequence(0);
  request.add_records()->set_topic("orders");
  return request;
}

TEST(ParseProduce, TellsNullFromEmpty) {
  auto request = ProduceRequest();
  auto& full = *request.add_records();
  full.set_topic("t");
  full.set_partition(0);
  full.set_key("");
  full.set_value("");
  full.add_headers()->set_key("h");
  full.add_headers()->set_value("");
  full.mutable_timestamp()->set_seconds(12);
  full.mutable_timestamp()->set_nanos(345'999'999);

  const auto call = ParseProduce(request, 1000);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->sequence, 0u);
  const txn::Record& bare = call->work.records[0];
  EXPECT_FALSE(bare.partition || bare.key || bare.value || bare.timestamp_ms);
  const txn::Record& record = call->work.records[1];
  EXPECT_EQ(record.partition, 0);
  EXPECT_EQ(record.key, "");
  EXPECT_EQ(record.value, "");
  EXPECT_FALSE(record.headers[0].value.has_value());
  EXPECT_EQ(record.headers[1].value, "");
  EXPECT_EQ(record.timestamp_ms, 12'345);
}

TEST(ParseProduce, EachFieldIsChecked) {
  const auto expect = [](const std::string& field, std::function<void(v1::ProduceRequest&)> spoil) {
    auto request = ProduceRequest();
    spoil(request);
    ExpectInvalid(ParseProduce(request, 1000), field);
  };
  expect("txn_id:", [](auto& r) { r.clear_txn_id(); });
  expect("cluster:", [](auto& r) { r.clear_cluster(); });
  expect("sequence:", [](auto& r) { r.clear_sequence(); });
  expect("records:", [](auto& r) { r.clear_records(); });
  expect("records[0].topic:", [](auto& r) { r.mutable_records(0)->clear_topic(); });
  expect("records[1].topic:", [](auto& r) { r.add_records(); });
  expect("records[0].partition:", [](auto& r) { r.mutable_records(0)->set_partition(-1); });
  expect("records[0]:", [](auto& r) { r.mutable_records(0)->set_value(std::string(1001, 'x')); });
  expect("records[0].timestamp:",
         [](auto& r) { r.mutable_records(0)->mutable_timestamp()->set_seconds(-1); });
  expect("records[0].timestamp:",
         [](auto& r) { r.mutable_records(0)->mutable_timestamp()->set_nanos(-1); });
  expect("records[0].timestamp:", [](auto& r) {
    r.mutable_records(0)->mutable_timestamp()->set_seconds(std::int64_t{1} << 50);
  });
}

// ---- SendOffsets --------------------------------------------------------------------------------

v1::SendOffsetsRequest OffsetsRequest() {
  v1::SendOffsetsRequest request;
  request.set_txn_id("id");
  request.set_cluster("east");
  request.set_sequence(3);
  request.mutable_group()->set_group_id("g");
  request.mutable_group()->set_generation(0);
  request.mutable_group()->set_member_id("m");
  auto& offset = *request.add_offsets();
  offset.set_topic("orders");
  offset.set_partition(1);
  offset.set_offset(42);
  return request;
}

TEST(ParseSendOffsets, CarriesTheMembership) {
  auto request = OffsetsRequest();
  request.set_kafka_cluster_id("kafka");
  request.mutable_group()->set_group_instance_id("");
  request.mutable_offsets(0)->set_leader_epoch(5);
  request.mutable_offsets(0)->set_metadata("note");
  const auto call = ParseSendOffsets(request);
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->kafka_cluster_id, KafkaClusterId("kafka"));
  const txn::GroupOffsets& group = call->work.offsets.at(0);
  EXPECT_EQ(group.group_id, "g");
  EXPECT_EQ(group.generation, 0);
  EXPECT_EQ(group.member_id, "m");
  EXPECT_EQ(group.group_instance_id, "");
  EXPECT_FALSE(group.standalone);
  EXPECT_EQ(group.offsets[0].partition, (txn::TopicPartition{"orders", 1}));
  EXPECT_EQ(group.offsets[0].offset, 42);
  EXPECT_EQ(group.offsets[0].leader_epoch, 5);
  EXPECT_EQ(group.offsets[0].metadata, "note");
}

TEST(ParseSendOffsets, StandaloneCarriesNone) {
  auto request = OffsetsRequest();
  request.set_standalone(true);
  ExpectInvalid(ParseSendOffsets(request), "group:");
  request.mutable_group()->clear_generation();
  request.mutable_group()->clear_member_id();
  const auto call = ParseSendOffsets(request);
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->work.offsets[0].standalone);
  EXPECT_EQ(call->work.offsets[0].generation, -1);
  EXPECT_EQ(call->work.offsets[0].offsets[0].leader_epoch, -1);
  EXPECT_FALSE(call->kafka_cluster_id.has_value());
}

TEST(ParseSendOffsets, EachFieldIsChecked) {
  const auto expect = [](const std::string& field,
                         std::function<void(v1::SendOffsetsRequest&)> spoil) {
    auto request = OffsetsRequest();
    spoil(request);
    ExpectInvalid(ParseSendOffsets(request), field);
  };
  expect("txn_id:", [](auto& r) { r.clear_txn_id(); });
  expect("sequence:", [](auto& r) { r.clear_sequence(); });
  expect("group.group_id:", [](auto& r) { r.clear_group(); });
  expect("group:", [](auto& r) { r.mutable_group()->clear_generation(); });
  expect("group:", [](auto& r) { r.mutable_group()->set_generation(-1); });
  expect("group:", [](auto& r) { r.mutable_group()->clear_member_id(); });
  expect("offsets:", [](auto& r) { r.clear_offsets(); });
  expect("offsets[0].topic:", [](auto& r) { r.mutable_offsets(0)->clear_topic(); });
  expect("offsets[0].partition:", [](auto& r) { r.mutable_offsets(0)->set_partition(-1); });
  expect("offsets[0].offset:", [](auto& r) { r.mutable_offsets(0)->set_offset(-1); });
  expect("offsets[0].leader_epoch:", [](auto& r) { r.mutable_offsets(0)->set_leader_epoch(-1); });
  expect("offsets[1]:", [](auto& r) { *r.add_offsets() = r.offsets(0); });
}

// ---- Answers ------------------------------------------------------------------------------------

coordinator::TxnView View(txn::GlobalTxnState state) {
  coordinator::TxnView view;
  view.id = GlobalTxnId("id");
  view.state = state;
  view.began_at = WallTime{1500};
  view.branches.push_back(
      {.cluster = ClusterName("east"),
       .outcome = txn::ParticipantOutcome::kCommitted,
       .participant = txn::ParticipantName{.transactional_id = TransactionalId("lane"),
                                           .producer_id = ProducerId(7),
                                           .producer_epoch = ProducerEpoch(2)}});
  return view;
}

TEST(Answers, EveryOutcomeIsDataAndNothingElseIs) {
  const auto outcome_of = [](txn::GlobalTxnState state) {
    v1::CommitResponse response;
    EXPECT_TRUE(FillOutcome(View(state), false, response).ok());
    return response.outcome();
  };
  EXPECT_EQ(outcome_of(txn::GlobalTxnState::kCommitted), v1::OUTCOME_COMMITTED);
  EXPECT_EQ(outcome_of(txn::GlobalTxnState::kCommitting), v1::OUTCOME_COMMITTING);
  EXPECT_EQ(outcome_of(txn::GlobalTxnState::kHeuristic), v1::OUTCOME_HEURISTIC);
  EXPECT_EQ(outcome_of(txn::GlobalTxnState::kAborting), v1::OUTCOME_ABORTED);
  EXPECT_EQ(outcome_of(txn::GlobalTxnState::kAborted), v1::OUTCOME_ABORTED);
  for (const auto state : {txn::GlobalTxnState::kActive, txn::GlobalTxnState::kPreparing}) {
    v1::AbortResponse response;
    const Status status = FillOutcome(View(state), response);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_EQ(status.error().effect, Effect::kUnknown);
  }
}

TEST(Answers, AnAbortSaysWhyAndWhere) {
  auto view = View(txn::GlobalTxnState::kAborted);
  view.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("east"), "no topic 'x'", true};
  v1::CommitResponse response;
  ASSERT_TRUE(FillOutcome(view, false, response).ok());
  EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_UNKNOWN_TOPIC);
  EXPECT_EQ(response.abort().cluster(), "east");
  EXPECT_EQ(response.abort().message(), "no topic 'x'");
  EXPECT_TRUE(response.abort().retryable());

  view.state = txn::GlobalTxnState::kCommitted;
  v1::CommitResponse committed;
  ASSERT_TRUE(FillOutcome(view, false, committed).ok());
  EXPECT_FALSE(committed.has_abort());
}

TEST(Answers, ATransactionShowsItsBranches) {
  auto view = View(txn::GlobalTxnState::kCommitting);
  view.branches[0].missing_markers = {{"orders", 3}};
  view.branches.push_back({.cluster = ClusterName("west"), .problem = "no broker answers"});
  const v1::Transaction txn = ToProto(view);
  EXPECT_EQ(txn.state(), v1::TXN_STATE_COMMITTING);
  EXPECT_EQ(txn.begin_time().seconds(), 1);
  EXPECT_EQ(txn.begin_time().nanos(), 500'000'000);
  EXPECT_FALSE(txn.has_expire_time());  // Only the log remembers it.
  ASSERT_EQ(txn.branches_size(), 2);
  EXPECT_EQ(txn.branches(0).managed().transactional_id(), "lane");
  EXPECT_EQ(txn.branches(0).managed().producer_id(), 7);
  EXPECT_EQ(txn.branches(0).managed().producer_epoch(), 2);
  EXPECT_EQ(txn.branches(0).managed().missing_markers(0).partition(), 3);
  EXPECT_FALSE(txn.branches(1).has_managed());
  EXPECT_EQ(txn.branches(1).problem(), "no broker answers");
}

TEST(Answers, AnEnlistedBranchIsShownAsSuch) {
  auto view = View(txn::GlobalTxnState::kCommitting);
  view.branches[0].enlisted = true;
  view.branches[0].missing_markers = {{"orders", 3}};
  const v1::Transaction txn = ToProto(view);
  ASSERT_TRUE(txn.branches(0).has_enlisted());
  EXPECT_EQ(txn.branches(0).enlisted().transactional_id(), "lane");
  EXPECT_EQ(txn.branches(0).enlisted().producer_id(), 7);
  EXPECT_EQ(txn.branches(0).enlisted().producer_epoch(), 2);
  EXPECT_EQ(txn.branches(0).enlisted().missing_markers(0).partition(), 3);
  EXPECT_FALSE(txn.branches(0).enlisted().reinit_required());
  view.branches[0].reinit_required = true;
  EXPECT_TRUE(ToProto(view).branches(0).enlisted().reinit_required());
}

TEST(Answers, AnyTimeThatAnIdCanCarryIsATimestamp) {
  for (const std::int64_t ms : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                                std::numeric_limits<std::int64_t>::min()}) {
    const auto time = ToProto(WallTime{ms});
    EXPECT_GE(time.seconds(), 0);
    EXPECT_LE(time.seconds(), 253'402'300'799);
  }
}

// A name of its own in the API for each value of ours, none of them UNSPECIFIED but "no reason".
TEST(Answers, EnumsAreMirrored) {
  std::set<v1::AbortReason> reasons;
  for (int i = 0; i <= static_cast<int>(txn::AbortReason::kInternal); ++i) {
    reasons.insert(ToProto(static_cast<txn::AbortReason>(i)));
  }
  EXPECT_EQ(reasons.size(), static_cast<std::size_t>(v1::AbortReason_ARRAYSIZE));
  std::set<v1::TxnState> states;
  for (int i = 0; i <= static_cast<int>(txn::GlobalTxnState::kHeuristic); ++i) {
    states.insert(ToProto(static_cast<txn::GlobalTxnState>(i)));
  }
  EXPECT_EQ(states.size(), static_cast<std::size_t>(v1::TxnState_ARRAYSIZE) - 1);
  EXPECT_FALSE(states.contains(v1::TXN_STATE_UNSPECIFIED));
}

TEST(ParseEndOrphan, ItsStartIsATime) {
  v1::EndOrphanRequest request;
  request.mutable_orphan()->set_cluster("a");
  request.mutable_orphan()->set_transactional_id("lockstep-x");
  request.set_direction(v1::END_DIRECTION_ABORT);
  request.set_who("me");
  request.set_why("why");
  request.mutable_orphan()->mutable_start_time()->set_seconds(1'700'000'000);
  ASSERT_TRUE(ParseEndOrphan(request).ok());
  for (const std::int64_t seconds : {std::int64_t{-1}, std::int64_t{1} << 62}) {
    request.mutable_orphan()->mutable_start_time()->set_seconds(seconds);
    ExpectInvalid(ParseEndOrphan(request), "orphan.start_time:");
  }
}

}  // namespace
}  // namespace lockstep::server
