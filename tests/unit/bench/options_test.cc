#include "bench/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  Parsed parsed;
  std::string out;
  std::string err;
};

Outcome Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep-bench");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Parsed parsed = ParseCommandLine(static_cast<int>(words.size()), words.data());
  const std::string out = ::testing::internal::GetCapturedStdout();
  return {std::move(parsed), out, ::testing::internal::GetCapturedStderr()};
}

TEST(OptionsTest, TheDefaultsMeasureTwoClusters) {
  const auto [parsed, out, err] =
      Parse({"--server", "h:1", "--cluster", "a=h:2,h:3", "--cluster", "b=h:4"});
  ASSERT_TRUE(parsed.options) << err;
  const Options& options = *parsed.options;
  EXPECT_EQ(options.server, "h:1");
  ASSERT_EQ(options.work.clusters.size(), 2u);
  EXPECT_EQ(options.work.clusters[0].name, "a");
  EXPECT_EQ(options.work.clusters[0].bootstrap, "h:2,h:3");
  EXPECT_THAT(options.modes, ElementsAre("plain", "managed", "execute", "stream"));
  EXPECT_EQ(options.pace.per_second, 0);
  EXPECT_EQ(options.pace.length, std::chrono::seconds(5));
}

TEST(OptionsTest, TakesWhatIsGiven) {
  const auto [parsed, out, err] =
      Parse({"--server", "h:1", "--cluster", "a=h:2", "--modes", "plain,large", "--rate", "100",
             "--count", "7", "--pid", "lockstepd=12", "--librdkafka", "linger.ms=5"});
  ASSERT_TRUE(parsed.options) << err;
  const Options& options = *parsed.options;
  EXPECT_THAT(options.modes, ElementsAre("plain", "large"));
  EXPECT_EQ(options.pace.per_second, 100);
  EXPECT_EQ(options.pace.count, 7u);
  EXPECT_EQ(options.pace.length, std::chrono::hours(1));  // The count ends it.
  EXPECT_EQ(options.pids.at("lockstepd"), 12);
  EXPECT_EQ(options.librdkafka.at("linger.ms"), "5");
}

TEST(OptionsTest, SaysWhatIsWrong) {
  const struct {
    std::vector<const char*> words;
    const char* says;
  } cases[] = {
      {{"--server", "h:1"}, "--cluster is required"},
      {{"--cluster", "a=h:2"}, "--server"},
      {{"--server", "h:1", "--cluster", "a"}, "mode plain needs a=BOOTSTRAP"},
      {{"--server", "h:1", "--cluster", "=h:2"}, "'=h:2' is not NAME=VALUE"},
      {{"--server", "h:1", "--cluster", "a=h:2", "--modes", "fast"}, "fast"},
      {{"--server", "h:1", "--cluster", "a=h:2", "--pid", "x=y"}, "'y' is no process id"},
      {{"--server", "h:1", "--cluster", "a=h:2", "--rounds", "0"}, "--rounds"},
      {{"--server", "h:1", "--cluster", "a=h:2", "--open", "5"}, "needs --pid"},
  };
  for (const auto& each : cases) {
    const auto [parsed, out, err] = Parse(each.words);
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(err, HasSubstr(each.says));
  }
}

TEST(OptionsTest, ModesWithoutProducersNeedNoBootstrap) {
  EXPECT_TRUE(
      Parse({"--server", "h:1", "--cluster", "a", "--modes", "execute,stream"}).parsed.options);
  EXPECT_TRUE(Parse({"--cluster", "a=h:2", "--modes", "plain"}).parsed.options);
}

TEST(OptionsTest, HelpNamesEveryModeAndShowsExamples) {
  const auto [parsed, out, err] = Parse({"--help"});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit_code, 0);
  for (const std::string& mode : ModeNames()) EXPECT_THAT(out, HasSubstr("\n  " + mode + " "));
  EXPECT_THAT(out, HasSubstr("Examples:"));
}

TEST(OptionsTest, EveryModeIsComparedToAPlainOne) {
  std::set<std::string> bases;
  for (const std::string& mode : ModeNames()) bases.insert(BaseOf(mode));
  EXPECT_EQ(bases, (std::set<std::string>{"plain", "plain-large"}));
  EXPECT_EQ(BaseOf("large"), "plain-large");
  EXPECT_FALSE(NeedsServer("plain"));
  EXPECT_TRUE(NeedsBootstrap("enlisted"));
}

}  // namespace
}  // namespace lockstep::bench
