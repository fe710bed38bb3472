#include "log/keys.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::log::keys {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Keys, BatchesStandInTheirOrder) {
  std::string last;
  for (const std::uint64_t batch : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{255},
                                    std::uint64_t{256}, std::uint64_t{1} << 32, kMax}) {
    const std::string key = Decision(BatchId(batch));
    EXPECT_LT(last, key) << batch;
    last = Completion(BatchId(batch), std::numeric_limits<std::uint32_t>::max());
  }
}

TEST(Keys, ABatchStandsTogetherBehindItsDecision) {
  const BatchId batch(7);
  EXPECT_LT(Decision(batch), Acknowledgement(batch));
  EXPECT_LT(Acknowledgement(batch), Completion(batch, 0));
  EXPECT_LT(Completion(batch, 0), Completion(batch, 256));
  EXPECT_LT(Completion(batch, ~0u), Order(batch, 0));
  EXPECT_LT(Order(batch, 256), Decision(BatchId(8)));
  EXPECT_TRUE(Order(batch, 1).starts_with(Decision(batch)));
  EXPECT_TRUE(Acknowledgement(batch).starts_with(Decision(batch)));
  EXPECT_TRUE(Completion(batch, 1).starts_with(Decision(batch)));
}

TEST(Keys, WhatIsWrittenIsReadBack) {
  for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{0x0102030405060708}, kMax}) {
    const BatchId batch(id);
    EXPECT_EQ(BatchOf(Decision(batch)), batch);
    EXPECT_EQ(BatchOf(Acknowledgement(batch)), batch);
    EXPECT_EQ(BatchOf(Completion(batch, 5)), batch);
    EXPECT_EQ(BatchOf(Open(batch)), batch);
    EXPECT_EQ(ParseBatchValue(BatchValue(batch)), batch);
  }
  EXPECT_EQ(ParticipantOf(Completion(BatchId(1), 0x01020304)), 0x01020304u);
  EXPECT_EQ(ParticipantOf(Order(BatchId(1), 0x01020304)), 0x01020304u);
}

TEST(Keys, NoEnlistmentStandsInForAnother) {
  EXPECT_NE(Enlistment(ClusterName("a"), TransactionalId("bc")),
            Enlistment(ClusterName("ab"), TransactionalId("c")));
}

TEST(Keys, NoKeyIsTakenForAnother) {
  const BatchId batch(7);
  EXPECT_TRUE(IsDecision(Decision(batch)));
  EXPECT_FALSE(IsDecision(Acknowledgement(batch)));
  EXPECT_FALSE(IsDecision(Open(batch)));
  EXPECT_TRUE(IsAcknowledgement(Acknowledgement(batch)));
  EXPECT_FALSE(IsAcknowledgement(Completion(batch, 1)));
  EXPECT_TRUE(IsOrder(Order(batch, 1)));
  EXPECT_FALSE(IsOrder(Completion(batch, 1)));
  EXPECT_FALSE(IsOrder(Decision(batch)));
  EXPECT_EQ(ParticipantOf(Decision(batch)), std::nullopt);
  EXPECT_EQ(ParticipantOf(Acknowledgement(batch)), std::nullopt);
  EXPECT_EQ(ParticipantOf(Completion(batch, 1) + "x"), std::nullopt);
  EXPECT_EQ(BatchOf(Txn(GlobalTxnId("12345678"))), std::nullopt);
  EXPECT_EQ(BatchOf("d1234567"), std::nullopt);
  EXPECT_EQ(ParseBatchValue("1234567"), std::nullopt);
  EXPECT_EQ(ParseBatchValue("123456789"), std::nullopt);
}

// Format 1, for good: see RecordCodec.GoldenBytes.
TEST(Keys, GoldenBytes) {
  using std::string_literals::operator""s;
  const BatchId batch(0x0102);
  EXPECT_EQ(Decision(batch), "d\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Acknowledgement(batch), "d\0\0\0\0\0\0\1\2a"s);
  EXPECT_EQ(Completion(batch, 3), "d\0\0\0\0\0\0\1\2c\0\0\0\3"s);
  EXPECT_EQ(Order(batch, 3), "d\0\0\0\0\0\0\1\2o\0\0\0\3"s);
  EXPECT_EQ(Open(batch), "o\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Txn(GlobalTxnId("id")), "tid");
  EXPECT_EQ(ClientKey("order-4711"), "eorder-4711");
  EXPECT_EQ(BatchValue(batch), "\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Binding(ClusterName("east")), "keast");
  EXPECT_EQ(Enlistment(ClusterName("east"), TransactionalId("app")), "p\0\0\0\4eastapp"s);
}

TEST(Keys, ErrorsCanNameEachKey) {
  EXPECT_EQ(Describe(Decision(BatchId(7))), "decision of batch 7");
  EXPECT_EQ(Describe(Order(BatchId(7), 1)), "order about participant 1 of batch 7");
  EXPECT_EQ(Describe(Acknowledgement(BatchId(7))), "acknowledgement of batch 7");
  EXPECT_EQ(Describe(Completion(BatchId(7), 2)), "completion of participant 2 of batch 7");
  EXPECT_EQ(Describe(Open(BatchId(7))), "open mark of batch 7");
  EXPECT_EQ(Describe(Binding(ClusterName("a"))), "binding of cluster 'a'");
  EXPECT_EQ(Describe(Txn(GlobalTxnId("x"))), "index entry of transaction 'x'");
  EXPECT_EQ(Describe(ClientKey("x")), "index entry of client key 'x'");
  EXPECT_EQ(Describe(Enlistment(ClusterName("east"), TransactionalId("app"))),
            "enlistment of transactional.id 'app' on cluster 'east'");
  EXPECT_EQ(Describe("p\xff\xff\xff\xff"
                     "east"),
            "enlistment of transactional.id '' on cluster 'east'");
  EXPECT_EQ(Describe("p123"), "unknown key of 4 bytes");
  EXPECT_EQ(Describe(kIdentity), "the log's identity");
  EXPECT_EQ(Describe(""), "unknown key of 0 bytes");
  EXPECT_EQ(Describe("zz"), "unknown key of 2 bytes");
}

}  // namespace
}  // namespace lockstep::log::keys
