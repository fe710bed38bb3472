#include "faulty_fs.h"

#include <gtest/gtest.h>

#include <set>

#include "log_test_support.h"

/// The disk under the other tests: does it lose what it should, and only that?
namespace lockstep::testing {
namespace {

namespace stdfs = std::filesystem;
using log::ReadFile;
using Op = FaultyFs::Op;

class FaultyFsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (dir_.path() / name).string(); }

  std::unique_ptr<rocksdb::FSWritableFile> Make(const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(fs_.NewWritableFile(Path(name), {}, &file, nullptr).ok());
    return file;
  }
  void SyncFolder() {
    std::unique_ptr<rocksdb::FSDirectory> folder;
    ASSERT_TRUE(fs_.NewDirectory(dir_.path().string(), {}, &folder, nullptr).ok());
    ASSERT_TRUE(folder->Fsync({}, nullptr).ok());
  }
  /// A file that is durable, name and bytes.
  void MakeDurable(const std::string& name, const std::string& bytes) {
    const auto file = Make(name);
    ASSERT_TRUE(file->Append(bytes, {}, nullptr).ok());
    ASSERT_TRUE(file->Sync({}, nullptr).ok());
    SyncFolder();
  }
  void Crash(FaultyFs::Left left = FaultyFs::Left::kOnlySynced) {
    fs_.Kill();
    fs_.Restart(left);
  }

  log::TempDir dir_;
  FaultyFs fs_{dir_.path(), 1};
};

TEST_F(FaultyFsTest, BytesThatWereNotSyncedAreLost) {
  auto file = Make("f");
  SyncFolder();
  ASSERT_TRUE(file->Append("synced", {}, nullptr).ok());
  ASSERT_TRUE(file->Sync({}, nullptr).ok());
  ASSERT_TRUE(file->Append(" and not", {}, nullptr).ok());
  file.reset();
  EXPECT_EQ(ReadFile(Path("f")), "synced and not");
  Crash();
  EXPECT_EQ(ReadFile(Path("f")), "synced");
}

TEST_F(FaultyFsTest, AFileWhoseFolderWasNotSyncedIsLost) {
  {
    const auto file = Make("f");
    ASSERT_TRUE(file->Append("x", {}, nullptr).ok());
    ASSERT_TRUE(file->Sync({}, nullptr).ok());
  }
  Crash();
  EXPECT_FALSE(stdfs::exists(Path("f")));
}

TEST_F(FaultyFsTest, ARenameThatWasNotSyncedIsUndone) {
  MakeDurable("old", "old bytes");
  MakeDurable("new", "new bytes");
  ASSERT_TRUE(fs_.RenameFile(Path("new"), Path("old"), {}, nullptr).ok());
  EXPECT_EQ(ReadFile(Path("old")), "new bytes");
  Crash();
  EXPECT_EQ(ReadFile(Path("old")), "old bytes");
  EXPECT_EQ(ReadFile(Path("new")), "new bytes");

  ASSERT_TRUE(fs_.RenameFile(Path("new"), Path("old"), {}, nullptr).ok());
  SyncFolder();
  Crash();
  EXPECT_EQ(ReadFile(Path("old")), "new bytes");
  EXPECT_FALSE(stdfs::exists(Path("new")));
}

TEST_F(FaultyFsTest, ARemovalThatWasNotSyncedIsUndone) {
  MakeDurable("f", "bytes");
  ASSERT_TRUE(fs_.DeleteFile(Path("f"), {}, nullptr).ok());
  EXPECT_FALSE(stdfs::exists(Path("f")));
  Crash();
  EXPECT_EQ(ReadFile(Path("f")), "bytes");
}

TEST_F(FaultyFsTest, AFolderThatWasNotSyncedIsLostWithAllInIt) {
  ASSERT_TRUE(fs_.CreateDir(Path("sub"), {}, nullptr).ok());
  Make("sub/f").reset();
  Crash();
  EXPECT_FALSE(stdfs::exists(Path("sub")));
}

TEST_F(FaultyFsTest, ATailIsTornAnywhere) {
  std::set<std::size_t> sizes;
  for (int i = 0; i < 200; ++i) {
    MakeDurable("f", "abc");
    auto file = Make("g");
    SyncFolder();
    ASSERT_TRUE(file->Append("defgh", {}, nullptr).ok());
    file.reset();
    Crash(FaultyFs::Left::kRandom);
    EXPECT_EQ(ReadFile(Path("f")), "abc");
    sizes.insert(ReadFile(Path("g")).size());
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(FaultyFsTest, TheSameSeedTearsTheSameWay) {
  const auto sizes = [](std::uint64_t seed) {
    log::TempDir dir;
    FaultyFs fs(dir.path(), seed);
    std::vector<std::size_t> all;
    for (int i = 0; i < 20; ++i) {
      std::unique_ptr<rocksdb::FSWritableFile> file;
      const std::string path = (dir.path() / "f").string();
      EXPECT_TRUE(fs.NewWritableFile(path, {}, &file, nullptr).ok());
      EXPECT_TRUE(file->Append(std::string(100, 'x'), {}, nullptr).ok());
      file.reset();
      fs.Kill();
      fs.Restart(FaultyFs::Left::kRandom);
      all.push_back(stdfs::exists(path) ? ReadFile(path).size() : 1000);
    }
    return all;
  };
  EXPECT_EQ(sizes(5), sizes(5));
  EXPECT_NE(sizes(5), sizes(6));
}

TEST_F(FaultyFsTest, TheNthChangeFailsAndOnlyThat) {
  const auto file = Make("f");
  fs_.FailNth(Op::kSync, "f", 2, rocksdb::IOStatus::NoSpace("full"));
  EXPECT_TRUE(file->Sync({}, nullptr).ok());
  EXPECT_TRUE(file->Sync({}, nullptr).IsNoSpace());
  EXPECT_TRUE(file->Sync({}, nullptr).ok());
  EXPECT_EQ(fs_.Count(Op::kSync, "f"), 3);
}

TEST_F(FaultyFsTest, AfterAKillNothingWorks) {
  const auto file = Make("f");
  fs_.KillAt(2);
  EXPECT_TRUE(file->Append("x", {}, nullptr).ok());
  EXPECT_FALSE(file->Append("y", {}, nullptr).ok());
  EXPECT_TRUE(fs_.killed());
  EXPECT_FALSE(file->Sync({}, nullptr).ok());
  EXPECT_FALSE(fs_.DeleteFile(Path("f"), {}, nullptr).ok());
  EXPECT_EQ(ReadFile(Path("f")), "x");
}

}  // namespace
}  // namespace lockstep::testing
