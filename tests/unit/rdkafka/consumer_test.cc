#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "lockstep/rdkafka.h"
#include "mock_cluster.h"

namespace lockstep::rdkafka {
namespace {

using client::Code;
using client::GroupOffsets;
using std::chrono::milliseconds;
using Seen = std::multiset<std::pair<std::int32_t, std::int64_t>>;  // Partition, offset.

struct ClientDeleter {
  void operator()(rd_kafka_t* handle) const { rd_kafka_destroy(handle); }
};
using ClientPtr = std::unique_ptr<rd_kafka_t, ClientDeleter>;

class ConsumerTest : public testing::Test {
 protected:
  ConsumerTest() {
    consumer_ = New(RD_KAFKA_CONSUMER, {{"group.id", "g"},
                                        {"group.instance.id", "g-0"},
                                        {"enable.auto.commit", "false"},
                                        {"auto.offset.reset", "earliest"}});
    rd_kafka_poll_set_consumer(consumer_.get());
    auto* topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, "orders", RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(consumer_.get(), topics);
    rd_kafka_topic_partition_list_destroy(topics);
  }
  ~ConsumerTest() override { rd_kafka_consumer_close(consumer_.get()); }

  ClientPtr New(rd_kafka_type_t type, std::vector<std::pair<std::string, std::string>> settings) {
    settings.emplace_back("bootstrap.servers", brokers_.bootstrap());
    char why[256];
    ClientPtr made(rd_kafka_new(type, Conf(settings), why, sizeof why));
    EXPECT_NE(made, nullptr) << why;
    return made;
  }
  /// So many records into each of these partitions.
  void Fill(int count, const std::vector<std::int32_t>& partitions) {
    const ClientPtr producer = New(RD_KAFKA_PRODUCER, {});
    for (const std::int32_t partition : partitions) {
      for (int i = 0; i < count; ++i) {
        ASSERT_EQ(rd_kafka_producev(producer.get(), RD_KAFKA_V_TOPIC("orders"),
                                    RD_KAFKA_V_PARTITION(partition),
                                    RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                  RD_KAFKA_RESP_ERR_NO_ERROR);
      }
    }
    ASSERT_EQ(rd_kafka_flush(producer.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  /// Batches until so many messages are there, as one.
  Batch Take(std::size_t count) {
    Batch all;
    while (all.messages.size() < count) {
      Batch batch = Poll(consumer_.get(), count - all.messages.size(), milliseconds(30'000));
      if (batch.messages.empty()) {
        ADD_FAILURE() << "nothing comes";
        break;
      }
      all.group = batch.group;
      for (Message& message : batch.messages) all.messages.push_back(std::move(message));
    }
    return all;
  }
  static Seen Of(const Batch& batch) {
    Seen seen;
    for (const Message& message : batch.messages) seen.emplace(message->partition, message->offset);
    return seen;
  }

  MockCluster brokers_;
  ClientPtr consumer_;
};

TEST_F(ConsumerTest, OffsetsCarryTheMemberAndTheCluster) {
  Fill(3, {0, 1});
  const Batch batch = Take(6);
  const auto offsets = OffsetsOf(consumer_.get(), batch);
  ASSERT_TRUE(offsets.ok()) << ToString(offsets.error());
  EXPECT_EQ(offsets->group.id, "g");
  EXPECT_GE(offsets->group.generation, 0);
  EXPECT_FALSE(offsets->group.member_id.empty());
  EXPECT_EQ(offsets->group.instance_id, "g-0");
  EXPECT_FALSE(offsets->group.standalone);
  EXPECT_FALSE(offsets->kafka_cluster_id.empty());
  ASSERT_EQ(offsets->offsets.size(), 2u);
  for (const client::Offset& offset : offsets->offsets) {
    EXPECT_EQ(offset.topic, "orders");
    EXPECT_EQ(offset.offset, 3);
  }
}

TEST_F(ConsumerTest, AfterAnAbortTheSameComesAgain) {
  Fill(3, {0, 1});
  const Batch batch = Take(6);
  ASSERT_TRUE(Rewind(consumer_.get(), batch).ok());
  EXPECT_EQ(Of(Take(6)), Of(batch));
}

TEST_F(ConsumerTest, ItGoesBackToWhatTheGroupHasCommitted) {
  Fill(3, {0});
  Take(2);
  auto* done = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(done, "orders", 0)->offset = 2;
  ASSERT_EQ(rd_kafka_commit(consumer_.get(), done, 0), RD_KAFKA_RESP_ERR_NO_ERROR);
  rd_kafka_topic_partition_list_destroy(done);
  const Batch batch = Take(1);
  ASSERT_TRUE(Rewind(consumer_.get(), batch).ok());
  EXPECT_EQ(Of(Take(1)), (Seen{{0, 2}}));
}

TEST_F(ConsumerTest, OffsetsAreOfTheBatchAlone) {
  Fill(1, {0});
  const Batch first = Take(1);
  ASSERT_TRUE(Rewind(consumer_.get(), first).ok());
  // Partition 0 has gone back, and is not among what is processed next: nothing of it is committed.
  Fill(1, {1});
  Batch all = Take(2);
  std::erase_if(all.messages, [](const Message& message) { return message->partition == 0; });
  const auto offsets = OffsetsOf(consumer_.get(), all);
  ASSERT_EQ(offsets->offsets.size(), 1u);
  EXPECT_EQ(offsets->offsets[0].partition, 1);
}

TEST_F(ConsumerTest, WithoutAMembershipThereIsNoFencingAndSoNoOffsets) {
  Fill(1, {0});
  Batch batch = Take(1);
  batch.group.generation = -1;
  const auto offsets = OffsetsOf(consumer_.get(), batch);
  ASSERT_FALSE(offsets.ok());
  EXPECT_EQ(offsets.error().code, Code::kWrongState);
}

}  // namespace
}  // namespace lockstep::rdkafka
