#include "log/record_codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "lockstep/v1/log.pb.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace proto = lockstep::v1::log;

txn::Decision Everything() {
  txn::Decision decision = DecisionOf(7, 2, 1'700'000'000'000);
  decision.members = {GlobalTxnId("a"), GlobalTxnId(std::string("\xff\x00z", 3))};
  txn::DecidedParticipant& second = decision.participants[1];
  second.outcome = txn::ParticipantOutcome::kUnknown;
  second.prepared.name.protocol = txn::EndTxnProtocol::kTv2;
  second.prepared.name.producer_id = ProducerId(std::numeric_limits<std::int64_t>::max());
  second.prepared.name.producer_epoch = ProducerEpoch(std::numeric_limits<std::int16_t>::max());
  second.prepared.name.start_time_ms = -1;
  second.prepared.evidence = {{{"orders", 3}, 17}, {{"__consumer_offsets", 49}, 0}};
  second.prepared.enlisted = true;
  decision.acknowledged = true;
  decision.keys = {{1, {"key", WallTime{1'699'999'999'999}, std::string("\x00\xff", 2)}}};
  return decision;
}

/// The record of Everything(), altered.
template <typename Alter>
std::string Altered(const Alter& alter) {
  proto::Record record;
  EXPECT_TRUE(record.ParseFromString(Encode(Everything())));
  alter(record);
  return record.SerializeAsString();
}

Code CodeOf(const std::string& bytes) {
  const auto decoded = Decode<txn::Decision>(bytes, "the key");
  if (decoded.ok()) return Code::kInternal;
  EXPECT_TRUE(decoded.error().message.starts_with("the key: ")) << decoded.error().message;
  EXPECT_EQ(decoded.error().effect, Effect::kNone);
  return decoded.error().code;
}

TEST(RecordCodec, ADecisionComesBackAsItWas) {
  const auto decoded = Decode<txn::Decision>(Encode(Everything()), "key");
  ASSERT_TRUE(decoded.ok()) << ToString(decoded.error());
  EXPECT_EQ(*decoded, Everything());
}

TEST(RecordCodec, AKeyBelongsToAMember) {
  EXPECT_EQ(CodeOf(Altered([](auto& r) { r.mutable_decision()->mutable_keys(0)->set_member(2); })),
            Code::kCorrupt);
  EXPECT_EQ(CodeOf(Altered([](auto& r) { r.mutable_decision()->mutable_keys(0)->clear_key(); })),
            Code::kCorrupt);
}

TEST(RecordCodec, ADecisionWithoutParticipantsComesBack) {
  const auto decoded = Decode<txn::Decision>(Encode(DecisionOf(1, 0)), "key");
  ASSERT_TRUE(decoded.ok()) << ToString(decoded.error());
  EXPECT_EQ(*decoded, DecisionOf(1, 0));
}

TEST(RecordCodec, EveryOutcomeComesBackFromACompletion) {
  for (const auto outcome : {txn::ParticipantOutcome::kCommitted, txn::ParticipantOutcome::kAborted,
                             txn::ParticipantOutcome::kUnknown}) {
    const auto decoded = Decode<StoredCompletion>(
        Encode(StoredCompletion{{BatchId(9), 4, outcome}, WallTime{5}}), "key");
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->completion.batch, BatchId(9));
    EXPECT_EQ(decoded->completion.participant, 4u);
    EXPECT_EQ(decoded->completion.outcome, outcome);
    EXPECT_EQ(decoded->stored_at, WallTime{5});
  }
}

TEST(RecordCodec, ACompletionIsNeverPending) {
  const std::string bytes =
      Encode(StoredCompletion{{BatchId(9), 4, txn::ParticipantOutcome::kPending}, {}});
  EXPECT_EQ(Decode<StoredCompletion>(bytes, "key").error().code, Code::kCorrupt);
}

TEST(RecordCodec, TheSmallRecordsComeBack) {
  EXPECT_EQ(Decode<Acknowledgement>(Encode(Acknowledgement{BatchId(3), {8}}), "k")->batch,
            BatchId(3));
  const auto binding = Decode<Binding>(Encode(Binding{ClusterName("a"), KafkaClusterId("b")}), "k");
  EXPECT_EQ(binding->cluster, ClusterName("a"));
  EXPECT_EQ(binding->kafka_cluster_id, KafkaClusterId("b"));
  const LogId log_id("0123456789abcdef");
  EXPECT_EQ(Decode<Identity>(Encode(Identity{log_id, {1}}), "k")->log_id, log_id);
  EXPECT_EQ(Decode<Start>(Encode(Start{Incarnation(2), {1}}), "k")->incarnation, Incarnation(2));
  const auto forgotten = Decode<Forgotten>(Encode(Forgotten{{4}, BatchId(5)}), "k");
  EXPECT_EQ(forgotten->horizon, WallTime{4});
  EXPECT_EQ(forgotten->through, BatchId(5));
  EXPECT_EQ(Decode<Kept>(Encode(Kept{6, 2}), "k")->bytes, 6u);
  EXPECT_EQ(Decode<Kept>(Encode(Kept{6, 2}), "k")->decisions, 2u);
  for (const auto kind :
       {txn::OrderKind::kCommit, txn::OrderKind::kAbort, txn::OrderKind::kDeclareCommitted,
        txn::OrderKind::kDeclareAborted, txn::OrderKind::kDeclareUnknown}) {
    const coordinator::StoredOrder order{BatchId(4), 1, {kind, true, "ann", "why", WallTime{9}}};
    const auto back = Decode<coordinator::StoredOrder>(Encode(order), "k");
    ASSERT_TRUE(back.ok()) << ToString(back.error());
    EXPECT_EQ(back->order, order.order);
    EXPECT_EQ(back->batch, order.batch);
    EXPECT_EQ(back->participant, order.participant);
  }
}

