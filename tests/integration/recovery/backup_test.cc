// Backups of a server that works, and what a log restored from one does on clusters where the
// original was, went on, or still lives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <thread>

#include "call_context.h"
#include "clusters.h"
#include "ctl.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Lockstepd;
using ::testing::UnorderedElementsAreArray;

class BackupTest : public ::testing::Test {
 protected:
  using Ran = testing::CtlRan;
  static Ran Ctl(const Lockstepd& daemon, std::vector<std::string> words) {
    words.insert(words.begin(), {"--server", daemon.address()});
    return testing::RunCtl(std::move(words));
  }
  static int Commit(const Lockstepd& daemon, const std::string& value) {
    return Ctl(daemon, {"txn", "--record", "a:orders=" + value, "--record", "b:orders=" + value})
        .exit_code;
  }

  std::string BackUp(const Lockstepd& daemon) {
    const std::string file = daemon.folder() + "/backup";
    const Ran ran = Ctl(daemon, {"backup", file});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return file;
  }
  /// A server, not started yet, whose folder is made of the backup.
  std::unique_ptr<Lockstepd> Restored(const std::string& file) {
    auto daemon = std::make_unique<Lockstepd>(options_);
    const Ran ran = testing::RunCtl({"restore", file, daemon->data_dir()});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return daemon;
  }

  const std::vector<std::unique_ptr<testing::KafkaCluster>> clusters_ =
      testing::StartKafkaClusters({{.topics = {"orders"}}, {.topics = {"orders"}}});
  const Lockstepd::Options options_{
      .clusters = {{"a", clusters_[0]->bootstrap()}, {"b", clusters_[1]->bootstrap()}}};
};

TEST_F(BackupTest, WhatWasDecidedIsCompletedAndWhatWasNotIsAnOrphan) {
  Lockstepd lost(options_);
  // b's lanes stop before EndTxn: what is decided stays in doubt there.
  lost.Start({"lane.before_commit@b=pause"});
  lost.AwaitReady();
  const Ran decided = Ctl(lost, {"txn", "--record", "a:orders=decided", "--record",
                                 "b:orders=decided", "--wait", "decided"});
  ASSERT_EQ(decided.exit_code, 4) << decided.err;
  v1::ListTxnsResponse listed;
  {
    CallContext context;
    ASSERT_TRUE(lost.coordinator().ListTxns(&context, v1::ListTxnsRequest(), &listed).ok());
  }
  ASSERT_EQ(listed.txns_size(), 1);
  const std::string decided_id = listed.txns(0).txn_id();
  const std::string backup = BackUp(lost);
  // Decided after the backup, and half told: the restored log cannot know.
  ASSERT_EQ(Ctl(lost, {"txn", "--record", "a:orders=later", "--record", "b:orders=later", "--wait",
                       "decided"})
                .exit_code,
            4);
  lost.Await("a is told", 20s,
             [&] { return testing::ReadValues(clusters_[0]->bootstrap(), "orders").size() == 2; });
  v1::ListTxnsResponse both;
  {
    CallContext context;
    ASSERT_TRUE(lost.coordinator().ListTxns(&context, v1::ListTxnsRequest(), &both).ok());
  }
  ASSERT_EQ(both.txns_size(), 2);
  const std::string later_id =
      both.txns(0).txn_id() == decided_id ? both.txns(1).txn_id() : both.txns(0).txn_id();
  lost.Kill();

  const auto daemon = Restored(backup);
  daemon->Start();
  daemon->AwaitReady();
  daemon->AwaitNothingInDoubt();
  EXPECT_EQ(testing::GetTxn(daemon->coordinator(), decided_id).state(), v1::TXN_STATE_COMMITTED);
  const Ran later = Ctl(*daemon, {"show", later_id});
  EXPECT_EQ(later.exit_code, 1);
  EXPECT_THAT(later.err, HasSubstr("it may be either"));
  // The lanes of the lost log were not initialised: that would have aborted it. It is an
  // operator's.
  // PrepareCommit, whose markers are on their way, counts as open too.
  v1::ListOrphansResponse orphans;
  daemon->Await("one is left", 30s, [&] {
    CallContext context;
    return daemon->admin().ListOrphans(&context, v1::ListOrphansRequest(), &orphans).ok() &&
           orphans.orphans_size() == 1;
  });
  EXPECT_EQ(orphans.orphans(0).cluster(), "b");
  EXPECT_EQ(orphans.orphans(0).kafka_state(), "Ongoing");
  v1::EndOrphanRequest end;
  *end.mutable_orphan() = orphans.orphans(0);
  end.set_direction(v1::END_DIRECTION_COMMIT);
  end.set_force(true);
  end.set_who("ann");
  end.set_why("a holds it");
  v1::EndOrphanResponse ended;
  {
    CallContext context;
    const auto status = daemon->admin().EndOrphan(&context, end, &ended);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  ASSERT_EQ(Commit(*daemon, "new"), 0);
  for (const auto& cluster : clusters_) {
    EXPECT_THAT(testing::ReadValues(cluster->bootstrap(), "orders"),
                ElementsAre("decided", "later", "new"));
  }
  EXPECT_EQ(daemon->Stop(), 0);
}

TEST_F(BackupTest, UnderLoadAndBesideAnOriginalThatGoesOn) {
  Lockstepd original(options_);
  original.Start();
  original.AwaitReady();
  std::mutex mutex;
  std::vector<std::string> committed;  // Guarded by mutex.
  std::vector<std::jthread> load;      // What throws below must end it, or it would not be told.
  for (int thread = 0; thread < 3; ++thread) {
    load.emplace_back([&, thread](const std::stop_token& stop) {
      for (int i = 0; !stop.stop_requested(); ++i) {
        const std::string value = std::to_string(thread) + "-" + std::to_string(i);
        if (Commit(original, value) != 0) continue;
        const std::lock_guard lock(mutex);
        committed.push_back(value);
      }
    });
  }
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return committed.size();
  };
  original.Await("there is load", 60s, [&] { return count() > 20; });
  const std::string backup = BackUp(original);
  const std::size_t by_then = count();
  original.Await("the load goes on", 60s, [&] { return count() > by_then + 20; });

  // Nobody should, but the original lives: its lanes are left alone, and what was in doubt by the
  // backup has long been completed by it.
  const auto copy = Restored(backup);
  copy->Start();
  copy->AwaitReady();
  copy->AwaitNothingInDoubt();
  const std::size_t beside = count();
  original.Await("the original works on", 60s, [&] { return count() > beside + 20; });
  EXPECT_EQ(Commit(*copy, "of-the-copy"), 0);
  load.clear();
  original.AwaitNothingInDoubt();
  committed.emplace_back("of-the-copy");
  for (const auto& cluster : clusters_) {
    EXPECT_THAT(testing::ReadValues(cluster->bootstrap(), "orders"),
                UnorderedElementsAreArray(committed));
  }
  EXPECT_THAT(copy->Log(), HasSubstr("was restored from a backup of log"));
  EXPECT_EQ(copy->Stop(), 0);
  EXPECT_EQ(original.Stop(), 0);
}

}  // namespace
}  // namespace lockstep
