// What the process looks at before it serves, and how it writes its log.
#include <gmock/gmock.h>
#include <linux/magic.h>
#include <spdlog/details/log_msg.h>

#include <nlohmann/json.hpp>

#include "server/data_folder.h"
#include "server/logging.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

TEST(DataFolder, WhatLosesItsFilesIsKnownByItsType) {
  EXPECT_EQ(VolatileName(TMPFS_MAGIC), "tmpfs");
  EXPECT_EQ(VolatileName(RAMFS_MAGIC), "tmpfs");
  EXPECT_EQ(VolatileName(OVERLAYFS_SUPER_MAGIC), "overlay");
  EXPECT_EQ(VolatileName(EXT4_SUPER_MAGIC), "");
  EXPECT_EQ(VolatileName(XFS_SUPER_MAGIC), "");
}

TEST(DataFolder, MemoryIsRefusedUnlessItIsNamed) {
  // Not made yet, some levels down.
  const std::string folder = "/dev/shm/lockstep-none/data";
  const Status refused = CheckDataFolder(folder, "none");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr(folder));
  EXPECT_THAT(refused.error().message, HasSubstr("allow_data_dir_on: tmpfs"));
  EXPECT_FALSE(CheckDataFolder(folder, "overlay").ok());
  EXPECT_TRUE(CheckDataFolder(folder, "tmpfs").ok());
}

std::string Line(spdlog::formatter& formatter, std::string_view message) {
  const spdlog::details::log_msg entry(spdlog::log_clock::from_time_t(86400), {}, "lockstepd",
                                       spdlog::level::warn, {message.data(), message.size()});
  spdlog::memory_buf_t line;
  formatter.format(entry, line);
  return {line.data(), line.size()};
}

TEST(Logging, TextIsOneLine) {
  EXPECT_EQ(Line(*TextFormat(), "hello"), "1970-01-02T00:00:00.000Z W hello\n");
}

TEST(Logging, JsonParsesWhateverTheMessage) {
  for (const std::string message : {"plain", "a \"quote\" and a \\", "two\nlines", "caf\xC3\xA9"}) {
    const std::string line = Line(*JsonFormat(), message);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["message"], message);
    EXPECT_EQ(object["level"], "warning");
    EXPECT_EQ(object["time"], "1970-01-02T00:00:00.000Z");
  }
  EXPECT_NO_THROW(auto parsed = nlohmann::json::parse(Line(*JsonFormat(), "not UTF-8: \xFF")));
}

}  // namespace
}  // namespace lockstep::server
