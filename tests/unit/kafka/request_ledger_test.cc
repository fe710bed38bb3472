#include "kafka/request_ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

namespace lockstep::kafka {
namespace {

void Send(RequestLedger& ledger, TxnApi api, bool answered = true) {
  ledger.OnSent(static_cast<std::int16_t>(api));
  if (answered) ledger.OnAnswered(static_cast<std::int16_t>(api));
}

// What one transaction with a record and offsets sends.
void SendTransaction(RequestLedger& ledger) {
  for (const TxnApi api : {TxnApi::kAddPartitionsToTxn, TxnApi::kProduce, TxnApi::kAddOffsetsToTxn,
                           TxnApi::kTxnOffsetCommit, TxnApi::kEndTxn}) {
    Send(ledger, api);
  }
}

class CleanTest : public ::testing::Test {
 protected:
  CleanTest() {
    Send(ledger_, TxnApi::kInitProducerId);
    SendTransaction(ledger_);  // An earlier one.
    before_ = ledger_.All();
  }
  bool Clean() const { return IsClean(before_, ledger_.All()); }

  std::atomic<std::uint64_t> all_{0};
  RequestLedger ledger_{all_};
  RequestLedger::Counts before_;
};

TEST_F(CleanTest, AnsweredTransactionWithOneEndTxnIsClean) {
  SendTransaction(ledger_);
  EXPECT_TRUE(Clean());
}

TEST_F(CleanTest, NothingSentIsClean) { EXPECT_TRUE(Clean()); }

TEST_F(CleanTest, OtherRequestsDoNotCount) {
  const std::uint64_t before = all_;
  ledger_.OnSent(3);  // Metadata.
  EXPECT_EQ(all_, before + 1);
  SendTransaction(ledger_);
  EXPECT_TRUE(Clean());
}

TEST_F(CleanTest, AnyUnansweredRequestOfATransactionIsUnclean) {
  for (const TxnApi api : kTxnApis) {
    if (api == TxnApi::kEndTxn) continue;
    SCOPED_TRACE(static_cast<int>(api));
    std::atomic<std::uint64_t> all{0};
    RequestLedger ledger(all);
    const auto before = ledger.All();
    Send(ledger, api, /*answered=*/false);
    SendTransaction(ledger);
    EXPECT_FALSE(IsClean(before, ledger.All()));
  }
}

TEST_F(CleanTest, ASecondEndTxnIsUncleanEvenIfBothWereAnswered) {
  SendTransaction(ledger_);
  Send(ledger_, TxnApi::kEndTxn);
  EXPECT_FALSE(Clean());
}

TEST_F(CleanTest, AnEndTxnWithoutAnswerIsUnclean) {
  Send(ledger_, TxnApi::kProduce);
  Send(ledger_, TxnApi::kEndTxn, /*answered=*/false);
  EXPECT_FALSE(Clean());
}

TEST_F(CleanTest, WritesWithoutEndTxnAreUnclean) {
  Send(ledger_, TxnApi::kAddPartitionsToTxn);
  EXPECT_FALSE(Clean());
}

TEST_F(CleanTest, ANewEpochOfLibrdkafkasOwnIsUnclean) {
  SendTransaction(ledger_);
  Send(ledger_, TxnApi::kInitProducerId);
  EXPECT_FALSE(Clean());
}

}  // namespace
}  // namespace lockstep::kafka
