#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include <rocksdb/db.h>

#include "faulty_fs.h"
#include "lockstep/v1/log.pb.h"
#include "log/folder.h"
#include "log/keys.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;
using testing::FaultyFs;
using Op = FaultyFs::Op;

/// This thread's file accesses are those of a user without rights, also where the tests run as
/// root.
class AsNobody {
 public:
  AsNobody() {
    if (::geteuid() == 0) ::setfsuid(kNobody);
  }
  ~AsNobody() {
    if (::geteuid() == 0) ::setfsuid(0);
  }

 private:
  static constexpr uid_t kNobody = 65534;
};

/// A child process that runs `body` and then waits to be killed.
class Child {
 public:
  template <typename Body>
  explicit Child(const Body& body) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      [[maybe_unused]] const auto kept = body();
      if (::write(ready[1], "x", 1) != 1) std::abort();
      for (;;) ::pause();
    }
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) std::abort();
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class OpenTest : public ::testing::Test {
 protected:
  OpenTest() {
    options_.path = dir_.data();
    options_.clock = &clock_;
    ::chmod(dir_.path().c_str(), 0755);
  }

  void Make() { MustOpen(options_); }

  Error MustFail() {
    const auto log = Open(options_);
    if (log.ok()) {
      ADD_FAILURE() << "opened";
      return {};
    }
    EXPECT_EQ(log.error().effect, Effect::kNone);
    EXPECT_NE(log.error().message.find(stdfs::absolute(options_.path).string()), std::string::npos)
        << log.error().message;
    return log.error();
  }

  static void ExpectError(const Error& error, Code code, const std::string& says) {
    EXPECT_EQ(error.code, code) << ToString(error);
    EXPECT_NE(error.message.find(says), std::string::npos) << ToString(error);
  }

  /// Names and contents of all files.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const stdfs::path& file : FilesIn(options_.path, "")) {
      contents[file.filename().string()] = stdfs::is_directory(file) ? "folder" : ReadFile(file);
    }
    return contents;
  }

  /// Opens the database behind the log's back.
  std::unique_ptr<rocksdb::DB> Raw(const stdfs::path& path) {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path.string(), &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  TempDir dir_;
  FakeClock clock_;
  OpenOptions options_;
};

// ---- Missing, or something else -----------------------------------------------------------------

TEST_F(OpenTest, AMissingFolderIsMadeOnlyIfWanted) {
  options_.create_if_missing = false;
  ExpectError(MustFail(), Code::kNotFound, "does not exist");
  EXPECT_FALSE(stdfs::exists(options_.path));
  options_.create_if_missing = true;
  Make();
  options_.create_if_missing = false;
  Make();
}

TEST_F(OpenTest, AnEmptyFolderGetsALogOnlyIfWanted) {
  stdfs::create_directories(options_.path / "lost+found");
  options_.create_if_missing = false;
  ExpectError(MustFail(), Code::kNotFound, "holds no decision log");
  options_.create_if_missing = true;
  Make();
}

TEST_F(OpenTest, AMissingParentIsNotMade) {
  options_.path = dir_.path() / "a" / "b";
  ExpectError(MustFail(), Code::kNotFound, "its parent folder '" + (dir_.path() / "a").string());
  EXPECT_FALSE(stdfs::exists(dir_.path() / "a"));
}

TEST_F(OpenTest, ASlashAtTheEndChangesNothing) {
  options_.path = dir_.data().string() + "/";
  Make();
  options_.path = dir_.path() / "." / "data";
  options_.create_if_missing = false;
  Make();
}

TEST_F(OpenTest, AFileIsNoFolder) {
  WriteFile(options_.path, "x");
  ExpectError(MustFail(), Code::kInvalidArgument, "is not a folder");
}

