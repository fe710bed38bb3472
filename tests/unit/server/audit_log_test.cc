#include "server/audit_log.h"
#include "temp_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  static std::vector<nlohmann::json> LinesOf(const std::filesystem::path& path) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  /// Returns once it is on the disk.
  static Status Stored(AuditLog& log, const std::string& what) {
    std::promise<Status> stored;
    log.Record({what, {}}, [&](const Status& status) { stored.set_value(status); });
    return stored.get_future().get();
  }

  const testing_support::TempDir dir_;
  const std::filesystem::path& folder_ = dir_.path();
  const std::filesystem::path path_ = folder_ / "audit.log";
};

TEST_F(AuditLogTest, AppendsAnObjectALine) {
  {
    auto log = AuditLog::Open(path_);
    ASSERT_TRUE(log.ok());
    (*log)->Note({"Commit", {{"principal", "pay\"ments\n"}, {"empty", ""}, {"bytes", "\xff"}}});
    EXPECT_TRUE(Stored(**log, "Drain").ok());
    // In order, so what was noted before is there too.
    ASSERT_EQ(LinesOf(path_).size(), 2U);
    (*log)->Note({"Undrain", {}});
  }
  const auto lines = LinesOf(path_);
  ASSERT_EQ(lines.size(), 3U) << "the destructor writes what waits";
  EXPECT_EQ(lines[0]["event"], "Commit");
  EXPECT_EQ(lines[0]["principal"], "pay\"ments\n");
  EXPECT_FALSE(lines[0].contains("empty"));
  EXPECT_THAT(lines[0]["time"].get<std::string>(),
              testing::MatchesRegex("20..-..-..T..:..:..\\.?.*Z"));
  EXPECT_EQ(lines[2]["event"], "Undrain");
}

TEST_F(AuditLogTest, GoesOnWhereItWas) {
  for (int i = 0; i < 2; ++i) {
    auto log = AuditLog::Open(path_);
    ASSERT_TRUE(log.ok());
    EXPECT_TRUE(Stored(**log, "start").ok());
  }
  EXPECT_EQ(LinesOf(path_).size(), 2U);
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0007, 0U) << "not for everybody to read";
}

TEST_F(AuditLogTest, ReopensAfterARotation) {
  auto log = AuditLog::Open(path_);
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(Stored(**log, "one").ok());
  std::filesystem::rename(path_, folder_ / "audit.log.1");
  EXPECT_TRUE(Stored(**log, "two").ok());
  (*log)->Reopen();
  EXPECT_TRUE(Stored(**log, "three").ok());
  EXPECT_EQ(LinesOf(folder_ / "audit.log.1").size(), 2U);
  ASSERT_EQ(LinesOf(path_).size(), 1U);
  EXPECT_EQ(LinesOf(path_)[0]["event"], "three");
}

TEST_F(AuditLogTest, SaysSoWhenItCannotBeWritten) {
  auto full = AuditLog::Open("/dev/full");
  ASSERT_TRUE(full.ok());
  const Status status = Stored(**full, "Drain");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("/dev/full: writing: No space left"));

  auto none = AuditLog::Open(folder_ / "missing" / "audit.log");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("missing/audit.log: opening it: No such file"));
}

}  // namespace
}  // namespace lockstep::server
