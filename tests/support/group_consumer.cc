#include "group_consumer.h"

#include <librdkafka/rdkafka.h>

#include <array>
#include <chrono>
#include <map>
#include <stdexcept>

namespace lockstep::testing {
namespace {

using Settings = std::map<std::string, std::string>;
using PartitionList = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                      decltype(&rd_kafka_topic_partition_list_destroy)>;

PartitionList NewList(const std::string& topic, std::int32_t partition) {
  PartitionList list(rd_kafka_topic_partition_list_new(1), &rd_kafka_topic_partition_list_destroy);
  rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition);
  return list;
}

void Require(rd_kafka_resp_err_t error, const std::string& what) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error(what + ": " + rd_kafka_err2str(error));
  }
}

rd_kafka_t* NewConsumer(const std::string& bootstrap, const std::string& group,
                        const Settings& more = {}) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  Settings settings = {
      {"bootstrap.servers", bootstrap},
      {"group.id", group},
      {"enable.auto.commit", "false"},
      {"heartbeat.interval.ms", "100"},
      // Brokers are stopped now and then: nobody should hear of it.
      {"log_level", "0"},
  };
  settings.insert(more.begin(), more.end());
  std::array<char, 512> message{};
  for (const auto& [key, value] : settings) {
    if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), message.data(), message.size()) !=
        RD_KAFKA_CONF_OK) {
      throw std::runtime_error(message.data());
    }
  }
  rd_kafka_t* consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, message.data(), message.size());
  if (consumer == nullptr) throw std::runtime_error(message.data());
  return consumer;
}

}  // namespace

GroupConsumer::GroupConsumer(const std::string& bootstrap, const std::string& group,
                             const std::string& topic, const std::optional<std::string>& instance)
    : consumer_(NewConsumer(bootstrap, group,
                            instance ? Settings{{"group.instance.id", *instance}} : Settings{})) {
  rd_kafka_poll_set_consumer(consumer_);
  Require(rd_kafka_subscribe(consumer_, NewList(topic, RD_KAFKA_PARTITION_UA).get()), "subscribe");
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int assigned = 0; assigned == 0;) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("no assignment");
    Poll();
    rd_kafka_topic_partition_list_t* list = nullptr;
    Require(rd_kafka_assignment(consumer_, &list), "assignment");
    assigned = list->cnt;
    rd_kafka_topic_partition_list_destroy(list);
  }
}

GroupConsumer::~GroupConsumer() {
  rd_kafka_destroy_flags(consumer_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void GroupConsumer::Poll() {
  if (rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer_, 20)) {
    rd_kafka_message_destroy(message);
  }
}

std::string GroupConsumer::member_id() const {
  char* id = rd_kafka_memberid(consumer_);
  std::string result(id);
  rd_kafka_mem_free(consumer_, id);
  return result;
}

std::shared_ptr<rd_kafka_consumer_group_metadata_t> GroupConsumer::metadata() const {
  return {rd_kafka_consumer_group_metadata(consumer_), &rd_kafka_consumer_group_metadata_destroy};
}

std::int64_t CommittedOffset(const std::string& bootstrap, const std::string& group,
                             const txn::TopicPartition& partition, Pending pending) {
  // By this librdkafka chooses what OffsetFetch says of pending offsets (require_stable).
  const std::string isolation =
      pending == Pending::kAwaited ? "read_committed" : "read_uncommitted";
  const std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> consumer(
      NewConsumer(bootstrap, group, {{"isolation.level", isolation}}), &rd_kafka_destroy);
  const PartitionList list = NewList(partition.topic, partition.partition);
  Require(rd_kafka_committed(consumer.get(), list.get(), 10'000), "committed");
  Require(list->elems[0].err, "committed");
  return list->elems[0].offset < 0 ? -1 : list->elems[0].offset;
}

}  // namespace lockstep::testing
