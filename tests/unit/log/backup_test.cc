#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "log/backup_codec.h"
#include "log/dump.h"
#include "log/restore.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;

using ::testing::HasSubstr;

// ---- The bytes ----------------------------------------------------------------------------------

using Records = std::vector<std::pair<std::string, std::string>>;

const BackupInfo kInfo{.folder_format = 1,
                       .log_id = LogId("0123456789abcdef"),
                       .incarnation = Incarnation(3),
                       .taken_at = {5},
                       .decisions = 7};

std::string BytesOf(const Records& records) {
  BackupEncoder encoder(kInfo);
  for (const auto& [key, value] : records) encoder.Add(key, value);
  encoder.Finish();
  std::string bytes;
  while (encoder.size() > 0) bytes += encoder.Take(10);
  return bytes;
}

Status Read(std::string_view bytes, std::size_t piece, Records& records) {
  BackupDecoder decoder([&](std::string_view key, std::string_view value) {
    records.emplace_back(key, value);
    return Status();
  });
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (Status fed = decoder.Feed(bytes.substr(at, piece)); !fed.ok()) return fed;
  }
  return decoder.Finish();
}

TEST(BackupCodec, WhatWentInComesOutWhateverThePiecesAre) {
  const Records records = {
      {"a", "1"}, {std::string("\0b", 2), ""}, {"c", std::string(200'000, 'x')}};
  const std::string bytes = BytesOf(records);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    Records read;
    const Status status = Read(bytes, piece, read);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(read, records);
  }
}

TEST(BackupCodec, NoPartIsTakenForTheWhole) {
  const std::string bytes = BytesOf({{"a", "1"}, {"b", "2"}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Records read;
    const Status status = Read(std::string_view(bytes).substr(0, size), 5, read);
    ASSERT_FALSE(status.ok()) << size;
    EXPECT_EQ(status.error().code, Code::kCorrupt);
  }
  Records read;
  EXPECT_FALSE(Read(bytes + "x", 5, read).ok()) << "more behind its end";
  EXPECT_FALSE(Read(bytes + bytes, 5, read).ok());
}

TEST(BackupCodec, AnyChangedByteIsNoticed) {
  const std::string good = BytesOf({{"a", "1"}, {"b", "22"}});
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char flip : {'\x01', '\x80'}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      Records read;
      EXPECT_FALSE(Read(bytes, bytes.size(), read).ok()) << at;
    }
  }
}

TEST(BackupCodec, ANewerFormatIsNamedAsSuch) {
  std::string bytes = BytesOf({});
  bytes[bytes.find('1')] = '2';
  Records read;
  EXPECT_EQ(Read(bytes, 100, read).error().code, Code::kFailedPrecondition);
}

// ---- Of a log, and back -------------------------------------------------------------------------

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    options_.path = dir_.path() / "old";
    options_.clock = &clock_;
    fresh_.path = dir_.path() / "new";
    fresh_.clock = &clock_;
  }

  static std::string ReadAll(coordinator::LogBackup& backup) {
    std::string bytes;
    for (;;) {
      const Result<std::string> piece = backup.Next();
      EXPECT_TRUE(piece.ok());
      if (!piece.ok() || piece->empty()) return bytes;
      EXPECT_LE(piece->size(), std::size_t{1} << 20);
      bytes += *piece;
    }
  }
  static std::string Backup(const RocksDecisionLog& log) {
    const auto backup = log.Backup();
    EXPECT_TRUE(backup.ok());
    return ReadAll(**backup);
  }
  static BackupSource From(std::string bytes) {
    return [bytes = std::move(bytes), at = std::size_t{0}]() mutable -> Result<std::string> {
      std::string piece = bytes.substr(at, 1000);
      at += piece.size();
      return piece;
    };
  }
  Result<Restored> RestoreTo(const stdfs::path& folder, const std::string& bytes) {
    OpenOptions options = fresh_;
    options.path = folder;
    return Restore(options, From(bytes));
  }

  TempDir dir_;
  FakeClock clock_;
  OpenOptions options_;
  OpenOptions fresh_;
};

