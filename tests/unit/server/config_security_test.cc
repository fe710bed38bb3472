// The security of connections to brokers, as the file says it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/settings.h"
#include "server/config.h"
#include "server/kafka_config.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// Line 5 is the first of `lines`, which are indented by four blanks.
ConfigResult Parse(const std::string& lines) {
  return ParseConfig("data_dir: /d\nclusters:\n  - name: a\n    bootstrap_servers: h:1\n" + lines);
}

wire::SecurityConfig Good(const std::string& lines) {
  const ConfigResult result = Parse(lines);
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result)) {
    ADD_FAILURE() << ToString(mistakes->front(), "config");
    return {};
  }
  return SecurityOf(std::get<Config>(result).clusters.at(0));
}

std::string Mistake(const std::string& lines) {
  const ConfigResult result = Parse(lines);
  const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result);
  if (mistakes == nullptr) return "accepted";
  EXPECT_EQ(mistakes->size(), 1U) << lines;
  return ToString(mistakes->front(), "");
}

TEST(ConfigSecurity, IsPlainTextUnlessSaid) {
  const wire::SecurityConfig security = Good("");
  EXPECT_FALSE(security.tls || security.sasl);
}

TEST(ConfigSecurity, IsReadWhole) {
  const wire::SecurityConfig tls = Good(
      "    security_protocol: SSL\n    tls: {ca_file: /ca, certificate_file: /c, key_file: /k,\n"
      "      key_password_env: SECRET_1, check_hostname: false}\n");
  ASSERT_TRUE(tls.tls);
  EXPECT_FALSE(tls.sasl);
  EXPECT_EQ(*tls.tls, (wire::TlsConfig{"/ca", "/c", "/k", {"", "SECRET_1"}, false}));
  const wire::SecurityConfig both = Good(
      "    security_protocol: SASL_SSL\n"
      "    sasl: {mechanism: SCRAM-SHA-512, username: me, password_file: /p}\n");
  ASSERT_TRUE(both.tls && both.sasl);
  EXPECT_EQ(*both.tls, wire::TlsConfig{});
  EXPECT_TRUE(both.tls->check_hostname);
  EXPECT_EQ(*both.sasl,
            (wire::SaslConfig{wire::SaslMechanism::kScramSha512, "me", {"/p", ""}, ""}));
  const wire::SecurityConfig token = Good(
      "    security_protocol: SASL_PLAINTEXT\n    sasl: {mechanism: OAUTHBEARER, token_file: "
      "/t}\n");
  ASSERT_TRUE(token.sasl && !token.tls);
  EXPECT_EQ(token.sasl->token_file, "/t");
}

TEST(ConfigSecurity, ReachesTheClusterWhole) {
  const ConfigResult result = Parse(
      "    security_protocol: SASL_SSL\n"
      "    sasl: {mechanism: PLAIN, username: me, password_env: PW}\n");
  ASSERT_TRUE(std::holds_alternative<Config>(result));
  const ClusterConfig& cluster = std::get<Config>(result).clusters.at(0);
  EXPECT_EQ(ToKafka(cluster).security, SecurityOf(cluster));
}

TEST(ConfigSecurity, SecretsStandElsewhere) {
  struct Case {
    const char* lines;
    const char* way_out;
  };
  for (const Case& each : {
           Case{"    sasl: {password: hunter2}\n", "sasl.password_env"},
           Case{"    sasl: {token: hunter2}\n", "sasl.token_file"},
           Case{"    tls: {key_password: hunter2}\n", "tls.key_password_file"},
           Case{"    librdkafka: {sasl.password: hunter2}\n", "security_protocol, tls and sasl"},
           Case{"    librdkafka: {ssl.key.password: hunter2}\n", "security_protocol, tls and sasl"},
       }) {
    const std::string mistake = Mistake(each.lines);
    EXPECT_THAT(mistake, HasSubstr(each.way_out)) << each.lines;
    EXPECT_THAT(mistake, HasSubstr(":5: clusters[0].")) << each.lines;
    EXPECT_THAT(mistake, Not(HasSubstr("hunter2"))) << "the secret itself";
  }
}

TEST(ConfigSecurity, WhatDoesNotGoTogetherIsNamed) {
  struct Case {
    const char* lines;
    const char* mistake;
  };
  for (const Case& each : {
           Case{"    security_protocol: TLS\n", "must be PLAINTEXT, SSL,"},
           Case{"    tls: {ca_file: /ca}\n", "tls.ca_file: needs security_protocol SSL"},
           Case{"    tls: {check_hostname: false}\n",
                "check_hostname: needs security_protocol SSL"},
           Case{"    tls: {check_hostname: no}\n", "must be true or false"},
           Case{"    tls: {ca_file: ca.pem}\n", "must be an absolute path"},
           Case{"    security_protocol: SSL\n    tls: {certificate_file: /c}\n",
                "certificate_file: needs tls.key_file"},
           Case{"    security_protocol: SSL\n    tls: {key_file: /k}\n",
                "key_file: needs tls.certificate_file"},
           Case{"    security_protocol: SSL\n    tls: {key_password_file: /k}\n",
                "key_password_file: needs tls.key_file"},
           Case{"    sasl: {mechanism: PLAIN}\n", "mechanism: needs security_protocol SASL"},
           Case{"    security_protocol: SASL_SSL\n", "sasl.mechanism: is required"},
           Case{"    security_protocol: SASL_SSL\n    sasl: {mechanism: GSSAPI}\n",
                "must be none,"},
           Case{"    security_protocol: SASL_SSL\n    sasl: {mechanism: PLAIN, username: u}\n",
                "sasl.password_file: this, or sasl.password_env, is required"},
           Case{"    security_protocol: SASL_SSL\n    sasl: {mechanism: PLAIN, password_env: P}\n",
                "sasl.username: is required"},
           Case{"    security_protocol: SASL_SSL\n"
                "    sasl: {mechanism: PLAIN, username: u, password_env: P, password_file: /p}\n",
                "password_env: not beside"},
           Case{"    security_protocol: SASL_SSL\n    sasl: {mechanism: OAUTHBEARER}\n",
                "token_file: is required"},
           Case{"    security_protocol: SASL_SSL\n"
                "    sasl: {mechanism: OAUTHBEARER, token_file: /t, username: u}\n",
                "username: needs sasl.mechanism PLAIN"},
           Case{"    security_protocol: SASL_SSL\n"
                "    sasl: {mechanism: PLAIN, username: u, password_env: 1P}\n",
                "must be an environment variable's name"},
       }) {
    EXPECT_THAT(Mistake(each.lines), HasSubstr(each.mistake)) << each.lines;
  }
}

}  // namespace
}  // namespace lockstep::server
