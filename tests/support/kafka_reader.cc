#include "kafka_reader.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <stdexcept>
#include <tuple>

namespace lockstep::testing {
namespace {

using Clock = std::chrono::steady_clock;
using ConsumerPtr = std::unique_ptr<rd_kafka_t, void (*)(rd_kafka_t*)>;

void Check(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("reader: " + what);
}

ConsumerPtr MakeConsumer(const std::string& bootstrap, const char* isolation) {
  std::array<char, 256> error{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  const auto set = [&](const char* key, const std::string& value) {
    Check(
        rd_kafka_conf_set(conf, key, value.c_str(), error.data(), error.size()) == RD_KAFKA_CONF_OK,
        error.data());
  };
  set("bootstrap.servers", bootstrap);
  set("group.id", "reader");  // Assigned by hand: nothing is ever committed for it.
  set("enable.auto.commit", "false");
  set("enable.partition.eof", "true");
  set("fetch.wait.max.ms", "50");
  set("isolation.level", isolation);
  rd_kafka_t* consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error.data(), error.size());
  Check(consumer != nullptr, error.data());
  return {consumer, [](rd_kafka_t* c) { rd_kafka_destroy(c); }};
}

int PartitionCount(rd_kafka_t* consumer, const std::string& topic, Clock::time_point until) {
  rd_kafka_topic_t* handle = rd_kafka_topic_new(consumer, topic.c_str(), nullptr);
  Check(handle != nullptr, "no handle for " + topic);
  int count = 0;
  while (count == 0 && Clock::now() < until) {
    const rd_kafka_metadata_t* metadata = nullptr;
    if (rd_kafka_metadata(consumer, 0, handle, &metadata, 1000) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      continue;
    }
    if (metadata->topic_cnt == 1) count = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
  }
  rd_kafka_topic_destroy(handle);
  Check(count > 0, "topic " + topic + " is not there");
  return count;
}

/// Where the partition ends for the consumer's isolation level.
std::optional<std::int64_t> End(rd_kafka_t* consumer, const std::string& topic, int partition) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  if (rd_kafka_query_watermark_offsets(consumer, topic.c_str(), partition, &low, &high, 1000) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::nullopt;
  }
  return high;
}

/// Returns once each partition's last stable offset has reached what was its end before.
void AwaitNoneOpen(rd_kafka_t* committed, const std::string& bootstrap, const std::string& topic,
                   int partitions, Clock::time_point until) {
  const ConsumerPtr uncommitted = MakeConsumer(bootstrap, "read_uncommitted");
  for (int p = 0; p < partitions; ++p) {
    std::optional<std::int64_t> end;
    std::optional<std::int64_t> stable;
    while (!end || !stable || *stable < *end) {
      Check(Clock::now() < until, "topic " + topic + ", partition " + std::to_string(p) +
                                      ": a transaction stays open, or there is no leader");
      if (!end) end = End(uncommitted.get(), topic, p);
      stable = End(committed, topic, p);
    }
  }
}

std::optional<std::string> Bytes(const void* data, std::size_t size) {
  if (data == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(data), size);
}

}  // namespace

std::vector<ReadRecord> ReadTopic(const std::string& bootstrap, const std::string& topic, Open open,
                                  std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const ConsumerPtr consumer = MakeConsumer(bootstrap, "read_committed");
  const int partitions = PartitionCount(consumer.get(), topic, until);
  if (open == Open::kAwaitTheirEnd) {
    AwaitNoneOpen(consumer.get(), bootstrap, topic, partitions, until);
  }
  rd_kafka_topic_partition_list_t* assignment = rd_kafka_topic_partition_list_new(partitions);
  for (int p = 0; p < partitions; ++p) {
    rd_kafka_topic_partition_list_add(assignment, topic.c_str(), p)->offset =
        RD_KAFKA_OFFSET_BEGINNING;
  }
  rd_kafka_assign(consumer.get(), assignment);
  rd_kafka_topic_partition_list_destroy(assignment);

  std::vector<ReadRecord> records;
  std::set<int> at_end;
  while (static_cast<int>(at_end.size()) < partitions) {
    Check(Clock::now() < until, "topic " + topic + " was not read to its end in time");
    rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer.get(), 100);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      at_end.insert(message->partition);
    } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      records.push_back({message->partition, message->offset, Bytes(message->key, message->key_len),
                         Bytes(message->payload, message->len)});
    }
    rd_kafka_message_destroy(message);  // Other errors are transport's: the end will still come.
  }
  std::sort(records.begin(), records.end(), [](const ReadRecord& a, const ReadRecord& b) {
    return std::tie(a.partition, a.offset) < std::tie(b.partition, b.offset);
  });
  return records;
}

std::vector<std::string> ReadValues(const std::string& bootstrap, const std::string& topic,
                                    Open open) {
  std::vector<std::string> values;
  for (ReadRecord& record : ReadTopic(bootstrap, topic, open)) {
    if (record.value) values.push_back(std::move(*record.value));
  }
  return values;
}

}  // namespace lockstep::testing