TEST_F(BackupTest, ARestoredLogIsAnotherLogThatKeepsTheDecisions) {
  std::string bytes;
  LogId old_id;
  {
    const auto log = MustOpen(options_);
    old_id = log->recovered().log_id;
    txn::Decision keyed = DecisionOf(1);
    keyed.keys.push_back({0, {"pay-7", WallTime{9}, std::string(32, 'd')}});
    log->StoreEnlistment(EnlistmentOf(5));
    ASSERT_TRUE(StoreNow(*log, keyed).ok());
    ASSERT_TRUE(CompleteNow(*log, 1, 0).ok());
    ASSERT_TRUE(CompleteNow(*log, 1, 1).ok());
    ASSERT_TRUE(StoreNow(*log, DecisionOf(2)).ok());
    ASSERT_TRUE(CompleteNow(*log, 2, 0).ok());
    ASSERT_TRUE(StoreNow(*log, DecisionOf(3, 1)).ok());
    ASSERT_TRUE(CompleteNow(*log, 3, 0, txn::ParticipantOutcome::kAborted).ok());
    Answers answers;
    log->StoreBinding(ClusterName("c0"), KafkaClusterId("kafka-of-c0"), answers.Expect(1));
    answers.Wait(1);
    bytes = Backup(*log);
  }
  clock_.now_ms += 1000;
  const auto restored = RestoreTo(fresh_.path, bytes);
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->decisions, 3u);
  EXPECT_EQ(restored->incomplete, 1u);
  EXPECT_EQ(restored->heuristic, 1u);
  EXPECT_EQ(restored->from.log_id, old_id);

  const auto log = MustOpen(fresh_);
  const coordinator::RecoveredLog& recovered = log->recovered();
  EXPECT_EQ(recovered.log_id, restored->log_id);
  EXPECT_NE(recovered.log_id, old_id);
  EXPECT_EQ(recovered.incarnation, Incarnation(1));
  EXPECT_EQ(recovered.origins, std::vector<LogId>{old_id});
  EXPECT_EQ(recovered.restored_at, clock_.WallNow());
  EXPECT_EQ(recovered.next_batch, BatchId(4));
  EXPECT_TRUE(recovered.enlisted.empty());
  ASSERT_EQ(recovered.incomplete.size(), 1u);
  EXPECT_EQ(recovered.incomplete[0].batch, BatchId(2));
  EXPECT_EQ(recovered.incomplete[0].participants[0].outcome, txn::ParticipantOutcome::kCommitted);
  ASSERT_EQ(recovered.heuristic.size(), 1u);
  EXPECT_EQ(log->Binding(ClusterName("c0")), KafkaClusterId("kafka-of-c0"));
  EXPECT_TRUE((*log->Find(TxnOf(1))).has_value());
  EXPECT_TRUE((*log->FindKey("pay-7")).has_value());
  EXPECT_FALSE((*log->Find(TxnOf(4))).has_value());
  // It goes on as a log.
  ASSERT_TRUE(CompleteNow(*log, 2, 1).ok());
  ASSERT_TRUE(StoreNow(*log, DecisionOf(4)).ok());
  EXPECT_EQ(log->Stats()->decisions, 4u);

  std::ostringstream dump;
  ASSERT_TRUE(Dump(fresh_.path, dump).ok());
  EXPECT_THAT(dump.str(), HasSubstr(" from log " + old_id.get() + ", as it was "));
}

