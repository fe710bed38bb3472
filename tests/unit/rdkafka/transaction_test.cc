#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_coordinator.h"
#include "lockstep/rdkafka.h"
#include "mock_cluster.h"

/// Over librdkafka's mock brokers, which do not fence: nothing here is about atomicity, but about
/// what the producer is told to do, and when.
namespace lockstep::rdkafka {
namespace {

using client::Code;
using client::Effect;
using client::FakeCoordinator;
using client::Outcome;
using client::Refusal;
using client::TxnResult;
using std::chrono::milliseconds;

const grpc::Status kLost(grpc::UNAVAILABLE, "the connection was lost");

constexpr std::int16_t kProduce = 0;
constexpr std::int16_t kInitProducerId = 22;
constexpr std::int16_t kEndTxn = 26;

/// Counts the requests that producers send, as they leave.
class Requests {
 public:
  void AttachTo(rd_kafka_conf_t* conf) {
    rd_kafka_conf_interceptor_add_on_new(conf, "requests", OnNew, this);
  }
  int Of(std::int16_t key) const {
    const std::lock_guard lock(mutex_);
    const auto found = sent_.find(key);
    return found == sent_.end() ? 0 : found->second;
  }

 private:
  static rd_kafka_resp_err_t OnNew(rd_kafka_t* handle, const rd_kafka_conf_t*, void* self, char*,
                                   size_t) {
    return rd_kafka_interceptor_add_on_request_sent(handle, "requests", OnSent, self);
  }
  static rd_kafka_resp_err_t OnSent(rd_kafka_t*, int, const char*, std::int32_t, std::int16_t key,
                                    std::int16_t, std::int32_t, size_t, void* opaque) {
    auto* self = static_cast<Requests*>(opaque);
    const std::lock_guard lock(self->mutex_);
    ++self->sent_[key];
    return RD_KAFKA_RESP_ERR_NO_ERROR;
  }

  mutable std::mutex mutex_;
  std::map<std::int16_t, int> sent_;
};

class RdkafkaTest : public testing::Test {
 protected:
  ProducerOptions Options(const std::string& cluster, MockCluster& mock) {
    return {.cluster = cluster,
            .transactional_id = "orders-" + cluster,
            .conf =
                [this, &mock] {
                  ++made_;
                  rd_kafka_conf_t* conf = Conf({{"bootstrap.servers", mock.bootstrap()}});
                  rd_kafka_conf_set_opaque(conf, &opaque_);
                  requests_.AttachTo(conf);
                  return conf;
                },
            .on_delivery = [this](const rd_kafka_message_t&) { ++delivered_; }};
  }
  Transaction Begin(const std::vector<Producer*>& producers) {
    auto txn = Transaction::Begin(client_, producers);
    EXPECT_TRUE(txn.ok()) << ToString(txn.error());
    return *std::move(txn);
  }
  void Write(Producer& producer) {
    const auto produced = producer.Produce({.topic = "orders", .value = "v", .partition = 1});
    ASSERT_TRUE(produced.ok()) << ToString(produced.error());
  }
  /// One whole transaction, to see that all goes on.
  Outcome CommitOne() {
    Transaction txn = Begin({&east_});
    Write(east_);
    const auto result = txn.Commit();
    EXPECT_TRUE(result.ok()) << ToString(result.error());
    return result->outcome;
  }

  FakeCoordinator server_;
  client::Client client_{{.server = server_.address(), .first_backoff = milliseconds(1)}};
  Requests requests_;
  std::atomic<int> made_ = 0;
  int delivered_ = 0;
  int opaque_ = 0;
  MockCluster east_brokers_;
  MockCluster west_brokers_;
  Producer east_{Options("east", east_brokers_)};
  Producer west_{Options("west", west_brokers_)};
};

TEST_F(RdkafkaTest, OneProducerServesOneTransactionAfterTheOther) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(CommitOne(), Outcome::kCommitted);
    EXPECT_EQ(requests_.Of(kEndTxn), i);
  }
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(server_.calls("RegisterProducer"), 1);
  EXPECT_EQ(server_.calls("Enlist"), 3);
  EXPECT_EQ(delivered_, 3);
  EXPECT_EQ(rd_kafka_opaque(east_.handle()), &opaque_);
}

