// A start after a crash that left 1,000 participants in doubt: real Ongoing transactions on two
// brokers, each decided COMMIT in the log. All are completed; how long that took from the start of
// the process is printed.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <set>

#include "clusters.h"
#include "coordinator/txn_id.h"
#include "kafka/lane_id.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "log/rocks_decision_log.h"
#include "wire/raw_client.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTransactions = 500;  // Each on both clusters.
constexpr int kPartitions = 8;
constexpr char kTopic[] = "doubt";

class SystemClock : public coordinator::Clock {
 public:
  MonoTime Now() const override {
    return MonoTime(std::chrono::steady_clock::now().time_since_epoch());
  }
  WallTime WallNow() const override {
    return {std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::system_clock::now().time_since_epoch())
                .count()};
  }
};

/// Writes one record in a transaction and leaves it open, as a lane of the dead process would.
txn::PreparedParticipant Prepare(testing::RawClient& client, const std::string& cluster,
                                 const std::string& kafka_id, const LogId& log, int number) {
  const TransactionalId id = kafka::Format(
      {log, Incarnation(1), ClusterName(cluster), static_cast<std::uint64_t>(number)});
  testing::RawProducer producer(client, id.get());
  const std::int32_t partition = number % kPartitions;
  std::int64_t offset = -1;
  EXPECT_EQ(producer.Init(std::chrono::minutes(15)), wire::ErrorCode::kNone);
  EXPECT_EQ(producer.AddPartition(kTopic, partition), wire::ErrorCode::kNone);
  EXPECT_EQ(producer.Produce(kTopic, partition, std::to_string(number), &offset),
            wire::ErrorCode::kNone);
  const auto described = producer.Describe();
  txn::PreparedParticipant prepared;
  prepared.name = {.cluster = ClusterName(cluster),
                   .kafka_cluster_id = KafkaClusterId(kafka_id),
                   .transactional_id = id,
                   .producer_id = ProducerId(producer.producer_id()),
                   .producer_epoch = ProducerEpoch(producer.producer_epoch()),
                   .start_time_ms = described.start_time_ms};
  prepared.evidence = {{{kTopic, partition}, offset}};
  return prepared;
}

Status Await(const std::function<void(coordinator::Callback<Status>)>& call) {
  std::promise<Status> promise;
  call([&](Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

TEST(RecoveryTest, ThousandParticipantsInDoubt) {
  const auto clusters = testing::StartKafkaClusters(
      {{.topics = {std::string(kTopic) + ":" + std::to_string(kPartitions)}},
       {.topics = {std::string(kTopic) + ":" + std::to_string(kPartitions)}}});
  testing::Lockstepd daemon(
      {.clusters = {{"a", clusters[0]->bootstrap()}, {"b", clusters[1]->bootstrap()}}});
  {
    const SystemClock clock;
    auto log = log::Open({.path = daemon.data_dir(), .clock = &clock});
    ASSERT_TRUE(log.ok()) << log.error().message;
    testing::RawClient a(clusters[0]->bootstrap());
    testing::RawClient b(clusters[1]->bootstrap());
    const coordinator::RecoveredLog& recovered = (*log)->recovered();
    const auto bind = [&](const char* name, const std::string& id) {
      return Await([&](auto done) {
        (*log)->StoreBinding(ClusterName(name), KafkaClusterId(id), std::move(done));
      });
    };
    ASSERT_TRUE(bind("a", clusters[0]->cluster_id()).ok());
    ASSERT_TRUE(bind("b", clusters[1]->cluster_id()).ok());
    const WallTime now = clock.WallNow();
    for (int i = 0; i < kTransactions; ++i) {
      txn::Decision decision;
      decision.batch = BatchId(recovered.next_batch.get() + static_cast<std::uint64_t>(i));
      decision.decided_at = now;
      decision.members = {coordinator::FormatTxnId(
          {recovered.log_id, recovered.incarnation, now, static_cast<std::uint64_t>(i + 1)})};
      decision.participants = {{Prepare(a, "a", clusters[0]->cluster_id(), recovered.log_id, i)},
                               {Prepare(b, "b", clusters[1]->cluster_id(), recovered.log_id, i)}};
      ASSERT_TRUE(Await([&](auto done) { (*log)->StoreDecision(decision, std::move(done)); }).ok());
    }
  }

  const auto start = Clock::now();
  daemon.Start();
  const auto serving = Clock::now();
  daemon.AwaitNothingInDoubt(std::chrono::minutes(2));
  const auto resolved = Clock::now();
  const auto ms = [&](Clock::time_point t) {
    return static_cast<long>(
        std::chrono::duration_cast<std::chrono::milliseconds>(t - start).count());
  };
  std::printf("%d participants in doubt: serving after %ld ms, all resolved after %ld ms\n",
              2 * kTransactions, ms(serving), ms(resolved));

  for (const auto& cluster : clusters) {
    const auto values = testing::ReadValues(cluster->bootstrap(), kTopic);
    EXPECT_EQ(values.size(), static_cast<std::size_t>(kTransactions));
    EXPECT_EQ(std::set<std::string>(values.begin(), values.end()).size(), values.size());
  }
}

}  // namespace
}  // namespace lockstep