TEST_F(BackupTest, ABackupIsOfOneMomentAndTheLogGoesOn) {
  const auto log = MustOpen(options_);
  Answers answers;
  for (std::uint64_t batch = 1; batch <= 2000; ++batch) {
    log->StoreDecision(DecisionOf(batch), answers.Expect(batch));
  }
  answers.Wait(2000);
  ASSERT_TRUE(StoreNow(*log, DecisionOf(2001)).ok());
  auto backup = log->Backup();
  ASSERT_TRUE(backup.ok());
  const Result<std::string> first = (*backup)->Next();
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(StoreNow(*log, DecisionOf(2002)).ok()) << "nothing waits for its reader";
  ASSERT_TRUE(CompleteNow(*log, 2000, 0).ok());
  const auto restored = RestoreTo(fresh_.path, *first + ReadAll(**backup));
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->decisions, 2001u);
  const auto copy = MustOpen(fresh_);
  EXPECT_EQ(copy->recovered().incomplete.size(), 2001u);
  EXPECT_EQ((*copy->Find(TxnOf(2000)))->participants[0].outcome, txn::ParticipantOutcome::kPending);
}

TEST_F(BackupTest, OnlyAnEmptyFolderIsRestoredInto) {
  std::string bytes;
  {
    const auto log = MustOpen(options_);
    bytes = Backup(*log);
    const auto onto = RestoreTo(options_.path, bytes);
    ASSERT_FALSE(onto.ok());
    EXPECT_EQ(onto.error().code, Code::kFailedPrecondition);
  }
  const auto onto = RestoreTo(options_.path, bytes);
  ASSERT_FALSE(onto.ok());
  EXPECT_THAT(onto.error().message, HasSubstr("into an empty folder"));
  EXPECT_EQ(MustOpen(options_)->recovered().incarnation, Incarnation(2)) << "it is as it was";

  stdfs::create_directory(fresh_.path);
  WriteFile(fresh_.path / "photo.jpg", "x");
  EXPECT_EQ(RestoreTo(fresh_.path, bytes).error().code, Code::kInvalidArgument);
  EXPECT_EQ(RestoreTo(dir_.path() / "no" / "parent", bytes).error().code, Code::kNotFound);
}

TEST_F(BackupTest, WhatIsNoWholeBackupLeavesNothingThatWouldBeTakenForALog) {
  std::string bytes;
  {
    const auto log = MustOpen(options_);
    for (std::uint64_t batch = 1; batch <= 20; ++batch) {
      ASSERT_TRUE(StoreNow(*log, DecisionOf(batch)).ok());
    }
    bytes = Backup(*log);
  }
  for (const std::string& torn : {bytes.substr(0, bytes.size() - 1), bytes.substr(0, 30)}) {
    EXPECT_EQ(RestoreTo(fresh_.path, torn).error().code, Code::kCorrupt);
    const auto opened = Open(fresh_);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(opened.error().message, HasSubstr("did not end: restore again"));
    std::ostringstream dump;
    EXPECT_EQ(Dump(fresh_.path, dump).error().message, opened.error().message);
  }
  OpenOptions broken = fresh_;
  EXPECT_EQ(Restore(broken,
                    []() -> Result<std::string> {
                      return MakeError(Code::kUnavailable, "the disk is gone");
                    })
                .error()
                .code,
            Code::kUnavailable);
  const auto restored = RestoreTo(fresh_.path, bytes);
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(MustOpen(fresh_)->recovered().incomplete.size(), 20u);
}

TEST_F(BackupTest, ARestoredLogCanBeBackedUpAgain) {
  const auto first = RestoreTo(fresh_.path, Backup(*MustOpen(options_)));
  ASSERT_TRUE(first.ok());
  const auto second = RestoreTo(dir_.path() / "third", Backup(*MustOpen(fresh_)));
  ASSERT_TRUE(second.ok());
  OpenOptions third = fresh_;
  third.path = dir_.path() / "third";
  EXPECT_EQ(MustOpen(third)->recovered().origins,
            (std::vector<LogId>{first->from.log_id, first->log_id}));
}

}  // namespace
}  // namespace lockstep::log
