#include "coordinator/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::coordinator {
namespace {

using ::testing::ElementsAre;

const ClusterName kA("a");
const ClusterName kB("b");
const ClusterName kC("c");

using std::chrono::milliseconds;

class BatcherTest : public testing::Test {
 protected:
  void Add(const Batcher::Line& line, const std::string& id, std::size_t bytes = 1,
           const std::string& client = "client") {
    batcher_.Add(line, client, GlobalTxnId(id), bytes);
  }
  /// The members of the next batch, and a comma between them; "" if there is none.
  std::string Next() {
    const auto group = batcher_.Next(limits_, now_);
    if (!group) return "";
    group_ = *group;
    std::string text;
    for (const GlobalTxnId& id : group->members) text += (text.empty() ? "" : ",") + id.get();
    return text;
  }
  /// The clusters where the batch that Next gave may write at once.
  std::string Enter(std::uint64_t batch) {
    std::string text;
    for (const Batcher::Turn& turn : batcher_.Enter(BatchId(batch), group_, now_)) {
      EXPECT_EQ(turn.batch, BatchId(batch));
      text += turn.cluster.get();
    }
    return text;
  }
  /// Whose turn it is then; 0: nobody's.
  std::uint64_t Leave(std::uint64_t batch, const ClusterName& cluster) {
    const auto next = batcher_.Leave(BatchId(batch), cluster, now_);
    return next ? next->batch.get() : 0;
  }
  void End(std::uint64_t batch) { batcher_.End(BatchId(batch), now_); }
  /// A batch with these members, which takes `time` on cluster a.
  void RunOnA(std::uint64_t batch, const std::vector<const char*>& ids, Duration time) {
    for (const char* id : ids) Add({kA}, id);
    EXPECT_NE(Next(), "");
    Enter(batch);
    now_ += time;
    Leave(batch, kA);
    End(batch);
  }
  /// How long until Next may have one by itself; none: something has to happen.
  std::optional<Duration> Wait() const {
    const auto time = batcher_.NextTime();
    if (!time) return std::nullopt;
    return *time - now_;
  }

  Batcher batcher_;
  Batcher::Limits limits_{3, 100};
  Batcher::Group group_;
  MonoTime now_ = MonoTime{} + std::chrono::hours(1);
};

TEST_F(BatcherTest, WhoeverComesWhileABatchIsUnderWaySharesTheNextOne) {
  Add({kA, kB}, "1");
  EXPECT_EQ(Next(), "1");  // Waits for nobody.
  EXPECT_EQ(Enter(10), "ab");
  Add({kA, kB}, "2");
  Add({kA, kB}, "3");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Leave(10, kA), 0u);
  EXPECT_EQ(Next(), "");  // It still writes on b.
  EXPECT_EQ(Wait(), std::nullopt);
  EXPECT_EQ(Leave(10, kB), 0u);
  EXPECT_EQ(Next(), "");  // It is still to be decided and committed.
  EXPECT_TRUE(batcher_.under_way(BatchId(10)));
  End(10);
  EXPECT_FALSE(batcher_.under_way(BatchId(10)));
  EXPECT_EQ(Next(), "2,3");
  EXPECT_EQ(Wait(), std::nullopt);
}

TEST_F(BatcherTest, AnEndThatTakesLongIsNotWaitedFor) {
  Add({kA}, "1");
  Next();
  Enter(10);
  now_ += milliseconds(500);
  Leave(10, kA);
  Add({kA}, "2");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Wait(), Batcher::kPatience);
  now_ += Batcher::kPatience;
  EXPECT_EQ(Next(), "2");
  Enter(11);
  EXPECT_FALSE(batcher_.under_way(BatchId(10)));
  End(10);  // At last: it changes nothing.
  Add({kA}, "3");
  EXPECT_EQ(Next(), "");
}

TEST_F(BatcherTest, AFullBatchDoesNotWaitForAnEnd) {
  Add({kA}, "1");
  Next();
  Enter(10);
  for (const char* id : {"2", "3", "4"}) Add({kA}, id);
  EXPECT_EQ(Next(), "");
  Leave(10, kA);
  EXPECT_EQ(Next(), "2,3,4");
  Enter(11);
  Add({kA}, "5", 100);
  EXPECT_EQ(Next(), "");
  Leave(11, kA);
  EXPECT_EQ(Next(), "5");
}

TEST_F(BatcherTest, WhoseBatchHasEndedAreGivenTimeToComeBack) {
  RunOnA(10, {"1", "2"}, milliseconds(40));
  Add({kA}, "3");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Wait(), milliseconds(40) / Batcher::kReturnPart);
  Add({kA}, "4");  // As many as there were.
  EXPECT_EQ(Next(), "3,4");
}

TEST_F(BatcherTest, TheTimeToComeBackIsShort) {
  RunOnA(10, {"1", "2"}, std::chrono::seconds(10));
  Add({kA}, "3");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Wait(), Batcher::kPatience);
  now_ += Batcher::kPatience;
  EXPECT_EQ(Next(), "3");
}

