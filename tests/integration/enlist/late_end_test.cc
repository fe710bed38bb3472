// The network holds an EndTxn of ours, and delivers it when the producer has begun its next
// transaction: librdkafka's has the same name as the last (TV1), so the late request would end it.
// (KAFKA-17754 with us as the sender.)

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::EnlistTest;
using testing::Gate;
using testing::OwnProducer;
using testing::Values;
using wire::protocol::ApiKey;

enum class How { kCommit, kAbort, kCommitThenKill };

class LateEndTest : public EnlistTest, public ::testing::WithParamInterface<How> {
 protected:
  static bool Commits() { return GetParam() != How::kAbort; }

  struct Told {
    grpc::Status status;
    v1::Outcome outcome{};
    bool reinit_required_on_a = false;
  };
  template <typename Response>
  static Told ToldBy(const grpc::Status& status, const Response& response) {
    Told told{status, response.outcome()};
    for (const auto& branch : response.branches()) {
      if (branch.cluster() == "a") told.reinit_required_on_a = branch.enlisted().reinit_required();
    }
    return told;
  }
  Told End(const v1::CommitRequest& request) {
    if (!Commits()) return ToldBy({}, Abort(request.txn_id()));
    v1::CommitResponse response;
    const grpc::Status status = TryCommit(request, &response);
    return ToldBy(status, response);
  }

  /// As the SDKs do: who is refused makes a producer anew.
  OwnProducer& EnlistOrRenew(OwnProducer& producer, const std::string& cluster,
                             const std::string& txn) {
    if (producer.Enlist(daemon_.coordinator(), txn).ok()) return producer;
    OwnProducer& anew = Started(cluster);
    const grpc::Status status = anew.Enlist(daemon_.coordinator(), txn);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return anew;
  }

  /// Those that are told to a client whose EndTxn comes too late.
  static void ExpectFencedByEpoch(const std::vector<Gate::Delivered>& late) {
    ASSERT_EQ(late.size(), 1U);
    // Correlation id, from version 3 on a byte of tags, throttle time, error code.
    const std::size_t at = late[0].version >= 3 ? 9 : 8;
    const int error = static_cast<unsigned char>(late[0].answer.at(at)) << 8 |
                      static_cast<unsigned char>(late[0].answer.at(at + 1));
    EXPECT_TRUE(error == 47 || error == 90) << error;  // INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
  }
};

TEST_P(LateEndTest, DoesNotEndTheNextTransaction) {
  Serve();
  OwnProducer& a = Started("a");
  OwnProducer& b = Started("b");
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, "first");
  HoldNext(ApiKey::kEndTxn);
  const v1::CommitRequest request = CommitOf(txn, {&a, &b});
  auto ending = std::async(std::launch::async, [&] { return End(request); });
  AwaitHeld();
  // Its fate is unknown, so nothing is told: the producer must not go on.
  EXPECT_EQ(ending.wait_for(300ms), std::future_status::timeout);
  if (GetParam() == How::kCommitThenKill) daemon_.Kill();
  gate().Cut();
  Told told = ending.get();
  if (GetParam() == How::kCommitThenKill) {
    Serve();
    told = End(request);
  }
  ASSERT_TRUE(told.status.ok()) << told.status.error_message();
  EXPECT_EQ(told.outcome, Commits() ? v1::OUTCOME_COMMITTED : v1::OUTCOME_ABORTED);
  EXPECT_TRUE(told.reinit_required_on_a);
  for (OwnProducer* producer : {&a, &b}) {
    EXPECT_EQ(Commits() ? producer->CommitOwn() : producer->AbortOwn(), "");
  }

  const std::string next = Begin();
  OwnProducer& next_a = EnlistOrRenew(a, "a", next);
  OwnProducer& next_b = EnlistOrRenew(b, "b", next);
  Write(next_a, "next");
  Write(next_b, "next");
  ExpectFencedByEpoch(gate().Deliver());
  EXPECT_EQ(Describe(next_a, "a").state, txn::KafkaTxnState::kOngoing);
  ExpectOnBoth(Commits() ? Values{"first"} : Values{}, testing::Open::kStopAtThem);

  // The other way than the late one would have ended it.
  if (Commits()) {
    EXPECT_EQ(Abort(next).outcome(), v1::OUTCOME_ABORTED);
    ExpectOnBoth({"first"});
  } else {
    EXPECT_EQ(Commit(next, {&next_a, &next_b}).outcome(), v1::OUTCOME_COMMITTED);
    ExpectOnBoth({"next"});
  }
}

INSTANTIATE_TEST_SUITE_P(, LateEndTest,
                         ::testing::Values(How::kCommit, How::kAbort, How::kCommitThenKill),
                         [](const auto& param) {
                           switch (param.param) {
                             case How::kCommit:
                               return "Commit";
                             case How::kAbort:
                               return "Abort";
                             case How::kCommitThenKill:
                               return "CommitThenKill";
                           }
                           return "";
                         });

}  // namespace
}  // namespace lockstep