TEST(RecordCodec, AnEnlistmentComesBackAsItWas) {
  txn::Enlistment enlistment = EnlistmentOf(7);
  for (const auto protocol : {txn::EndTxnProtocol::kTv1, txn::EndTxnProtocol::kTv2}) {
    enlistment.name.protocol = protocol;
    const auto back = Decode<txn::Enlistment>(Encode(enlistment), "k");
    ASSERT_TRUE(back.ok()) << ToString(back.error());
    EXPECT_EQ(*back, enlistment);
  }
}

TEST(RecordCodec, AnEnlistmentThatMakesNoSenseIsCorrupt) {
  const auto altered = [](const auto& alter) {
    proto::Record record;
    EXPECT_TRUE(record.ParseFromString(Encode(EnlistmentOf(7))));
    alter(*record.mutable_enlistment());
    return Decode<txn::Enlistment>(record.SerializeAsString(), "k").error().code;
  };
  EXPECT_EQ(altered([](auto& e) { e.clear_txn(); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.clear_cluster(); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.clear_kafka_cluster_id(); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.clear_transactional_id(); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.set_producer_id(-1); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.set_producer_epoch(32768); }), Code::kCorrupt);
  EXPECT_EQ(altered([](auto& e) { e.clear_protocol(); }), Code::kCorrupt);
  txn::Enlistment nameless = EnlistmentOf(7);
  nameless.name.transactional_id = {};
  EXPECT_EQ(Validate(nameless).error().code, Code::kInternal);
}

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kHex[static_cast<unsigned char>(c) & 0xf]);
  }
  return hex;
}

// The bytes of format 1, for good: a change that breaks these breaks every log there is.
TEST(RecordCodec, GoldenBytes) {
  EXPECT_EQ(Hex(Encode(DecisionOf(7, 1, 1'700'000'000'000))),
            "0801124f08071080d095ffbc311a0574786e2d37223d0a026330120b6b61666b612d6f662d63301a076c61"
            "6e652d633020a01f2803300138fbd095ffbc31420a0a066f7264657273184648a0c7ccffbc315001");
}

TEST(RecordCodec, GoldenBytesOfADecisionWithAKey) {
  txn::Decision decision = DecisionOf(7, 0, 1'700'000'000'000);
  decision.members = {GlobalTxnId("txn-7"), GlobalTxnId("txn-8")};
  decision.keys = {{1, {"order-4711", WallTime{1'699'999'999'999}, std::string(32, '\xd1')}}};
  EXPECT_EQ(Hex(Encode(decision)),
            "0801125008071080d095ffbc311a0574786e2d371a0574786e2d38"
            "32370801120a6f726465722d3437313118ffcf95ffbc312220"
            "d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1");
}

TEST(RecordCodec, GoldenBytesOfWhatIsEnlisted) {
  EXPECT_EQ(Hex(Encode(EnlistmentOf(7))),
            "080152230a0574786e2d37120263301a0b6b61666b612d6f662d63302203617070284d30073802");
  txn::Decision decision = DecisionOf(7, 1, 1'700'000'000'000);
  decision.participants[0].prepared.enlisted = true;
  EXPECT_EQ(Hex(Encode(decision)),
            "0801125108071080d095ffbc311a0574786e2d37223f0a026330120b6b61666b612d6f662d63301a076c61"
            "6e652d633020a01f2803300138fbd095ffbc31420a0a066f7264657273184648a0c7ccffbc3150015801");
}

TEST(RecordCodec, EveryTruncationIsNoticed) {
  const std::string bytes = Encode(Everything());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(CodeOf(bytes.substr(0, size)), Code::kCorrupt) << size;
  }
}

TEST(RecordCodec, AnotherKindOfRecordIsNoticed) {
  EXPECT_EQ(CodeOf(Encode(Kept{1})), Code::kCorrupt);
  EXPECT_EQ(Decode<Kept>(Encode(Everything()), "k").error().code, Code::kCorrupt);
}

TEST(RecordCodec, ANewerFormatIsNotReadAndSaysSo) {
  const std::string bytes = Altered([](proto::Record& r) { r.set_format(kRecordFormat + 1); });
  EXPECT_EQ(CodeOf(bytes), Code::kFailedPrecondition);
}

