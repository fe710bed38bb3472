// A data folder that is an older copy: the clusters hold lanes of starts that it does not know of,
// and so, perhaps, decisions. It must not decide or fence anything, not even at its second start.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>

#include "clusters.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

TEST(OlderFolderTest, IsRefusedForEver) {
  const auto clusters =
      testing::StartKafkaClusters({{.topics = {"orders"}}, {.topics = {"orders"}}});
  const std::vector<std::pair<std::string, std::string>> names = {{"a", clusters[0]->bootstrap()},
                                                                  {"b", clusters[1]->bootstrap()}};
  testing::Lockstepd newest({.clusters = names});
  newest.Start();
  newest.AwaitReady();
  ASSERT_EQ(newest.Stop(), 0);
  testing::Lockstepd copy({.clusters = names});
  std::filesystem::copy(newest.data_dir(), copy.data_dir(),
                        std::filesystem::copy_options::recursive);

  // The newest one goes on: it crashes with a transaction that is committed on a, and open on b.
  newest.Start();
  newest.AwaitReady();
  newest.Kill();
  newest.Start({"lane.before_commit@b=crash"});
  newest.AwaitReady();
  testing::TestTxn txn(newest.coordinator());
  ASSERT_TRUE(txn.Produce("a", "orders", "promised").ok());
  ASSERT_TRUE(txn.Produce("b", "orders", "promised").ok());
  v1::CommitResponse response;
  EXPECT_FALSE(txn.Commit(&response).ok());
  ASSERT_TRUE(newest.AwaitEnd(20s).has_value());

  copy.Spawn();
  const auto first = copy.AwaitEnd(30s);
  ASSERT_TRUE(first.has_value()) << "it goes on:\n" << copy.Log();
  EXPECT_TRUE(WIFEXITED(*first) && WEXITSTATUS(*first) == 4) << copy.Log();
  for (int start = 0; start < 4; ++start) {
    copy.Spawn();
    const auto later = copy.AwaitEnd(30s);
    ASSERT_TRUE(later.has_value()) << "it goes on:\n" << copy.Log();
    EXPECT_TRUE(WIFEXITED(*later) && WEXITSTATUS(*later) == 3) << copy.Log();
  }
  EXPECT_NE(copy.Log().find("start with the newest data folder"), std::string::npos) << copy.Log();

  newest.Start();
  newest.AwaitReady();
  newest.AwaitNothingInDoubt();
  EXPECT_EQ(testing::GetTxn(newest.coordinator(), txn.id()).state(), v1::TXN_STATE_COMMITTED);
  for (const auto& cluster : clusters) {
    EXPECT_EQ(testing::ReadValues(cluster->bootstrap(), "orders"),
              std::vector<std::string>{"promised"});
  }
}

}  // namespace
}  // namespace lockstep
