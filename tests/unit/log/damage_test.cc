#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "faulty_fs.h"
#include "log/dump.h"
#include "log/record_file.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;

constexpr std::size_t kBlock = 32 * 1024;
constexpr std::size_t kHeader = 7;

/// Where the records of a sound record file stand.
std::vector<std::size_t> RecordsOf(const std::string& file) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at + kHeader <= file.size();) {
    if (kBlock - at % kBlock < kHeader) {
      at += kBlock - at % kBlock;
      continue;
    }
    offsets.push_back(at);
    at += kHeader + static_cast<unsigned char>(file[at + 4]) +
          static_cast<std::size_t>(static_cast<unsigned char>(file[at + 5])) * 256;
  }
  return offsets;
}

std::string Flipped(std::string bytes, std::size_t at, int bit) {
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
  return bytes;
}

/// A closed log with decisions in table files and in the write-ahead log. Damage is done to a copy,
/// one place at a time.
class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    options_.path = dir_.data();
    options_.clock = &clock_;
    auto log = MustOpen(options_);
    for (std::uint64_t batch = 1; batch <= kSmall; ++batch) Store(*log, DecisionOf(batch, 3));
    log.reset();
    log = MustOpen(options_);  // Moves what the write-ahead log holds to a table file.
    for (std::uint64_t batch = 1; batch <= kSmall; ++batch) {
      Store(*log, DecisionOf(kSmall + batch, 3));
    }
  }

  /// More than RocksDB keeps in memory: while the log is open, the MANIFEST gets further records.
  void StoreMuch() {
    auto log = MustOpen(options_);
    for (std::uint64_t batch = 101; batch <= 112; ++batch) {
      txn::Decision large = DecisionOf(batch);
      large.participants[0].prepared.evidence.assign(60'000, {{"a-topic-of-some-length", 1}, 1});
      Store(*log, large);
    }
  }

  void Store(RocksDecisionLog& log, const txn::Decision& decision) {
    ASSERT_TRUE(StoreNow(log, decision).ok());
    stored_.push_back(decision);
  }

  stdfs::path FileNamed(const std::string& start, const std::string& end) const {
    stdfs::path last;
    for (const stdfs::path& file : FilesIn(dir_.data(), end)) {
      if (file.filename().string().starts_with(start)) last = file;
    }
    return last;
  }
  stdfs::path Wal() const { return FileNamed("", ".log"); }
  stdfs::path Manifest() const { return FileNamed("MANIFEST-", ""); }

  /// Opens a copy of the log in which `file` has these bytes. A decision may be refused, with the
  /// whole log or alone, but must not be missing or altered.
  void ExpectNothingLostInSilence(const stdfs::path& file, const std::string& bytes,
                                  const std::string& what) {
    OpenOptions options = options_;
    options.path = dir_.path() / "copy";
    stdfs::remove_all(options.path);
    stdfs::copy(dir_.data(), options.path);
    WriteFile(options.path / file.filename(), bytes);
    const auto log = Open(options);
    if (!log.ok()) {
      ++refused_;
      EXPECT_EQ(log.error().code, Code::kCorrupt) << what << ": " << ToString(log.error());
      EXPECT_NE(log.error().message.find(options.path.string()), std::string::npos);
      return;
    }
    for (const txn::Decision& decision : stored_) {
      const auto found = (*log)->Find(decision.members[0]);
      if (!found.ok()) {
        EXPECT_EQ(found.error().code, Code::kCorrupt) << what << ": " << ToString(found.error());
      } else {
        EXPECT_TRUE(*found == decision) << what << ": batch " << decision.batch << " is lost";
      }
    }
  }

  void FlipSome(const stdfs::path& file, int samples) {
    const std::string bytes = ReadFile(file);
    std::mt19937_64 random(7);
    for (int i = 0; i < samples; ++i) {
      const std::size_t at = random() % bytes.size();
      const int bit = static_cast<int>(random() % 8);
      ExpectNothingLostInSilence(file, Flipped(bytes, at, bit),
                                 file.filename().string() + " byte " + std::to_string(at));
    }
    EXPECT_GT(refused_, 0);
  }

  /// Each bit of the length and the type of some records.
  void FlipHeaders(const stdfs::path& file, const std::set<std::size_t>& records) {
    const std::string bytes = ReadFile(file);
    int flips = 0;
    for (const std::size_t record : records) {
      for (std::size_t at = record + 4; at < record + kHeader; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
          ++flips;
          ExpectNothingLostInSilence(file, Flipped(bytes, at, bit),
                                     file.filename().string() + " record " +
                                         std::to_string(record) + " byte " + std::to_string(at) +
                                         " bit " + std::to_string(bit));
        }
      }
    }
    EXPECT_EQ(refused_, flips);
  }

  static constexpr std::uint64_t kSmall = 10;

  TempDir dir_;
  FakeClock clock_;
  OpenOptions options_;
  std::vector<txn::Decision> stored_;
  int refused_ = 0;
};

TEST_F(DamageTest, WhereverTheWriteAheadLogIsDamaged) { FlipSome(Wal(), 50); }
TEST_F(DamageTest, WhereverATableFileIsDamaged) { FlipSome(FileNamed("", ".sst"), 50); }
TEST_F(DamageTest, WhereverTheManifestIsDamaged) { FlipSome(Manifest(), 50); }
TEST_F(DamageTest, WhereverCurrentIsDamaged) { FlipSome(FileNamed("CURRENT", ""), 10); }