TEST_F(BatcherTest, WhoWaitedMeanwhileIsExpectedTogetherWithThem) {
  Add({kA}, "1");
  Next();
  Enter(10);
  Add({kA}, "2");
  now_ += milliseconds(40);
  Leave(10, kA);
  End(10);
  EXPECT_EQ(Next(), "");  // 1's client may come back.
  EXPECT_EQ(Wait(), milliseconds(40) / Batcher::kReturnPart);
  Add({kA}, "3");
  EXPECT_EQ(Next(), "2,3");
}

TEST_F(BatcherTest, WhoeverIsAloneWaitsForNobody) {
  RunOnA(10, {"1"}, milliseconds(40));
  Add({kA}, "2");
  EXPECT_EQ(Next(), "2");
}

TEST_F(BatcherTest, ALineThatNobodyStandsInIsForgotten) {
  RunOnA(10, {"1", "2"}, milliseconds(40));
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Wait(), std::nullopt);
  Add({kA}, "3");
  EXPECT_EQ(Next(), "3");
  Enter(11);
  Leave(11, kA);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Next(), "");
  EXPECT_FALSE(batcher_.under_way(BatchId(11)));
  End(11);
}

TEST_F(BatcherTest, ABatchIsBoundedInMembersAndBytes) {
  for (const char* id : {"1", "2", "3", "4"}) Add({kA}, id);
  EXPECT_EQ(Next(), "1,2,3");
  Add({kB}, "5", 60);
  Add({kB}, "6", 60);
  EXPECT_EQ(Next(), "4");
  EXPECT_EQ(Next(), "5");
  EXPECT_EQ(Next(), "6");
  Add({kC}, "7", 1'000);  // More than all that fits: alone, but not stuck.
  EXPECT_EQ(Next(), "7");
  EXPECT_EQ(Next(), "");
}

TEST_F(BatcherTest, EachClientHasAMemberBeforeAnyHasTwo) {
  for (const char* id : {"1", "2", "3", "4"}) Add({kA}, id, 1, "greedy");
  Add({kA}, "5", 1, "modest");
  Add({kA}, "6", 1, "third");
  EXPECT_EQ(Next(), "1,5,6");
  EXPECT_EQ(Next(), "2,3,4");  // In its own order.
}

TEST_F(BatcherTest, OnAClusterBatchesOfAllLinesWriteInTheOrderOfTheirForming) {
  Add({kA, kB}, "1");
  EXPECT_EQ(Next(), "1");
  EXPECT_EQ(Enter(10), "ab");
  Add({kB, kC}, "2");
  EXPECT_EQ(Next(), "2");
  EXPECT_EQ(Enter(11), "c");  // On b it is behind.
  Add({kB}, "3");
  EXPECT_EQ(Next(), "3");
  EXPECT_EQ(Enter(12), "");
  EXPECT_EQ(Leave(10, kB), 11u);
  EXPECT_EQ(Leave(10, kB), 0u);  // Once.
  EXPECT_EQ(Leave(11, kB), 12u);
}

TEST_F(BatcherTest, AClusterThatHangsHoldsUpOnlyTheLinesThatTouchIt) {
  Add({kA, kC}, "1");
  EXPECT_EQ(Next(), "1");
  EXPECT_EQ(Enter(10), "ac");
  EXPECT_EQ(Leave(10, kA), 0u);  // c hangs.
  Add({kA, kC}, "2");
  EXPECT_EQ(Next(), "");
  Add({kA, kB}, "3");
  EXPECT_EQ(Next(), "3");
  EXPECT_EQ(Enter(11), "ab");
}

TEST_F(BatcherTest, OneThatGivesUpInLineLetsTheNextOneThrough) {
  Add({kA}, "1");
  Next();
  Enter(10);
  Add({kA, kB}, "2");
  Next();
  EXPECT_EQ(Enter(11), "b");
  Add({kA, kC}, "3");
  Next();
  EXPECT_EQ(Enter(12), "c");
  EXPECT_EQ(Leave(11, kA), 0u);  // It was not its turn yet.
  EXPECT_EQ(Leave(10, kA), 12u);
}

TEST_F(BatcherTest, WhatIsTriedAgainComesFirstAndStaysTogether) {
  Add({kA}, "1");
  Next();
  Enter(10);
  Add({kA}, "4");
  batcher_.AddAgain({kA}, {GlobalTxnId("2"), GlobalTxnId("3")});
  batcher_.AddAgain({kA}, {GlobalTxnId("1")});
  EXPECT_EQ(Next(), "");
  Leave(10, kA);
  EXPECT_EQ(Next(), "2,3");
  Enter(11);
  Leave(11, kA);
  EXPECT_EQ(Next(), "1");
  End(11);
  EXPECT_EQ(Next(), "4");
}

}  // namespace
}  // namespace lockstep::coordinator
