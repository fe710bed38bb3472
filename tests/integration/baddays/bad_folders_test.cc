// The data folder on its bad days. A transaction that was decided before is committed once the
// folder is well again, whatever was tried in between.

#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "call_context.h"
#include "fixture.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Lockstepd;
using testing::TestTxn;
using ::testing::UnorderedElementsAre;

class BadFoldersTest : public BadDaysTest {
 protected:
  /// Its disk can be filled.
  static Lockstepd::Options OnASmallDisk(const std::string& data_dir) {
    const char* sanitizer = std::getenv("ASAN_OPTIONS");
    auto options = BothClusters();
    options.data_dir = data_dir;
    options.environment = {"LD_PRELOAD=" FULL_DISK_LIBRARY, "LOCKSTEP_FULL_DISK=" + data_dir,
                           "ASAN_OPTIONS=" + std::string(sanitizer == nullptr ? "" : sanitizer) +
                               ":verify_asan_link_order=0"};
    return options;
  }
  static void FillDisk(const std::string& data_dir) { std::ofstream(data_dir + ".full"); }
  static void FreeDisk(const std::string& data_dir) { fs::remove(data_dir + ".full"); }

  /// On the disk that holds builds, not on tmpfs: a sync must mean something.
  static std::string NewFolder() {
    std::string path = "/var/tmp/lockstep-bad-folder.XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    return path;
  }

  /// What `daemon` wrote to its log during the last start, which must fail with `code`.
  static std::string Refused(Lockstepd& daemon, int code) {
    const std::size_t before = daemon.Log().size();
    EXPECT_EQ(daemon.FailedStart(), code) << daemon.Log().substr(before);
    return daemon.Log().substr(before);
  }

  static std::string Read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Write(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }

  /// The write-ahead log's file: its records since the last start.
  static fs::path WriteAheadLog(const std::string& data_dir) {
    fs::path latest;
    for (const auto& entry : fs::directory_iterator(data_dir)) {
      if (entry.path().extension() == ".log") latest = std::max(latest, entry.path());
    }
    return latest;
  }
};

TEST_F(BadFoldersTest, EachIsRefusedByNameAndTheDecisionSurvives) {
  const std::string topic = NewTopic();
  Lockstepd daemon(BothClusters());
  const std::string id = CrashDecided(daemon, topic, "b", "decided");
  const std::string& folder = daemon.data_dir();

  fs::permissions(folder, fs::perms::none);
  EXPECT_THAT(Refused(daemon, 3),
              AllOf(HasSubstr("decision log '" + folder + "': "),
                    HasSubstr("Permission denied (running as uid "),
                    HasSubstr("let this user read and write the folder and every file in it")));
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(Refused(daemon, 3), HasSubstr("Permission denied"));
  fs::permissions(folder, fs::perms::owner_all);

  const std::string format = Read(folder + "/FORMAT");
  Write(folder + "/FORMAT", "Lockstep decision log\nformat 2\n");
  EXPECT_THAT(Refused(daemon, 3),
              HasSubstr("decision log folder '" + folder +
                        "' has format 2, this lockstepd reads up to 1: run the newer lockstepd; "
                        "nothing was changed"));
  Write(folder + "/FORMAT", format);

  const fs::path wal = WriteAheadLog(folder);
  const std::string sound = Read(wal);
  std::string damaged = sound;
  damaged.at(sound.size() / 2) ^= 0x10;
  Write(wal, damaged);
  EXPECT_THAT(Refused(daemon, 3), AllOf(HasSubstr("decision log '" + folder + "' is damaged: "),
                                        HasSubstr("keep the folder as it is"),
                                        HasSubstr("'lockstepctl log dump " + folder + "'")));
  const testing::Ran dump = testing::RunProgram({LOCKSTEPCTL_BINARY, "log", "dump", folder});
  EXPECT_EQ(dump.exit_code, 1);
  EXPECT_THAT(dump.out, HasSubstr("damaged"));
  EXPECT_TRUE(Read(wal) == damaged) << "a refused start changed it";
  Write(wal, sound);  // The disk's own copy, put back.

  daemon.Start();
  auto options = BothClusters();
  options.data_dir = folder;
  Lockstepd second(options);
  EXPECT_THAT(Refused(second, 3),
              AllOf(HasSubstr("decision log folder '" + folder + "' is in use by pid " +
                              std::to_string(daemon.pid()) + " on "),
                    HasSubstr("one lockstepd a folder; stop that one, or name another folder")));
  EXPECT_EQ(Ctl(daemon, {"commit", id}).exit_code, 0);
  EXPECT_THAT(OnA(topic), ElementsAre("decided"));
  EXPECT_THAT(OnB(topic), ElementsAre("decided"));
}