TEST_F(OpenTest, OtherFilesAreNoLogAndAreLeftAlone) {
  stdfs::create_directory(options_.path);
  WriteFile(options_.path / "holiday.jpg", "x");
  const auto before = Contents();
  ExpectError(MustFail(), Code::kInvalidArgument, "'holiday.jpg'");
  EXPECT_EQ(Contents(), before);
}

TEST_F(OpenTest, SomebodyElsesRocksDbIsNoLogAndIsLeftAlone) {
  stdfs::create_directory(options_.path);
  ASSERT_TRUE(Raw(options_.path)->Put({}, "theirs", "x").ok());
  const auto before = Contents();
  ExpectError(MustFail(), Code::kInvalidArgument, "is not a decision log");
  EXPECT_EQ(Contents(), before);
}

TEST_F(OpenTest, AnUnfinishedLogIsMadeAnewAndOtherFilesStay) {
  Make();
  stdfs::remove(options_.path / "FORMAT");
  WriteFile(options_.path / "CREATING", "");
  WriteFile(options_.path / "note.txt", "x");
  options_.create_if_missing = false;
  ExpectError(MustFail(), Code::kNotFound, "holds no decision log");
  options_.create_if_missing = true;
  const auto log = MustOpen(options_);
  EXPECT_EQ(log->recovered().incarnation, Incarnation(1));
  EXPECT_EQ(ReadFile(options_.path / "note.txt"), "x");
  EXPECT_FALSE(stdfs::exists(options_.path / "CREATING"));
}

TEST_F(OpenTest, ACompleteLogIsNotTakenForAnUnfinishedOne) {
  Make();
  WriteFile(options_.path / "CREATING", "");  // As a crash right after FORMAT was made leaves it.
  const auto log = MustOpen(options_);
  EXPECT_EQ(log->recovered().incarnation, Incarnation(2));
  EXPECT_FALSE(stdfs::exists(options_.path / "CREATING"));
}

// ---- Permissions --------------------------------------------------------------------------------

TEST_F(OpenTest, AFolderThatMayNotBeRead) {
  Make();
  ::chmod(options_.path.c_str(), 0);
  const AsNobody nobody;
  ExpectError(MustFail(), Code::kPermissionDenied, "listing the folder: Permission denied");
}

TEST_F(OpenTest, AFolderThatMayNotBeWritten) {
  stdfs::create_directory(options_.path);
  ::chmod(options_.path.c_str(), 0555);
  const AsNobody nobody;
  ExpectError(MustFail(), Code::kPermissionDenied, "OWNER: Permission denied");
}

TEST_F(OpenTest, AParentThatMayNotBeWritten) {
  ::chmod(dir_.path().c_str(), 0555);
  {
    const AsNobody nobody;
    ExpectError(MustFail(), Code::kPermissionDenied, "making the folder");
  }
  ::chmod(dir_.path().c_str(), 0755);
}

TEST_F(OpenTest, AFileInsideThatMayNotBeRead) {
  Make();
  ::chmod(options_.path.c_str(), 0777);
  for (const stdfs::path& file : FilesIn(options_.path, "")) ::chmod(file.c_str(), 0666);
  ::chmod((options_.path / "CURRENT").c_str(), 0);
  {
    const AsNobody nobody;
    ExpectError(MustFail(), Code::kPermissionDenied, "CURRENT");
  }
  ::chmod((options_.path / "CURRENT").c_str(), 0666);
  Make();
}

// ---- In use -------------------------------------------------------------------------------------

TEST_F(OpenTest, OneProcessOpensItOnce) {
  const auto log = MustOpen(options_);
  ExpectError(MustFail(), Code::kFailedPrecondition, "in use by pid " + std::to_string(::getpid()));
  EXPECT_TRUE(StoreNow(*log, DecisionOf(1)).ok());
}

TEST_F(OpenTest, AnotherProcessKeepsItUntilItDies) {
  Make();
  Child holder([this] { return FolderLock::Take(options_.path); });
  ExpectError(MustFail(), Code::kFailedPrecondition,
              "in use by pid " + std::to_string(holder.pid()) + " on ");
  holder.Kill();
  Make();
}

