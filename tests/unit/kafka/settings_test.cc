#include "kafka/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::kafka {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ClusterConfig Valid() {
  ClusterConfig config;
  config.name = ClusterName("a");
  config.bootstrap_servers = {"127.0.0.1:9092", "127.0.0.1:9093"};
  return config;
}

std::string Mistakes(const ClusterConfig& config) {
  const Status status = Validate(config);
  return status.ok() ? "" : status.error().message;
}

std::string Get(rd_kafka_conf_t* conf, const char* key) {
  char value[512];
  std::size_t size = sizeof value;
  if (rd_kafka_conf_get(conf, key, value, &size) != RD_KAFKA_CONF_OK) return "(none)";
  return value;
}

TEST(SettingsTest, TakesWhatIsNotOurs) {
  ClusterConfig config = Valid();
  config.librdkafka = {{"compression.type", "zstd"}, {"linger.ms", "2"}, {"client.rack", "r1"}};
  EXPECT_EQ(Mistakes(config), "");
}

TEST(SettingsTest, NamesWhatIsOurs) {
  for (const char* key : {"transactional.id", "acks", "enable.idempotence", "partitioner",
                          "message.timeout.ms", "delivery.timeout.ms", "plugin.library.paths",
                          "enable.gapless.guarantee", "bootstrap.servers", "dr_msg_cb", "opaque"}) {
    ClusterConfig config = Valid();
    config.librdkafka = {{key, "1"}};
    EXPECT_THAT(Mistakes(config),
                AllOf(HasSubstr("cluster 'a'"), HasSubstr(key), HasSubstr("not yours to set")));
  }
}

TEST(SettingsTest, TellsEveryMistakeAtOnce) {
  ClusterConfig config = Valid();
  config.bootstrap_servers.clear();
  config.lanes_min = 3;
  config.lanes_max = 2;
  config.librdkafka = {{"no.such.thing", "1"}, {"linger.ms", "soon"}};
  EXPECT_THAT(Mistakes(config), AllOf(HasSubstr("bootstrap_servers"), HasSubstr("min 3 and max 2"),
                                      HasSubstr("no.such.thing"), HasSubstr("linger.ms")));
}

TEST(SettingsTest, OurSettingsAreOverTheClustersOverTheDefaults) {
  ClusterConfig config = Valid();
  config.librdkafka = {{"linger.ms", "7"}};
  const auto conf =
      ProducerConf(config, TransactionalId("lane-1"), std::chrono::milliseconds(900'000));
  ASSERT_TRUE(conf.ok());
  EXPECT_EQ(Get(conf->get(), "bootstrap.servers"), "127.0.0.1:9092,127.0.0.1:9093");
  EXPECT_EQ(Get(conf->get(), "transactional.id"), "lane-1");
  EXPECT_EQ(Get(conf->get(), "transaction.timeout.ms"), "900000");
  EXPECT_EQ(Get(conf->get(), "partitioner"), "murmur2_random");
  EXPECT_EQ(Get(conf->get(), "enable.gapless.guarantee"), "false");
  EXPECT_EQ(Get(conf->get(), "linger.ms"), "7");
  EXPECT_EQ(Get(conf->get(), "socket.timeout.ms"), "10000");
}

TEST(SettingsTest, SecurityIsNotPassedThrough) {
  for (const char* key :
       {"security.protocol", "sasl.password", "sasl.mechanisms", "ssl.ca.location",
        "ssl.key.password", "ssl_key", "enable.ssl.certificate.verification"}) {
    EXPECT_THAT(OwnedBecause(key).value_or(""), HasSubstr("security_protocol, tls and sasl"))
        << key;
  }
}

TEST(SettingsTest, SecurityReachesLibrdkafka) {
  ClusterConfig config = Valid();
  const auto get = [&](const char* key) {
    const auto conf = ProducerConf(config, TransactionalId("l"), std::chrono::seconds(60));
    return conf.ok() ? Get(conf->get(), key) : conf.error().message;
  };
  EXPECT_EQ(get("security.protocol"), "plaintext");
  config.security.tls =
      wire::TlsConfig{.ca_file = "/ca", .certificate_file = "/c", .key_file = "/k"};
  EXPECT_EQ(get("security.protocol"), "ssl");
  EXPECT_EQ(get("ssl.ca.location"), "/ca");
  EXPECT_EQ(get("ssl.certificate.location"), "/c");
  EXPECT_EQ(get("ssl.key.location"), "/k");
  EXPECT_EQ(get("ssl.endpoint.identification.algorithm"), "https");
  config.security.tls->check_hostname = false;
  EXPECT_EQ(get("ssl.endpoint.identification.algorithm"), "none");
  config.security.sasl = {.mechanism = wire::SaslMechanism::kScramSha512,
                          .username = "me",
                          .password = {"", "LOCKSTEP_TEST_SECRET"}};
  ::setenv("LOCKSTEP_TEST_SECRET", "secret", 1);
  EXPECT_EQ(get("security.protocol"), "sasl_ssl");
  EXPECT_EQ(get("sasl.mechanisms"), "SCRAM-SHA-512");
  EXPECT_EQ(get("sasl.username"), "me");
  config.security.tls.reset();
  EXPECT_EQ(get("security.protocol"), "sasl_plaintext");
  config.security.sasl->password = {"/no/such/file", ""};
  EXPECT_EQ(get("sasl.mechanisms"), "sasl.password: /no/such/file: No such file or directory");
}

TEST(SettingsTest, ShortTransactionsGetShortSocketTimeouts) {
  const auto conf =
      ProducerConf(Valid(), TransactionalId("lane-1"), std::chrono::milliseconds(3'000));
  ASSERT_TRUE(conf.ok());
  EXPECT_EQ(Get(conf->get(), "socket.timeout.ms"), "3000");
}

}  // namespace
}  // namespace lockstep::kafka
