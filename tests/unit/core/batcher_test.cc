#include "coordinator/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::coordinator {
namespace {

using ::testing::ElementsAre;

const ClusterName kA("a");
const ClusterName kB("b");
const ClusterName kC("c");

class BatcherTest : public testing::Test {
 protected:
  void Add(const Batcher::Line& line, const std::string& id, std::size_t bytes = 1) {
    batcher_.Add(line, GlobalTxnId(id), bytes);
  }
  /// The members of the next batch, and a comma between them; "" if there is none.
  std::string Next() {
    const auto group = batcher_.Next(limits_);
    if (!group) return "";
    line_ = group->line;
    std::string text;
    for (const GlobalTxnId& id : group->members) text += (text.empty() ? "" : ",") + id.get();
    return text;
  }
  /// The clusters where the batch that Next gave may write at once.
  std::string Enter(std::uint64_t batch) {
    std::string text;
    for (const Batcher::Turn& turn : batcher_.Enter(BatchId(batch), line_)) {
      EXPECT_EQ(turn.batch, BatchId(batch));
      text += turn.cluster.get();
    }
    return text;
  }
  /// Whose turn it is then; 0: nobody's.
  std::uint64_t Leave(std::uint64_t batch, const ClusterName& cluster) {
    const auto next = batcher_.Leave(BatchId(batch), cluster);
    return next ? next->batch.get() : 0;
  }

  Batcher batcher_;
  Batcher::Limits limits_{3, 100};
  Batcher::Line line_;
};

TEST_F(BatcherTest, WhoeverComesWhileABatchWritesSharesTheNextOne) {
  Add({kA, kB}, "1");
  EXPECT_EQ(Next(), "1");  // Waits for nobody.
  EXPECT_EQ(Enter(10), "ab");
  Add({kA, kB}, "2");
  Add({kA, kB}, "3");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Leave(10, kA), 0u);
  EXPECT_EQ(Next(), "");  // It still writes on b.
  EXPECT_EQ(Leave(10, kB), 0u);
  EXPECT_FALSE(batcher_.writing(BatchId(10)));
  EXPECT_EQ(Next(), "2,3");
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
  EXPECT_EQ(Next(), "4");
}

}  // namespace
}  // namespace lockstep::coordinator