TEST_F(OpenTest, AHolderThatHasNotWrittenItsNameYet) {
  Make();
  Child holder([this] {
    auto lock = FolderLock::Take(options_.path);
    WriteFile(options_.path / "OWNER", "");
    return lock;
  });
  ExpectError(MustFail(), Code::kFailedPrecondition, "in use by another process");
}

TEST_F(OpenTest, AProgramThatHoldsTheLockOfRocksDb) {
  Make();
  const Child holder([this] {
    const int fd = ::open((options_.path / "LOCK").c_str(), O_RDWR);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (fd < 0 || ::fcntl(fd, F_SETLK, &lock) != 0) std::abort();
    return fd;
  });
  ExpectError(MustFail(), Code::kFailedPrecondition, "holds RocksDB's own lock");
}

// ---- The disk -----------------------------------------------------------------------------------

class OpenOnABadDiskTest : public OpenTest {
 protected:
  OpenOnABadDiskTest() : fs_(std::make_shared<FaultyFs>(dir_.path(), 1)) {
    options_.file_system = fs_;
  }

  /// Fails each change of one kind in turn, until opening needs no more of them; then all is well.
  int FailEach(Op op, const rocksdb::IOStatus& error, Code code, const std::string& says) {
    for (int nth = 1;; ++nth) {
      fs_->FailNth(op, "", nth, error);
      Status status;
      if (const auto log = Open(options_); !log.ok()) status = log.error();
      fs_->Restart(FaultyFs::Left::kRandom);
      if (status.ok()) return nth - 1;
      EXPECT_EQ(status.error().code, code) << ToString(status.error());
      EXPECT_NE(status.error().message.find(says), std::string::npos) << ToString(status.error());
    }
  }

  std::shared_ptr<FaultyFs> fs_;
};

TEST_F(OpenOnABadDiskTest, AFullDiskWhileTheLogIsMade) {
  const auto full = rocksdb::IOStatus::NoSpace("No space left on device");
  EXPECT_GT(FailEach(Op::kAppend, full, Code::kResourceExhausted, "no space left"), 3);
  options_.path = dir_.path() / "other";
  EXPECT_GT(FailEach(Op::kMake, full, Code::kResourceExhausted, "no space left"), 3);
}

TEST_F(OpenOnABadDiskTest, AFullDiskLosesNothing) {
  {
    const auto log = MustOpen(options_);
    ASSERT_TRUE(StoreNow(*log, DecisionOf(1)).ok());
  }
  const auto full = rocksdb::IOStatus::NoSpace("No space left on device");
  EXPECT_GT(FailEach(Op::kAppend, full, Code::kResourceExhausted, "no space left"), 2);
  const auto log = MustOpen(options_);
  EXPECT_EQ(log->Find(TxnOf(1))->value(), DecisionOf(1));
}

TEST_F(OpenOnABadDiskTest, AFailingDisk) {
  const auto broken = rocksdb::IOStatus::IOError("Input/output error");
  EXPECT_GT(FailEach(Op::kSync, broken, Code::kUnavailable, "check the disk"), 3);  // Made anew.
  EXPECT_GT(FailEach(Op::kSync, broken, Code::kUnavailable, "check the disk"), 2);
}

// ---- Another version, or nonsense ---------------------------------------------------------------

TEST_F(OpenTest, ANewerFormatIsLeftAlone) {
  Make();
  WriteFile(options_.path / "FORMAT", "Lockstep decision log\nformat 2\n");
  const auto before = Contents();
  ExpectError(MustFail(), Code::kFailedPrecondition, "has format 2, this lockstepd reads up to 1");
  EXPECT_EQ(Contents(), before);
}

