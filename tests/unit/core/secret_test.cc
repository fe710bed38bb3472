#include "base/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecretTest : public ::testing::Test {
 protected:
  SecretTest() {
    folder_ = ::testing::TempDir() + "lockstep-secret." + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  ~SecretTest() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& content) const {
    const std::string path = folder_ + "/secret";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string Read(const SecretSource& source) {
    const auto secret = ReadSecret(source, "setting");
    return secret.ok() ? *secret : "error: " + secret.error().message;
  }
  std::string folder_;
};

TEST_F(SecretTest, IsTheFileWithoutItsLineEnd) {
  EXPECT_EQ(Read({File("secret"), ""}), "secret");
  EXPECT_EQ(Read({File("secret\n"), ""}), "secret");
  EXPECT_EQ(Read({File("secret\r\n"), ""}), "secret");
  EXPECT_EQ(Read({File(" sec ret \n"), ""}), " sec ret ");
  EXPECT_EQ(Read({File("\n"), ""}),
            "error: setting: " + folder_ + "/secret: is empty, or no plain file");
  EXPECT_THAT(Read({folder_ + "/none", ""}), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(Read({folder_, ""}), HasSubstr("error: setting: " + folder_));
  const std::string large = Read({File(std::string(65'537, 'x')), ""});
  EXPECT_THAT(large, HasSubstr("is larger than 64 KiB"));
  EXPECT_THAT(large, Not(HasSubstr("xxx")));
}

TEST_F(SecretTest, OrAVariable) {
  ::setenv("LOCKSTEP_TEST_SECRET", "secret", 1);
  EXPECT_EQ(Read({"", "LOCKSTEP_TEST_SECRET"}), "secret");
  ::setenv("LOCKSTEP_TEST_SECRET", "", 1);
  EXPECT_THAT(Read({"", "LOCKSTEP_TEST_SECRET"}), HasSubstr("is empty"));
  ::unsetenv("LOCKSTEP_TEST_SECRET");
  EXPECT_THAT(Read({"", "LOCKSTEP_TEST_SECRET"}),
              HasSubstr("environment variable LOCKSTEP_TEST_SECRET: is not set"));
}

TEST_F(SecretTest, TheStampOfAFileChangesWithIt) {
  const std::string none = FileStamp(folder_ + "/secret");
  const std::string first = FileStamp(File("one"));
  const std::string longer = FileStamp(File("three"));
  EXPECT_EQ(none, "-");
  EXPECT_NE(first, none);
  EXPECT_NE(first, longer);
  EXPECT_EQ(longer, FileStamp(folder_ + "/secret"));
}

}  // namespace
}  // namespace lockstep
