#include "server/in_doubt_watch.h"

#include <gmock/gmock.h>
#include "api_fixture.h"
#include "captured_log.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class InDoubtWatchTest : public ApiFixture {
 protected:
  CapturedLog captured_;
};

TEST_F(InDoubtWatchTest, AHeuristicOutcomeIsAnErrorInTheLogOnce) {
  west_.Set({.aborted_it = true});
  Serve();
  const std::string first = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(first, &response).ok());
  EXPECT_THAT(captured_.Await(first + " HEURISTIC"), HasSubstr("east COMMITTED, west ABORTED"));
  // Looked at again together with a second one: not said again.
  const std::string second = BeginWithWork();
  ASSERT_TRUE(Commit(second, &response).ok());
  captured_.Await(second + " HEURISTIC");
  EXPECT_EQ(captured_.CountOf(first + " HEURISTIC"), 1);
}

TEST_F(InDoubtWatchTest, WhatStaysInDoubtIsSaidAndSoIsItsEnd) {
  east_.Set({.commits = false});
  txn::Decision decision;
  decision.batch = BatchId(1);
  decision.decided_at = WallTime{clock_.WallNow().ms - 60'000};
  decision.members = {GlobalTxnId("0123456789abcdef-1-1-1")};
  decision.participants.resize(1);
  decision.participants[0].prepared.name.cluster = ClusterName("east");
  log_.Recover(decision);
  Serve();
  EXPECT_THAT(captured_.Await("0123456789abcdef-1-1-1 in doubt for 6"),
              HasSubstr("1 such decisions in all: east PENDING (no broker"));
  east_.Set({});
  captured_.Await("nothing is in doubt any more");
  EXPECT_EQ(captured_.CountOf("in doubt for"), 1);
}

}  // namespace
}  // namespace lockstep::server
