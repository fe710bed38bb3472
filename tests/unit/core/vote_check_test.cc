#include "txn/vote_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::txn {
namespace {

using ::testing::HasSubstr;
using txn::AbortReason;
using txn::KafkaTxnState;

class VoteCheckTest : public ::testing::Test {
 protected:
  VoteCheckTest() {
    producer_ = {TransactionalId("lane-1"), ProducerId(7), ProducerEpoch(3)};
    written_.partitions = {{{"orders", 0}, 17}, {{"orders", 2}, 4}};
    description_.exists = true;
    description_.state = KafkaTxnState::kOngoing;
    description_.producer_id = ProducerId(7);
    description_.producer_epoch = ProducerEpoch(3);
    description_.start_time_ms = 1'000;
    description_.timeout_ms = 60'000;
    description_.partitions = {{"orders", 2}, {"orders", 0}};
  }

  void ExpectRefusal(AbortReason reason, const char* text) const {
    const auto refusal = CheckDescription(producer_, written_, description_);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->reason, reason);
    EXPECT_THAT(refusal->message, HasSubstr(text));
  }
  void ExpectYes() const {
    const auto refusal = CheckDescription(producer_, written_, description_);
    EXPECT_FALSE(refusal.has_value()) << refusal->message;
  }

  ProducerInstance producer_;
  Written written_;
  txn::TxnDescription description_;
};

TEST_F(VoteCheckTest, OngoingUnderOurNameOverWhatWeWroteIsYes) { ExpectYes(); }

TEST_F(VoteCheckTest, AnUnknownIdIsNo) {
  description_ = {};
  ExpectRefusal(AbortReason::kVoteMismatch, "does not know");
}

TEST_F(VoteCheckTest, AnyOtherStateIsNo) {
  for (const auto state :
       {KafkaTxnState::kEmpty, KafkaTxnState::kPrepareCommit, KafkaTxnState::kPrepareAbort,
        KafkaTxnState::kCompleteCommit, KafkaTxnState::kCompleteAbort, KafkaTxnState::kDead,
        KafkaTxnState::kPrepareEpochFence, KafkaTxnState::kUnknown}) {
    description_.state = state;
    ExpectRefusal(AbortReason::kVoteMismatch, "not Ongoing");
  }
}

// The zombie of docs/design/protocol.md: Ongoing, but it is the successor's transaction.
TEST_F(VoteCheckTest, AnotherProducerOrEpochIsNo) {
  description_.producer_epoch = ProducerEpoch(4);
  ExpectRefusal(AbortReason::kProducerFenced, "epoch 4");
  description_.producer_epoch = ProducerEpoch(3);
  description_.producer_id = ProducerId(8);
  ExpectRefusal(AbortReason::kProducerFenced, "producer 8");
}

TEST_F(VoteCheckTest, WithoutAStartTimeItHasNoName) {
  description_.start_time_ms = -1;
  ExpectRefusal(AbortReason::kVoteMismatch, "start time");
}

TEST_F(VoteCheckTest, AMissingPartitionIsNo) {
  description_.partitions = {{"orders", 0}};
  ExpectRefusal(AbortReason::kVoteMismatch, "orders-2");
}

TEST_F(VoteCheckTest, APartitionThatWeDidNotWriteIsNo) {
  description_.partitions.push_back({"orders", 1});
  ExpectRefusal(AbortReason::kVoteMismatch, "orders-1");
}

TEST_F(VoteCheckTest, GroupOffsetsStandInTheOffsetsTopic) {
  written_.groups = 2;
  ExpectRefusal(AbortReason::kVoteMismatch, "__consumer_offsets");
  description_.partitions.push_back({kOffsetsTopic, 5});  // Both groups in one partition.
  ExpectYes();
  description_.partitions.push_back({kOffsetsTopic, 9});
  ExpectYes();
  EXPECT_EQ(OffsetsPartitions(description_).size(), 2u);
  description_.partitions.push_back({kOffsetsTopic, 11});
  ExpectRefusal(AbortReason::kVoteMismatch, "not written");
}

TEST_F(VoteCheckTest, OffsetsThatNobodySentAreNo) {
  description_.partitions.push_back({kOffsetsTopic, 5});
  ExpectRefusal(AbortReason::kVoteMismatch, "not written");
}

}  // namespace
}  // namespace lockstep::txn
