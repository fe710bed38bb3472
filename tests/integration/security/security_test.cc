// Secured connections to real brokers: each way in, and each way to be kept out.

#include <grpcpp/grpcpp.h>
#include <librdkafka/rdkafka.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Lockstepd;
using ::testing::UnorderedElementsAre;

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

struct WayIn {
  const char* name;
  const char* listener_a;
  const char* mechanism_a;  ///< Empty: by certificate.
  const char* listener_b;
  const char* mechanism_b;
};

class WaysInTest : public SecuredTest, public ::testing::WithParamInterface<WayIn> {
 protected:
  std::string Yaml(const testing::KafkaCluster& cluster, const std::string& listener,
                   const std::string& mechanism) const {
    if (!mechanism.empty()) return LogIn(cluster, listener, mechanism);
    return "    security_protocol: SSL\n    tls:\n      ca_file: " +
           cluster.SecurityFile("ca.crt") +
           "\n      certificate_file: " + cluster.SecurityFile("client.crt") +
           "\n      key_file: " + cluster.SecurityFile("client-locked.key") +
           "\n      key_password_env: LOCKSTEP_TEST_KEY_PASSWORD\n";
  }
};

// librdkafka's lanes commit, and what a crash leaves is completed by the wire client. Nothing that
// they were told shows up anywhere, however much is logged.
TEST_P(WaysInTest, CommitsAndRecoversAndTellsNobodyHow) {
  const WayIn& way = GetParam();
  const std::string topic = NewTopic(way.name);
  Lockstepd::Options options;
  options.clusters = {{"a", A().bootstrap(way.listener_a)}, {"b", B().bootstrap(way.listener_b)}};
  options.yaml_of = {{"a", Yaml(A(), way.listener_a, way.mechanism_a)},
                     {"b", Yaml(B(), way.listener_b, way.mechanism_b)}};
  options.cluster_yaml = "    librdkafka: {debug: 'security,broker,conf'}\n";
  options.extra_yaml = "log_level: trace\n";
  options.environment = {"LOCKSTEP_TEST_KEY_PASSWORD=" + A().key_password()};
  Lockstepd daemon(options);
  daemon.Start({"lane.before_commit@b=crash"});
  daemon.AwaitReady();
  testing::TestTxn txn(daemon.coordinator());
  EXPECT_TRUE(txn.Produce("a", topic, "recovered").ok());
  EXPECT_TRUE(txn.Produce("b", topic, "recovered").ok());
  v1::CommitResponse response;
  EXPECT_FALSE(txn.Commit(&response).ok());
  ASSERT_TRUE(daemon.AwaitEnd(20s).has_value());

  daemon.Start();
  daemon.AwaitReady();
  daemon.AwaitNothingInDoubt();
  const testing::Ran next =
      Ctl(daemon, {"txn", "--record", "a:" + topic + "=next", "--record", "b:" + topic + "=next"});
  EXPECT_EQ(next.exit_code, 0) << next.out;
  EXPECT_THAT(testing::ReadValues(A().bootstrap(), topic),
              UnorderedElementsAre("recovered", "next"));
  EXPECT_THAT(testing::ReadValues(B().bootstrap(), topic),
              UnorderedElementsAre("recovered", "next"));
  ExpectNoSecrets(daemon);
}

