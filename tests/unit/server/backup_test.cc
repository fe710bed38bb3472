#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "api_fixture.h"
#include "call_context.h"
#include "coordinator/txn_id.h"
#include "ctl.h"
#include "log/backup_codec.h"

namespace lockstep::server {
namespace {

namespace stdfs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A whole backup, as the log of a server would give it.
std::string BackupBytes() {
  log::BackupEncoder encoder({.folder_format = 1,
                              .log_id = LogId("0123456789abcdef"),
                              .incarnation = Incarnation(3),
                              .taken_at = {1'700'000'000'000}});
  encoder.Add("key", "value");
  encoder.Finish();
  return encoder.Take(encoder.size());
}

class BackupTest : public ApiFixture {
 protected:
  BackupTest() {
    std::string name = stdfs::temp_directory_path() / "lockstep-backup-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~BackupTest() override { stdfs::remove_all(folder_); }

  using Ran = lockstep::testing::CtlRan;
  Ran Backup(const stdfs::path& target) {
    return lockstep::testing::RunCtl(
        {"--server", "127.0.0.1:" + std::to_string(daemon_->port()), "backup", target});
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& file : stdfs::directory_iterator(folder_)) {
      names.push_back(file.path().filename());
    }
    return names;
  }
  static std::string Read(const stdfs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  stdfs::path folder_;
};

TEST_F(BackupTest, TheFileIsThereOnceItIsWhole) {
  Serve();
  const std::string bytes = BackupBytes();
  log_.SetBackup({bytes.substr(0, 20), bytes.substr(20)});
  const Ran ran = Backup(folder_ / "b");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("log 0123456789abcdef, start 3"));
  EXPECT_EQ(Read(folder_ / "b"), bytes);
  EXPECT_THAT(Files(), ::testing::ElementsAre("b"));

