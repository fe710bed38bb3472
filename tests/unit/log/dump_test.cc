#include "log/dump.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;

class DumpTest : public ::testing::Test {
 protected:
  DumpTest() {
    options_.path = dir_.data();
    options_.clock = &clock_;
  }
  std::string Dumped() {
    std::ostringstream out;
    const Status status = Dump(options_.path, out);
    EXPECT_TRUE(status.ok()) << ToString(status.error());
    return out.str();
  }

  TempDir dir_;
  FakeClock clock_;
  OpenOptions options_;
};

TEST_F(DumpTest, ShowsEverythingBesideTheOpenLog) {
  const auto log = MustOpen(options_);
  txn::Decision decision = DecisionOf(7, 2, 1'700'000'000'000);
  decision.members.emplace_back("odd\x1b[2Jname");
  decision.participants[1].prepared.name.protocol = txn::EndTxnProtocol::kTv2;
  decision.participants[1].prepared.enlisted = true;
  log->StoreEnlistment(EnlistmentOf(9, "app\x1b"));
  ASSERT_TRUE(StoreNow(*log, decision).ok());
  ASSERT_TRUE(CompleteNow(*log, 7, 1, txn::ParticipantOutcome::kAborted).ok());
  Answers answers;
  log->StoreBinding(ClusterName("c0"), KafkaClusterId("kafka-of-c0"), answers.Expect(1));
  log->StoreOrder(
      {BatchId(7), 0, {txn::OrderKind::kAbort, true, "ann", "bad\x1b", clock_.WallNow()}},
      answers.Expect(2));
  answers.Wait(2);

  const std::string log_id = log->recovered().log_id.get();
  EXPECT_EQ(
      Dumped(),
      "log id " + log_id +
          ", made 2023-11-14T22:13:20.000Z\n"
          "incarnation 1, started 2023-11-14T22:13:20.000Z\n"
          "kept 1 decisions, 380 bytes\n"
          "cluster c0 is Kafka cluster kafka-of-c0\n"
          "batch 7 COMMITTING, decided 2023-11-14T22:13:20.000Z, last change "
          "2023-11-14T22:13:20.000Z\n"
          "  transaction txn-7\n"
          "  transaction odd\\x1b[2Jname\n"
          "  cluster c0 (kafka-of-c0) PENDING: transactional.id lane-c0, producer 4000 epoch 3, "
          "EndTxn v0-4, began 2023-11-14T22:13:20.123Z, deadline 2023-11-14T22:28:20.000Z\n"
          "    2023-11-14T22:13:20.000Z, forced: ABORT by an operator (ann): bad\\x1b\n"
          "    marker in orders-0 from offset 70\n"
          "  cluster c1 (kafka-of-c1) ABORTED: enlisted transactional.id lane-c1, producer 4001 "
          "epoch 3, EndTxn v5, began 2023-11-14T22:13:20.123Z, deadline 2023-11-14T22:28:20.000Z\n"
          "    marker in orders-1 from offset 70\n"
          "enlisted in transaction txn-9: cluster c0 (kafka-of-c0), transactional.id app\\x1b, "
          "producer 77 epoch 9, EndTxn v5\n");
}

TEST_F(DumpTest, ChangesNothing) {
  {
    const auto log = MustOpen(options_);
    ASSERT_TRUE(StoreNow(*log, DecisionOf(1)).ok());
  }
  const auto contents = [this] {
    std::map<std::string, std::string> all;
    for (const stdfs::path& file : FilesIn(options_.path, "")) all[file.string()] = ReadFile(file);
    return all;
  };
  const auto before = contents();
  EXPECT_NE(Dumped().find("batch 1 COMMITTING"), std::string::npos);
  EXPECT_EQ(contents(), before);
}

TEST_F(DumpTest, RefusesWhatIsNoLog) {
  std::ostringstream out;
  EXPECT_EQ(Dump(options_.path, out).error().code, Code::kNotFound);
  stdfs::create_directory(options_.path);
  EXPECT_EQ(Dump(options_.path, out).error().code, Code::kNotFound);
  WriteFile(options_.path / "holiday.jpg", "x");
  EXPECT_EQ(Dump(options_.path, out).error().code, Code::kInvalidArgument);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace lockstep::log