INSTANTIATE_TEST_SUITE_P(All, WaysInTest,
                         ::testing::Values(WayIn{"scram256_plain", "SASL_PLAINTEXT",
                                                 "SCRAM-SHA-256", "SASL_SSL", "PLAIN"},
                                           WayIn{"scram512_oauth", "SASL_SSL", "SCRAM-SHA-512",
                                                 "SASL_SSL", "OAUTHBEARER"},
                                           WayIn{"certificates", "SSL", "", "SSL", ""}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

class KeptOutTest : public SecuredTest {};

TEST_F(KeptOutTest, ScramToBrokersThatDebiansLibrdkafkaCannotLogInTo) {
  Lockstepd::Options options;
  options.clusters = {{"b", B().bootstrap("SASL_PLAINTEXT")}};
  options.yaml_of = {{"b", LogIn(B(), "SASL_PLAINTEXT", "SCRAM-SHA-256")}};
  Lockstepd daemon(options);
  const std::size_t before = Count(B().BrokerLog(), "Failed authentication");
  daemon.Start();
  if (rd_kafka_version() >= 0x020601ff) return daemon.AwaitReady();
  daemon.Await("b to be refused", 60s,
               [&] { return StateOf(daemon, "b").starts_with("CLUSTER_STATE_REFUSED"); });
  EXPECT_THAT(Ctl(daemon, {"status"}).out,
              AllOf(HasSubstr("cannot log in by SCRAM to Kafka 4.3 and later"),
                    HasSubstr("librdkafka 2.6.1 or later"), HasSubstr("OAUTHBEARER")));
  // Nobody tried with librdkafka, and the wire client is in.
  EXPECT_EQ(Count(B().BrokerLog(), "Failed authentication"), before);
}

TEST_F(KeptOutTest, CertificatesThatOneSideDoesNotAccept) {
  const std::string own = Certificate(A(), "client");
  const std::string& ssl = A().bootstrap("SSL");
  const std::string unchecked =
      "    security_protocol: SSL\n    tls: {check_hostname: false, ca_file: " +
      A().SecurityFile("ca.crt") + ", certificate_file: " + A().SecurityFile("client.crt") +
      ", key_file: " + A().SecurityFile("client.key") + "}\n";
  struct Case {
    std::string name, bootstrap, yaml, why;
  };
  const std::vector<Case> cases = {
      {"expired", A().bootstrap("SSL_EXPIRED"), own, "certificate has expired"},
      {"not-yet", A().bootstrap("SSL_NOT_YET"), own, "certificate is not yet valid"},
      {"other-ca", A().bootstrap("SSL_OTHER_CA"), own, "tls.ca_file must hold the CA"},
      {"elsewhere", A().bootstrap("SSL_ELSEWHERE"), own, "ostname mismatch"},
      {"no-certificate", ssl, Certificate(A(), ""), "tls.certificate_file"},
      {"client-expired", "127.0.0.1" + ssl.substr(ssl.find(':')),
       Certificate(A(), "client-expired"), "tls.certificate_file"},
      {"client-other-ca", B().bootstrap("SSL"), Certificate(B(), "client-other-ca"),
       "tls.certificate_file"},
      {"no-tls", A().bootstrap("SASL_SSL"), "", "it speaks TLS, and we do not"},
      {"no-login", A().bootstrap("SASL_PLAINTEXT"), "", "wants a log-in"},
      {"no-listener", A().bootstrap(), Certificate(A(), "client"), "listener without TLS"},
      {"not-there", B().bootstrap("SASL_SSL"),
       "    security_protocol: SSL\n    tls: {ca_file: /no/such/ca.pem}\n",
       "tls.ca_file: /no/such/ca.pem: No such file or directory"},
  };
  Lockstepd::Options options;
  for (const Case& each : cases) {
    options.clusters.emplace_back(each.name, each.bootstrap);
    options.yaml_of[each.name] = each.yaml;
  }
  Lockstepd daemon(options);
  daemon.Start();
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    daemon.Await(each.name + " to say why", 60s,
                 [&] { return StateOf(daemon, each.name).find(each.why) != std::string::npos; });
    // What only time tells apart from a broker that restarts goes on being tried.
    const bool passing = each.name == "no-login" || each.name == "no-listener";
    EXPECT_THAT(
        StateOf(daemon, each.name),
        ::testing::StartsWith(passing ? "CLUSTER_STATE_CONNECTING" : "CLUSTER_STATE_REFUSED"));
  }
  EXPECT_THAT(StateOf(daemon, "expired"), AllOf(HasSubstr("/CN=broker"), HasSubstr("/CN=ca"),
                                                HasSubstr("renew the broker's certificate")));

  // On one's own word, whatever host a certificate names.
  Lockstepd::Options lax;
  lax.clusters = {{"elsewhere", A().bootstrap("SSL_ELSEWHERE")}};
  lax.yaml_of = {{"elsewhere", unchecked}};
  Lockstepd trusting(lax);
  trusting.Start();
  trusting.AwaitReady();
}

TEST_F(KeptOutTest, AWrongPasswordIsTriedRarelyAndARightOneAtOnce) {
  const std::string topic = NewTopic("wrong");
  Lockstepd::Options options;
  options.clusters = {{"b", B().bootstrap("SASL_PLAINTEXT")}};
  options.yaml_of = {{"b", LogIn(B(), "SASL_PLAINTEXT", "PLAIN")}};
  Write("password", "wrong");
  Lockstepd daemon(options);
  const std::size_t before = Count(B().BrokerLog(), "Failed authentication");
  daemon.Start();
  daemon.Await("b to be refused", 60s,
               [&] { return StateOf(daemon, "b").starts_with("CLUSTER_STATE_REFUSED"); });
  EXPECT_THAT(Ctl(daemon, {"clusters"}).out, HasSubstr("log-in as 'lockstep' by PLAIN"));
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    const testing::Ran txn = Ctl(daemon, {"txn", "--record", "b:" + topic + "=no"});
    EXPECT_EQ(txn.exit_code, 2) << txn.out;
    EXPECT_THAT(txn.out,
                AllOf(HasSubstr("CLUSTER_UNAVAILABLE"), HasSubstr("log-in as 'lockstep'")));
  }
  // At 0, 1, 3, 7, 15, 31 seconds and then every 30: whatever is asked of the server.
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began);
  const std::size_t failed = Count(B().BrokerLog(), "Failed authentication") - before;
  EXPECT_GE(failed, 1U);
  EXPECT_LE(failed, 5U + static_cast<std::size_t>(seconds.count()) / 15);

  Write("password", B().password("lockstep"));
  daemon.AwaitReady(20s);
  EXPECT_EQ(Ctl(daemon, {"txn", "--record", "b:" + topic + "=yes"}).exit_code, 0);
  EXPECT_THAT(testing::ReadValues(B().bootstrap(), topic), ElementsAre("yes"));
  ExpectNoSecrets(daemon);
}