TEST(RecordCodec, AnUnknownFieldOfTheSameFormatIsOverlooked) {
  std::string bytes = Encode(Everything());
  bytes += std::string("\xa2\x06\x03xyz", 6);  // Field 100, three bytes.
  const auto decoded = Decode<txn::Decision>(bytes, "key");
  ASSERT_TRUE(decoded.ok()) << ToString(decoded.error());
  EXPECT_EQ(*decoded, Everything());
}

TEST(RecordCodec, ValuesOutOfRangeAreCorrupt) {
  using Participant = proto::Participant;
  const std::vector<std::pair<std::string, void (*)(Participant&)>> alterations = {
      {"unset protocol", [](Participant& p) { p.set_protocol(proto::PROTOCOL_UNSPECIFIED); }},
      {"unknown protocol", [](Participant& p) { p.set_protocol(static_cast<proto::Protocol>(9)); }},
      {"unset outcome", [](Participant& p) { p.set_outcome(proto::OUTCOME_UNSPECIFIED); }},
      {"unknown outcome", [](Participant& p) { p.set_outcome(static_cast<proto::Outcome>(9)); }},
      {"large epoch", [](Participant& p) { p.set_producer_epoch(32768); }},
      {"negative epoch", [](Participant& p) { p.set_producer_epoch(-1); }},
      {"negative producer id", [](Participant& p) { p.set_producer_id(-1); }},
      {"no cluster", [](Participant& p) { p.clear_cluster(); }},
      {"no Kafka cluster id", [](Participant& p) { p.clear_kafka_cluster_id(); }},
      {"no transactional.id", [](Participant& p) { p.clear_transactional_id(); }},
      {"no topic", [](Participant& p) { p.mutable_evidence(0)->clear_topic(); }},
      {"negative partition", [](Participant& p) { p.mutable_evidence(0)->set_partition(-1); }},
      {"negative offset", [](Participant& p) { p.mutable_evidence(0)->set_offset(-1); }},
  };
  for (const auto& [what, alter] : alterations) {
    const std::string bytes = Altered(
        [&](proto::Record& record) { alter(*record.mutable_decision()->mutable_participants(1)); });
    EXPECT_EQ(CodeOf(bytes), Code::kCorrupt) << what;
  }
  EXPECT_EQ(CodeOf(Altered([](proto::Record& r) { r.set_format(0); })), Code::kCorrupt);
  EXPECT_EQ(CodeOf(Altered([](proto::Record& r) { r.mutable_decision()->clear_members(); })),
            Code::kCorrupt);
  EXPECT_EQ(CodeOf(Altered([](proto::Record& r) { r.mutable_decision()->set_members(0, ""); })),
            Code::kCorrupt);
}

TEST(RecordCodec, TheSmallRecordsAreValidatedToo) {
  EXPECT_FALSE(Decode<Identity>(Encode(Identity{LogId("0123456789ABCDEF"), {}}), "k").ok());
  EXPECT_FALSE(Decode<Identity>(Encode(Identity{LogId("0123"), {}}), "k").ok());
  EXPECT_FALSE(Decode<Start>(Encode(Start{Incarnation(0), {}}), "k").ok());
  EXPECT_FALSE(Decode<Binding>(Encode(Binding{ClusterName(""), KafkaClusterId("b")}), "k").ok());
  EXPECT_FALSE(Decode<Binding>(Encode(Binding{ClusterName("a"), KafkaClusterId("")}), "k").ok());
}

TEST(RecordCodec, ApplyPutsTheOutcomeInItsPlace) {
  txn::Decision decision = DecisionOf(7);
  ASSERT_TRUE(Apply({BatchId(7), 1, txn::ParticipantOutcome::kAborted}, decision).ok());
  EXPECT_EQ(decision.participants[0].outcome, txn::ParticipantOutcome::kPending);
  EXPECT_EQ(decision.participants[1].outcome, txn::ParticipantOutcome::kAborted);
}

TEST(RecordCodec, ApplyRefusesWhatDoesNotBelong) {
  txn::Decision decision = DecisionOf(7);
  const auto outcome = txn::ParticipantOutcome::kCommitted;
  EXPECT_EQ(Apply({BatchId(7), 2, outcome}, decision).error().code, Code::kCorrupt);
  EXPECT_EQ(Apply({BatchId(8), 0, outcome}, decision).error().code, Code::kCorrupt);
  EXPECT_EQ(decision, DecisionOf(7));
}

TEST(RecordCodec, ADefectiveDecisionIsNotStored) {
  EXPECT_TRUE(Validate(DecisionOf(7)).ok());
  txn::Decision nameless = DecisionOf(7);
  nameless.participants[0].prepared.name.transactional_id = TransactionalId();
  EXPECT_EQ(Validate(nameless).error().code, Code::kInternal);
}

}  // namespace
}  // namespace lockstep::log