TEST_F(RdkafkaTest, CommitSaysWhatWasWrittenAndThatIsAcknowledged) {
  Transaction txn = Begin({&east_});
  for (int i = 0; i < 5; ++i) Write(east_);
  ASSERT_TRUE(east_.Produce({.topic = "orders", .key = "k", .value = "v", .partition = 0}).ok());
  ASSERT_TRUE(east_
                  .SendOffsets({.group = {.id = "g", .standalone = true},
                                .offsets = {{.topic = "in", .partition = 0, .offset = 7}}})
                  .ok());
  int delivered_at_commit = -1;
  server_.OnEnd([&] { delivered_at_commit = delivered_; });
  ASSERT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(delivered_at_commit, 6);

  const auto work = server_.commits().at(0).enlisted(0);
  ASSERT_EQ(work.partitions_size(), 2);
  EXPECT_EQ(work.partitions(0).partition(), 0);
  EXPECT_EQ(work.partitions(0).offset(), 0);
  EXPECT_EQ(work.partitions(1).partition(), 1);
  EXPECT_EQ(work.partitions(1).offset(), 4);
  ASSERT_EQ(work.group_ids_size(), 1);
  EXPECT_EQ(work.group_ids(0), "g");
  EXPECT_FALSE(work.read_only());
  // What the next one says is of that one alone.
  ASSERT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(server_.commits().at(1).enlisted(0).partitions_size(), 1);
  EXPECT_EQ(server_.commits().at(1).enlisted(0).group_ids_size(), 0);
}

TEST_F(RdkafkaTest, NothingWrittenIsSaidToo) {
  Transaction txn = Begin({&east_});
  ASSERT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_TRUE(server_.commits().at(0).enlisted(0).read_only());
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 1);
}

TEST_F(RdkafkaTest, SeveralProducersAndManagedWorkEndAsOne) {
  Transaction txn = Begin({&east_, &west_});
  Write(east_);
  Write(west_);
  ASSERT_TRUE(txn.Produce("north", {.topic = "orders", .value = "v"}).ok());
  ASSERT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(server_.commits().at(0).enlisted_size(), 2);
  EXPECT_EQ(server_.managed_records(), 1);
  EXPECT_EQ(requests_.Of(kEndTxn), 2);
}

// ---- The producer's own end comes after a definite answer, and says the same --------------------

TEST_F(RdkafkaTest, NoProducerEndsBeforeADefiniteAnswer) {
  Transaction txn = Begin({&east_});
  Write(east_);
  server_.Fail("Commit", {kLost, Refusal(grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", "disk on fire"),
                          grpc::Status(grpc::DEADLINE_EXCEEDED, "too slow")});
  server_.Say({v1::OUTCOME_COMMITTING, v1::OUTCOME_COMMITTING});
  int most_ended = 0;
  server_.OnEnd([&] { most_ended = std::max(most_ended, requests_.Of(kEndTxn)); });
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(server_.calls("Commit"), 6);
  EXPECT_EQ(most_ended, 0);
  EXPECT_EQ(requests_.Of(kEndTxn), 1);
}

TEST_F(RdkafkaTest, WithoutAnOutcomeTheProducerEndsNothing) {
  {
    Transaction txn = Begin({&east_});
    Write(east_);
    server_.Say(std::vector(1000, v1::OUTCOME_COMMITTING));
    auto result = txn.Commit(milliseconds(100));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().effect, Effect::kUnknown);
    server_.Say({});
    server_.Fail("Commit", std::vector(1000, kLost));
    result = txn.Commit(milliseconds(100));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().effect, Effect::kUnknown);
    EXPECT_EQ(requests_.Of(kEndTxn), 0);
  }
  // Given up: neither side is told to abort what may be committed.
  EXPECT_EQ(requests_.Of(kEndTxn), 0);
  EXPECT_EQ(server_.calls("Abort"), 0);
  EXPECT_EQ(east_.handle(), nullptr);
  server_.Fail("Commit", {});
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(server_.calls("RegisterProducer"), 2);
}

TEST_F(RdkafkaTest, ACommitThatIsAskedAgainSaysTheSame) {
  Transaction txn = Begin({&east_});
  Write(east_);
  server_.Fail("Commit", std::vector(1000, kLost));
  ASSERT_FALSE(txn.Commit(milliseconds(50)).ok());
  server_.Fail("Commit", {});
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  const auto commits = server_.commits();
  EXPECT_EQ(commits.front().SerializeAsString(), commits.back().SerializeAsString());
  EXPECT_EQ(requests_.Of(kEndTxn), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 1);
}

TEST_F(RdkafkaTest, AnAbortedOneIsFollowedToo) {
  Transaction txn = Begin({&east_});
  Write(east_);
  server_.Say({v1::OUTCOME_ABORTED});
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kAborted);
  EXPECT_EQ(requests_.Of(kEndTxn), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 1);
}

TEST_F(RdkafkaTest, WhatBecomesOfTheProducerChangesNoOutcome) {
  Transaction txn = Begin({&east_});
  Write(east_);
  east_brokers_.Refuse(kEndTxn, RD_KAFKA_RESP_ERR_PRODUCER_FENCED);
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kCommitted);
  EXPECT_EQ(requests_.Of(kEndTxn), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
}

TEST_F(RdkafkaTest, AHeuristicOneIsToldAndItsProducersAreMadeAnew) {
  Transaction txn = Begin({&east_});
  Write(east_);
  server_.Say({v1::OUTCOME_HEURISTIC});
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kHeuristic);
  EXPECT_EQ(requests_.Of(kEndTxn), 0);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
}

