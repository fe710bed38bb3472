// What both examples need of librdkafka, and of a loop that never gives up.
#pragma once

#include <lockstep/rdkafka.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

inline rd_kafka_conf_t* NewConf(const std::vector<std::pair<std::string, std::string>>& settings) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char why[512];
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why, sizeof why) != RD_KAFKA_CONF_OK) {
      std::cerr << why << "\n";
      std::exit(2);
    }
  }
  return conf;
}

struct ConsumerCloser {
  void operator()(rd_kafka_t* consumer) const {
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
  }
};

inline std::unique_ptr<rd_kafka_t, ConsumerCloser> NewConsumer(const std::string& bootstrap,
                                                               const std::string& group,
                                                               const std::string& topic) {
  rd_kafka_conf_t* conf = NewConf({{"bootstrap.servers", bootstrap},
                                   {"group.id", group},
                                   // After a crash the next one need not wait for the last.
                                   {"group.instance.id", group + "-0"},
                                   {"enable.auto.commit", "false"},
                                   {"auto.offset.reset", "earliest"}});
  char why[512];
  rd_kafka_t* consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
  if (consumer == nullptr) {
    std::cerr << why << "\n";
    std::exit(2);
  }
  rd_kafka_poll_set_consumer(consumer);
  auto* topics = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(topics, topic.c_str(), RD_KAFKA_PARTITION_UA);
  rd_kafka_subscribe(consumer, topics);
  rd_kafka_topic_partition_list_destroy(topics);
  return std::unique_ptr<rd_kafka_t, ConsumerCloser>(consumer);
}

inline std::optional<std::string> KeyOf(const rd_kafka_message_t& message) {
  if (message.key == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(message.key), message.key_len);
}
inline std::optional<std::string> ValueOf(const rd_kafka_message_t& message) {
  if (message.payload == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(message.payload), message.len);
}

/// As long as it takes: only an outcome tells whether these messages are done.
template <typename Commit>
lockstep::client::Status UntilKnown(Commit commit) {
  namespace ls = lockstep::client;
  auto result = commit();
  while (!result && result.error().effect == ls::Effect::kUnknown) result = commit();
  if (!result) return result.error();
  if (result->outcome == ls::Outcome::kCommitted) return {};
  if (result->outcome == ls::Outcome::kHeuristic) {  // Clusters disagree: for people.
    for (const ls::Branch& branch : result->branches) {
      std::cerr << branch.cluster << " " << ls::Name(branch.outcome) << "\n";
    }
    std::exit(1);
  }
  return ls::Error{.code = ls::Code::kWrongState,
                   .effect = ls::Effect::kNone,
                   .reason = result->abort.reason,
                   .message = std::string(ls::Name(result->outcome)) + " " + result->abort.message};
}

inline void GoBack(rd_kafka_t* consumer, const lockstep::rdkafka::Batch& batch) {
  for (;;) {
    const auto back = lockstep::rdkafka::Rewind(consumer, batch);
    if (back) return;
    std::cout << "again: " << lockstep::client::ToString(back.error()) << std::endl;
  }
}