TEST_F(BadFoldersTest, AFullDiskIsRefusedUntilThereIsSpaceAndTheDecisionSurvives) {
  const std::string topic = NewTopic();
  const std::string home = NewFolder();
  const std::string data = home + "/data";
  Lockstepd daemon(OnASmallDisk(data));
  const std::string id = CrashDecided(daemon, topic, "b", "decided");

  FillDisk(data);
  for (int start = 0; start < 3; ++start) {
    EXPECT_THAT(Refused(daemon, 3),
                AllOf(HasSubstr("decision log '" + data + "': "),
                      HasSubstr("no space left on the device: free some or enlarge the volume, "
                                "then start again")));
  }
  FreeDisk(data);
  daemon.Start();
  EXPECT_EQ(Ctl(daemon, {"commit", id}).exit_code, 0);
  EXPECT_THAT(OnA(topic), ElementsAre("decided"));
  EXPECT_THAT(OnB(topic), ElementsAre("decided"));
  daemon.Kill();
  fs::remove_all(home);
}

TEST_F(BadFoldersTest, ADiskThatFillsUpEndsTheProcessAndNoOutcomeIsMadeUp) {
  const std::string topic = NewTopic();
  const std::string home = NewFolder();
  const std::string data = home + "/data";
  Lockstepd daemon(OnASmallDisk(data));
  daemon.Start();
  daemon.AwaitReady();
  const auto commit = [&](const std::string& value) {
    TestTxn txn(daemon.coordinator());
    EXPECT_TRUE(txn.Produce("a", topic, value).ok());
    EXPECT_TRUE(txn.Produce("b", topic, value).ok());
    return std::pair(txn.id(), Ctl(daemon, {"commit", txn.id()}));
  };
  const auto [before, committed] = commit("before");
  EXPECT_EQ(committed.exit_code, 0) << committed.out;
  daemon.Await("its completion to be written: then its lanes are free", 20s, [&] {
    CallContext context;
    v1::GetStatusResponse now;
    if (!daemon.admin().GetStatus(&context, {}, &now).ok()) return false;
    return std::ranges::all_of(now.clusters(), [](const auto& c) { return c.lanes().busy() == 0; });
  });
  FillDisk(data);
  const auto [unknown, cut_off] = commit("unknown");
  EXPECT_EQ(cut_off.exit_code, 4);
  EXPECT_THAT(cut_off.out, HasSubstr("The outcome of " + unknown + " is not known: ask again"));
  const auto status = daemon.AwaitEnd(30s);
  ASSERT_TRUE(status && WIFEXITED(*status)) << daemon.Log();
  EXPECT_EQ(WEXITSTATUS(*status), 4);
  EXPECT_THAT(daemon.Log(), AllOf(HasSubstr("decision log '" + data + "': writing failed: "),
                                  HasSubstr("No space left on device"),
                                  HasSubstr("free some space or enlarge the volume")));
  Refused(daemon, 3);

  FreeDisk(data);
  daemon.Start();
  daemon.AwaitReady();
  EXPECT_EQ(Ctl(daemon, {"commit", before}).exit_code, 0);
  // Half of its record was written: it was never decided, and is presumed aborted.
  EXPECT_EQ(Ctl(daemon, {"commit", unknown}).exit_code, 2);
  const auto [after, again] = commit("after");
  EXPECT_EQ(again.exit_code, 0) << again.out;
  EXPECT_THAT(OnA(topic), UnorderedElementsAre("before", "after"));
  EXPECT_THAT(OnB(topic), UnorderedElementsAre("before", "after"));
  daemon.Kill();
  fs::remove_all(home);
}

}  // namespace
}  // namespace lockstep