TEST_F(RdkafkaTest, ABranchThatSaysSoHasItsProducerMadeAnew) {
  server_.RequireReinit(true);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(requests_.Of(kEndTxn), 0);
  server_.RequireReinit(false);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
}

// ---- Registrations ------------------------------------------------------------------------------

TEST_F(RdkafkaTest, AFencedProducerIsMadeAnewWithinBegin) {
  ASSERT_EQ(CommitOne(), Outcome::kCommitted);
  server_.Restart();
  ASSERT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(server_.calls("BeginGlobalTxn"), 2);
  EXPECT_EQ(server_.calls("RegisterProducer"), 2);
  EXPECT_EQ(requests_.Of(kInitProducerId), 2);
  EXPECT_EQ(server_.commits().back().enlisted(0).registration_id(), "registration-2");
}

TEST_F(RdkafkaTest, AnotherIncarnationAbortsAndRegistersAnew) {
  ASSERT_EQ(CommitOne(), Outcome::kCommitted);
  server_.TellIncarnation(2);
  const auto refused = Transaction::Begin(client_, {&east_});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFenced);
  EXPECT_EQ(server_.calls("Abort"), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);
}

TEST_F(RdkafkaTest, AnIdThatIsFoughtOverIsAnErrorInTheEnd) {
  const auto fenced = Refusal(grpc::FAILED_PRECONDITION, "FENCED", "the registration is void");
  server_.Fail("Enlist", std::vector(10, fenced));
  const auto refused = Transaction::Begin(client_, {&east_});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFenced);
  EXPECT_EQ(made_, 3);
}

TEST_F(RdkafkaTest, AConfigurationThatIsWrongIsToldSo) {
  ProducerOptions options = Options("east", east_brokers_);
  options.transaction_timeout = milliseconds(1);
  Producer wrong(options);
  const auto refused = Transaction::Begin(client_, {&wrong});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(server_.calls("RegisterProducer"), 0);
}

// ---- What is not delivered is not committed -----------------------------------------------------

TEST_F(RdkafkaTest, ARecordThatIsNotDeliveredAborts) {
  Transaction txn = Begin({&east_});
  Write(east_);
  east_brokers_.Refuse(kProduce, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  const auto result = txn.Commit();
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kAborted);
  EXPECT_EQ(result->abort.cluster, "east");
  EXPECT_THAT(result->abort.message, testing::HasSubstr("orders was not delivered"));
  EXPECT_EQ(server_.calls("Commit"), 0);
  EXPECT_EQ(server_.calls("Abort"), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(made_, 2);  // Its epoch may have changed.
}

TEST_F(RdkafkaTest, WhatIsNotAcknowledgedInTimeAborts) {
  Transaction txn = Begin({&east_});
  Write(east_);
  const auto result = txn.Commit(milliseconds(0));
  ASSERT_TRUE(result.ok()) << ToString(result.error());
  EXPECT_EQ(result->outcome, Outcome::kAborted);
  EXPECT_EQ(server_.calls("Commit"), 0);
}

TEST_F(RdkafkaTest, OffsetsThatWereNotAddedAbort) {
  Transaction txn = Begin({&east_});
  Write(east_);
  const client::Status sent =
      east_.SendOffsets({.group = {.id = "g", .standalone = true},
                         .offsets = {{.topic = "in", .partition = 0, .offset = 7}},
                         .kafka_cluster_id = "another"});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, Code::kWrongState);
  EXPECT_THAT(sent.error().message, testing::HasSubstr("another"));

  constexpr std::int16_t kAddOffsetsToTxn = 25;
  east_brokers_.Refuse(kAddOffsetsToTxn, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
  ASSERT_FALSE(east_
                   .SendOffsets({.group = {.id = "g", .standalone = true},
                                 .offsets = {{.topic = "in", .partition = 0, .offset = 7}}})
                   .ok());
  EXPECT_FALSE(east_.Produce({.topic = "orders", .value = "v"}).ok());
  EXPECT_EQ(txn.Commit()->outcome, Outcome::kAborted);
  EXPECT_EQ(server_.calls("Commit"), 0);
}

TEST_F(RdkafkaTest, ATransactionThatIsDroppedIsAborted) {
  {
    Transaction first = Begin({&east_});
    Write(east_);
    Transaction second = std::move(first);
  }
  EXPECT_EQ(server_.calls("Abort"), 1);
  EXPECT_EQ(CommitOne(), Outcome::kCommitted);
}

TEST_F(RdkafkaTest, OutsideOfATransactionThereIsNoWork) {
  EXPECT_EQ(east_.Produce({.topic = "orders"}).error().code, Code::kWrongState);
  ASSERT_EQ(CommitOne(), Outcome::kCommitted);
  EXPECT_EQ(east_.Produce({.topic = "orders"}).error().code, Code::kWrongState);
}

}  // namespace
}  // namespace lockstep::rdkafka