// What RocksDB alone takes for the end of the file (see record_file.h).
TEST_F(DamageTest, AHeaderInTheWriteAheadLog) {
  const auto records = RecordsOf(ReadFile(Wal()));
  ASSERT_EQ(records.size(), kSmall + 1);  // And the start's number.
  FlipHeaders(Wal(), {records[1], records.back()});
}

TEST_F(DamageTest, AHeaderInTheManifest) {
  StoreMuch();
  const auto records = RecordsOf(ReadFile(Manifest()));
  ASSERT_GT(records.size(), 2u);
  FlipHeaders(Manifest(), {records[1], records.back()});
}

TEST_F(DamageTest, AHoleInTheWriteAheadLog) {
  std::string bytes = ReadFile(Wal());
  const auto records = RecordsOf(bytes);
  bytes.replace(records[2], 512, 512, '\0');
  ExpectNothingLostInSilence(Wal(), bytes, "a sector of zeros");
  EXPECT_EQ(refused_, 1);
}

TEST_F(DamageTest, AFileThatIsMissing) {
  for (const stdfs::path& file : {FileNamed("CURRENT", ""), Manifest(), FileNamed("", ".sst")}) {
    OpenOptions options = options_;
    options.path = dir_.path() / "copy";
    stdfs::remove_all(options.path);
    stdfs::copy(dir_.data(), options.path);
    stdfs::remove(options.path / file.filename());
    const auto log = Open(options);
    ASSERT_FALSE(log.ok()) << file;
    EXPECT_EQ(log.error().code, Code::kCorrupt) << ToString(log.error());
  }
}

TEST_F(DamageTest, RefusingDestroysNothing) {
  const stdfs::path wal = Wal();
  const std::string sound = ReadFile(wal);
  const auto records = RecordsOf(sound);
  for (const std::size_t at : {records[3] + 5, records[3] + kHeader + 1}) {
    WriteFile(wal, Flipped(sound, at, 6));
    const auto log = Open(options_);
    ASSERT_FALSE(log.ok());
    EXPECT_EQ(log.error().code, Code::kCorrupt);
  }
  WriteFile(wal, sound);
  const auto log = MustOpen(options_);
  for (const txn::Decision& decision : stored_) {
    EXPECT_EQ(log->Find(decision.members[0])->value(), decision);
  }
}

TEST_F(DamageTest, DumpShowsWhatIsLeftOfADamagedLog) {
  const std::string sound = ReadFile(Wal());
  const auto records = RecordsOf(sound);
  for (const std::size_t at : {records[3] + 5, records[3] + kHeader + 20}) {
    WriteFile(Wal(), Flipped(sound, at, 6));
    std::ostringstream out;
    const Status status = Dump(options_.path, out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_NE(out.str().find("DAMAGED"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("transaction txn-1\n"), std::string::npos) << out.str();
  }
}

// ---- FindHiddenDamage must not refuse what a crash can leave ------------------------------------

/// Three blocks of records, some of them in parts.
std::string RecordFile(const stdfs::path& dir, FakeClock& clock) {
  OpenOptions options;
  options.path = dir / "records";
  options.clock = &clock;
  auto log = MustOpen(options);
  for (std::uint64_t batch = 1; batch <= 40; ++batch) {
    txn::Decision decision = DecisionOf(batch);
    decision.participants[0].prepared.evidence.assign(80, {{"a-topic-of-some-length", 1}, 1});
    EXPECT_TRUE(StoreNow(*log, decision).ok());
  }
  const std::string bytes = ReadFile(FilesIn(options.path, ".log").back());
  EXPECT_GT(bytes.size(), 3 * kBlock);
  return bytes;
}

TEST(HiddenDamage, AWriteCutShortAnywhereIsNone) {
  TempDir dir;
  FakeClock clock;
  const std::string file = RecordFile(dir.path(), clock);
  for (std::size_t size = 0; size <= file.size(); size += 1 + size % 150) {
    const auto damage = FindHiddenDamage(std::string_view(file).substr(0, size));
    EXPECT_EQ(damage, std::nullopt) << size;
  }
}

TEST(HiddenDamage, SpaceThatWasNeverWrittenIsNone) {
  TempDir dir;
  FakeClock clock;
  const std::string file = RecordFile(dir.path(), clock);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, kBlock - 3, 2 * kBlock + 50}) {
    EXPECT_EQ(FindHiddenDamage(file.substr(0, size) + std::string(5000, '\0')), std::nullopt);
  }
}

TEST(HiddenDamage, AHeaderThatRocksDbWouldBelieveIsFound) {
  TempDir dir;
  FakeClock clock;
  const std::string file = RecordFile(dir.path(), clock);
  for (const std::size_t record : RecordsOf(file)) {
    EXPECT_NE(FindHiddenDamage(Flipped(file, record + 6, 2)), std::nullopt) << record;
    EXPECT_NE(FindHiddenDamage(Flipped(file, record + 5, 7)), std::nullopt) << record;
  }
}

}  // namespace
}  // namespace lockstep::log