// A token lives for seconds and is replaced in time; brokers end sessions with their tokens. The
// wire client logs in again; librdkafka 2.0.2 cannot, so lanes are renewed in time. Where a machine
// is too slow for that, a transaction aborts that may be begun anew; no outcome is lost.
TEST_F(KeptOutTest, ATokenIsRotatedUnderLoad) {
  const std::string topic = NewTopic("token");
  Lockstepd::Options options;
  options.clusters = {{"a", A().bootstrap("SASL_PLAINTEXT")}, {"b", B().bootstrap("SASL_SSL")}};
  options.yaml_of = {{"a", LogIn(A(), "SASL_PLAINTEXT", "OAUTHBEARER")},
                     {"b", LogIn(B(), "SASL_SSL", "OAUTHBEARER")}};
  options.extra_yaml = "log_level: trace\n";
  Write("token", Token(6s));
  Lockstepd daemon(options);
  std::atomic<bool> over{false};
  std::thread renewing([&] {
    while (!over) {
      Write("token", Token(6s));
      std::this_thread::sleep_for(1500ms);
    }
  });
  daemon.Start();
  daemon.AwaitReady();
  const auto until = std::chrono::steady_clock::now() + 15s;  // More than two lives of a token.
  std::vector<std::string> committed;
  int aborted = 0;
  for (int i = 0; std::chrono::steady_clock::now() < until; ++i) {
    testing::TestTxn txn(daemon.coordinator());
    const std::string value = std::to_string(i);
    ASSERT_TRUE(txn.Produce("a", topic, value, 0).ok());
    ASSERT_TRUE(txn.Produce("b", topic, value, 0).ok());
    v1::CommitResponse response;
    ASSERT_TRUE(txn.Commit(&response).ok());
    ASSERT_NE(response.outcome(), v1::OUTCOME_HEURISTIC);
    if (response.outcome() == v1::OUTCOME_ABORTED) {
      ++aborted;
      EXPECT_EQ(response.abort().reason(), v1::ABORT_REASON_CLUSTER_UNAVAILABLE);
      EXPECT_TRUE(response.abort().retryable());
    } else {
      committed.push_back(value);
    }
  }
  over = true;
  renewing.join();
  daemon.AwaitNothingInDoubt();
  RecordProperty("committed", static_cast<int>(committed.size()));
  RecordProperty("aborted", aborted);
  EXPECT_GE(committed.size(), 3U);  // On a loaded machine; hundreds on an idle one.
  EXPECT_EQ(testing::ReadValues(A().bootstrap(), topic), committed);
  EXPECT_EQ(testing::ReadValues(B().bootstrap(), topic), committed);
  ExpectNoSecrets(daemon);

  // The last one expires, and nobody comes with another.
  daemon.Await("the brokers to end it", 60s,
               [&] { return StateOf(daemon, "b").starts_with("CLUSTER_STATE_REFUSED"); });
  EXPECT_THAT(StateOf(daemon, "b"), HasSubstr("by OAUTHBEARER"));
  Write("token", Token(std::chrono::hours(1)));
  daemon.AwaitReady();
}

}  // namespace
}  // namespace lockstep
