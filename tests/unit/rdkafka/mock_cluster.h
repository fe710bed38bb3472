#pragma once

#include <librdkafka/rdkafka.h>
// Not before rdkafka.h.
#include <librdkafka/rdkafka_mock.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::rdkafka {

inline rd_kafka_conf_t* Conf(const std::vector<std::pair<std::string, std::string>>& settings) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char why[256];
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why, sizeof why) != RD_KAFKA_CONF_OK) {
      std::abort();
    }
  }
  return conf;
}

/// librdkafka's mock broker, with topic `orders` of two partitions. It does not fence.
class MockCluster {
 public:
  MockCluster() {
    char why[256];
    // Whose brokers the mock's are does not matter: clients come by the bootstrap address.
    owner_ = rd_kafka_new(RD_KAFKA_PRODUCER, Conf({{"log_level", "0"}}), why, sizeof why);
    cluster_ = rd_kafka_mock_cluster_new(owner_, 1);
    rd_kafka_mock_topic_create(cluster_, "orders", 2, 1);
  }
  ~MockCluster() {
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(owner_);
  }
  MockCluster(const MockCluster&) = delete;
  MockCluster& operator=(const MockCluster&) = delete;

  std::string bootstrap() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
  /// The next request of this kind is answered so.
  void Refuse(std::int16_t key, rd_kafka_resp_err_t code) {
    rd_kafka_mock_push_request_errors(cluster_, key, 1, code);
  }

 private:
  rd_kafka_t* owner_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
};

}  // namespace lockstep::rdkafka