  // Into a folder: under a name that tells what it is.
  EXPECT_EQ(Backup(folder_).exit_code, 0);
  const std::string name = "lockstep-0123456789abcdef-20231114T221320Z.backup";
  EXPECT_EQ(Read(folder_ / name), bytes);
  EXPECT_EQ(Backup(folder_).exit_code, 1) << "it is not overwritten";
  EXPECT_THAT(Files(), ::testing::UnorderedElementsAre("b", name));
}

TEST_F(BackupTest, AFileIsNotOverwritten) {
  Serve();
  log_.SetBackup({BackupBytes()});
  std::ofstream(folder_ / "b") << "precious";
  const Ran ran = Backup(folder_ / "b");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("not overwritten"));
  EXPECT_EQ(Read(folder_ / "b"), "precious");
}

TEST_F(BackupTest, WhatIsTornLeavesNoFile) {
  Serve();
  const std::string bytes = BackupBytes();
  // The call ends OK, but the end of the backup never came; and it breaks off with an error.
  log_.SetBackup({bytes.substr(0, bytes.size() - 1)});
  Ran ran = Backup(folder_ / "b");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("its end is missing"));
  log_.SetBackup({bytes.substr(0, 30), MakeError(Code::kCorrupt, "a block is damaged")});
  ran = Backup(folder_ / "b");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("CORRUPT: a block is damaged"));
  log_.SetBackup({bytes.substr(0, 30), std::string("nonsense, and much of it, for a frame")});
  ran = Backup(folder_ / "b");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(BackupTest, OneAtATimeAndACancelledOneMakesRoom) {
  Serve();
  // More than gRPC takes without a reader.
  log_.SetBackup(std::vector<Result<std::string>>(64, std::string(std::size_t{1} << 20, 'x')));
  grpc::ClientContext context;
  const auto reader = admin_->Backup(&context, v1::BackupRequest());
  v1::BackupResponse response;
  ASSERT_TRUE(reader->Read(&response));
  const auto second = [&] {
    CallContext other(std::chrono::seconds(20));
    const auto stream = admin_->Backup(&other, v1::BackupRequest());
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  ExpectError(second(), grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "another backup");
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  grpc::Status status = second();
  for (int i = 0; i < 1000 && status.error_code() == grpc::RESOURCE_EXHAUSTED; ++i) {
    std::this_thread::yield();
    status = second();
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(BackupTest, OneThatNobodyReadsIsCancelledAndMakesRoom) {
  config_.backup_patience = std::chrono::milliseconds(100);
  Serve();
  log_.SetBackup(std::vector<Result<std::string>>(64, std::string(std::size_t{1} << 20, 'x')));
  grpc::ClientContext context;
  const auto stalled = admin_->Backup(&context, v1::BackupRequest());
  v1::BackupResponse response;
  ASSERT_TRUE(stalled->Read(&response));
  // Another one is taken only once the server has given up on this one, which is not read
  // meanwhile.
  log_.SetBackup({BackupBytes()});
  while (Backup(folder_ / "b").exit_code != 0) {
  }
  EXPECT_THAT(Files(), ::testing::ElementsAre("b"));
  while (stalled->Read(&response)) {
  }
  EXPECT_EQ(stalled->Finish().error_code(), grpc::CANCELLED);
}

TEST_F(BackupTest, StoppingEndsOneThatRuns) {
  Serve();
  log_.SetBackup(std::vector<Result<std::string>>(64, std::string(std::size_t{1} << 20, 'x')));
  grpc::ClientContext context;
  const auto reader = admin_->Backup(&context, v1::BackupRequest());
  v1::BackupResponse response;
  ASSERT_TRUE(reader->Read(&response));
  StopServer();
  while (reader->Read(&response)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

// ---- What a restored log knows, and what not ----------------------------------------------------

class RestoredTest : public ApiFixture {
 protected:
  static constexpr const char* kOrigin = "0123456789abcdef";
  /// A transaction of the log that this one was restored from.
  static std::string OldId(int number) {
    return coordinator::FormatTxnId({LogId(kOrigin), Incarnation(7), WallTime{1'700'000'000'000},
                                     static_cast<std::uint64_t>(number)})
        .get();
  }
};

TEST_F(RestoredTest, NothingIsPresumedOfTheOldLogsTransactions) {
  log_.RestoreFrom(LogId(kOrigin), clock_.WallNow());
  Serve();
  v1::CommitResponse response;
  ExpectError(Commit(OldId(1), &response), grpc::NOT_FOUND, "TXN_NOT_FOUND", "may be either");
  v1::AbortResponse aborted;
  ExpectError(Abort(OldId(1), &aborted), grpc::NOT_FOUND, "TXN_NOT_FOUND", "may be either");
  v1::LogInfoResponse info;
  ASSERT_TRUE(Call(*admin_, &AdminStub::LogInfo, v1::LogInfoRequest(), &info).ok());
  ASSERT_EQ(info.restored_from_size(), 1);
  EXPECT_EQ(info.restored_from(0), kOrigin);
  EXPECT_GT(info.restore_time().seconds(), 0);
}

TEST_F(RestoredTest, WhatTheBackupHoldsIsCompletedAndAnswered) {
  log_.RestoreFrom(LogId(kOrigin), clock_.WallNow());
  txn::Decision decision;
  decision.batch = BatchId(1);
  decision.members = {GlobalTxnId(OldId(1))};
  txn::DecidedParticipant participant;
  participant.prepared.name.cluster = ClusterName("east");
  participant.prepared.name.kafka_cluster_id = KafkaClusterId("kafka-of-east");
  participant.prepared.name.transactional_id =
      TransactionalId(std::string("lockstep-") + kOrigin + "-7-east-0");
  decision.participants = {participant};
  log_.Recover(decision);
  Serve();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(OldId(1), &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
}

TEST_F(RestoredTest, KeysFromBeforeTheRestoreDoNotRunAgain) {
  log_.RestoreFrom(LogId(kOrigin), clock_.WallNow());
  Serve();
  v1::ExecuteRequest request;
  request.set_key("k");
  request.mutable_timeout()->set_seconds(30);
  auto& produce = *request.add_work()->mutable_produce();
  produce.set_cluster("east");
  produce.add_records()->set_topic("orders");
  v1::ExecuteResponse response;
  // Made before, or by a client whose clock is a little ahead: it may have run on the old log.
  for (const int seconds : {-60, 0, 4 * 60}) {
    request.mutable_key_time()->set_seconds(clock_.WallNow().ms / 1000 + seconds);
    ExpectError(Call(*coordinator_, &CoordinatorStub::Execute, request, &response), grpc::NOT_FOUND,
                "KEY_FORGOTTEN", "restored from a backup");
  }
}

TEST_F(RestoredTest, LaterKeysRun) {
  log_.RestoreFrom(LogId(kOrigin), WallTime{clock_.WallNow().ms - 10 * 60 * 1000});
  Serve();
  v1::ExecuteRequest request;
  request.set_key("k");
  request.mutable_key_time()->set_seconds(clock_.WallNow().ms / 1000);
  request.mutable_timeout()->set_seconds(30);
  auto& produce = *request.add_work()->mutable_produce();
  produce.set_cluster("east");
  produce.add_records()->set_topic("orders");
  v1::ExecuteResponse response;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::Execute, request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
}

}  // namespace
}  // namespace lockstep::server