TEST_F(OpenTest, ARecordOfANewerFormatIsRefused) {
  Make();
  v1::log::Record record;
  record.set_format(2);
  record.mutable_start()->set_incarnation(7);
  ASSERT_TRUE(Raw(options_.path)->Put({}, keys::kStart, record.SerializeAsString()).ok());
  ExpectError(MustFail(), Code::kFailedPrecondition, "the record has format 2");
}

TEST_F(OpenTest, AFormatFileThatMakesNoSenseIsDamage) {
  Make();
  for (const char* text : {"", "x", "Lockstep decision log\nformat \n", "Lockstep decision log\n",
                           "Lockstep decision log\nformat 1", "Lockstep decision log\nformat 0\n",
                           "Lockstep decision log\nformat 1x\n"}) {
    WriteFile(options_.path / "FORMAT", text);
    ExpectError(MustFail(), Code::kCorrupt, "FORMAT");
  }
}

/// Behind it there is none, so whoever steps to the next begins again at the first.
const BatchId kLastBatch(UINT64_MAX);

TEST_F(OpenTest, RecordsThatContradictEachOtherAreDamage) {
  struct Case {
    std::string says;
    std::function<void(rocksdb::DB&)> spoil;
  };
  const std::vector<Case> cases = {
      {"its identity is missing", [](auto& db) { db.Delete({}, keys::kIdentity); }},
      {"the latest start", [](auto& db) { db.Put({}, keys::kStart, "junk"); }},
      {"decision of batch 1", [](auto& db) { db.Put({}, keys::Decision(BatchId(1)), "junk"); }},
      {"enlistment of transactional.id 'app' on cluster 'c0'",
       [](auto& db) {
         db.Put({}, keys::Enlistment(ClusterName("c0"), TransactionalId("app")), "junk");
       }},
      {"enlistment of transactional.id 'app' on cluster 'c0': the record belongs to another key",
       [](auto& db) {
         db.Put({}, keys::Enlistment(ClusterName("c0"), TransactionalId("app")),
                Encode(EnlistmentOf(1, "other")));
       }},
      {"open mark of batch 1: its decision is missing",
       [](auto& db) { db.Delete({}, keys::Decision(BatchId(1))); }},
      {"decision of batch 1",
       [](auto& db) { db.Put({}, keys::Decision(BatchId(1)), Encode(DecisionOf(2))); }},
      {"completion of participant 9 of batch 1",
       [](auto& db) {
         const StoredCompletion none{{BatchId(1), 9, txn::ParticipantOutcome::kCommitted}, {}};
         db.Put({}, keys::Completion(BatchId(1), 9), Encode(none));
       }},
      {"completion of participant 0 of batch 1",
       [](auto& db) {
         const StoredCompletion other{{BatchId(1), 1, txn::ParticipantOutcome::kCommitted}, {}};
         db.Put({}, keys::Completion(BatchId(1), 0), Encode(other));
       }},
      {"the latest batch has the last number",
       [](auto& db) { db.Put({}, keys::Decision(kLastBatch), Encode(DecisionOf(UINT64_MAX))); }},
      {"the latest batch has the last number",
       [](auto& db) {
         db.Put({}, keys::kForgotten, Encode(Forgotten{{}, kLastBatch}));
       }},
      {"the latest start has the last number",
       [](auto& db) {
         db.Put({}, keys::kStart, Encode(Start{Incarnation(UINT64_MAX), {}, {}}));
       }},
      {"binding of cluster 'a'",
       [](auto& db) { db.Put({}, keys::Binding(ClusterName("a")), "junk"); }},
  };
  for (const Case& c : cases) {
    stdfs::remove_all(options_.path);
    ASSERT_TRUE(StoreNow(*MustOpen(options_), DecisionOf(1)).ok());
    c.spoil(*Raw(options_.path));
    ExpectError(MustFail(), Code::kCorrupt, c.says);
  }
}

}  // namespace
}  // namespace lockstep::log
