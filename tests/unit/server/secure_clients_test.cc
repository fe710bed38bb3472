#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <string>
#include <vector>

#include "ctl.h"
#include "lockstep/client.h"
#include "security_fixture.h"

/// The C++ client and lockstepctl, over TLS and with tokens; and what neither server nor client
/// tells.
namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecureClientsTest : public SecurityFixture {
 protected:
  SecureClientsTest() {
    const KeyPair alice = CertificateOf("alice");
    WriteFile("alice.crt", alice.certificate);
    WriteFile("alice.key", alice.key);
    WriteFile("token", kToken + "\n");
    WritePolicy(std::string(kPolicy) +
                "  - {name: robot, role: operator, tokens: [sha256:" + HashToken(kToken) + "]}\n");
  }

  client::ClientOptions OptionsOf(client::Security security) const {
    return {.server = "127.0.0.1:" + std::to_string(daemon_->port()),
            .security = std::move(security),
            .call_timeout = std::chrono::seconds(10)};
  }
  client::Security Alice() const {
    return {.ca_file = folder_ / "ca.crt",
            .certificate_file = folder_ / "alice.crt",
            .key_file = folder_ / "alice.key"};
  }
  client::Security Robot() const {
    return {.ca_file = folder_ / "ca.crt", .token_file = folder_ / "token"};
  }

  const std::string kToken = "CANARY-5f3a9c";
};

TEST_F(SecureClientsTest, ShowTheirCertificate) {
  Serve();
  client::Client client(OptionsOf(Alice()));
  auto txn = client.Begin();
  ASSERT_TRUE(txn.ok()) << ToString(txn.error());
  ASSERT_TRUE(txn->Produce("east", {.topic = "orders", .value = "v"}).ok());
  const auto denied = txn->Produce("east", {.topic = "secrets", .value = "v"});
  ASSERT_FALSE(denied.ok());
  EXPECT_EQ(denied.error().code, client::Code::kPermissionDenied);
  EXPECT_EQ(txn->Commit()->outcome, client::Outcome::kCommitted);
}

TEST_F(SecureClientsTest, ShowTheirTokenAndReadItAgain) {
  Serve();
  client::Client client(OptionsOf(Robot()));
  EXPECT_TRUE(client.ListTxns().ok());
  WriteFile("token", "another\n");
  const auto refused = client.ListTxns();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "NOT_AUTHENTICATED");
  EXPECT_EQ(refused.error().effect, client::Effect::kNone);
  WriteFile("token", kToken);
  EXPECT_TRUE(client.ListTxns().ok());
}

TEST_F(SecureClientsTest, SayWhatIsWrongWithTheirFiles) {
  Serve();
  client::Security security = Alice();
  security.ca_file = folder_ / "missing.crt";
  const auto missing = client::Client(OptionsOf(security)).ListTxns();
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, client::Code::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr("missing.crt: No such file"));
  security = Alice();
  security.key_file.clear();
  EXPECT_THAT(client::Client(OptionsOf(security)).Begin().error().message,
              HasSubstr("certificate_file and key_file go together"));
}

TEST_F(SecureClientsTest, RefuseAServerTheyDoNotKnow) {
  Serve();
  const TestCa other;
  WriteFile("other.crt", other.certificate());
  client::Security security = Alice();
  security.ca_file = folder_ / "other.crt";
  auto options = OptionsOf(security);
  options.call_timeout = std::chrono::seconds(1);
  const auto refused = client::Client(options).ListTxns();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, client::Code::kUnavailable);

  // By another name than the certificate's, unless that is said.
  const KeyPair elsewhere = ca_.Issue({.alternative_names = {"DNS:elsewhere"}});
  WriteFile("server.crt", elsewhere.certificate);
  WriteFile("server.key", elsewhere.key);
  daemon_->RereadFiles();
  options = OptionsOf(Alice());
  options.call_timeout = std::chrono::seconds(1);
  EXPECT_FALSE(client::Client(options).ListTxns().ok());
  options.security.server_name = "elsewhere";
  EXPECT_TRUE(client::Client(options).ListTxns().ok());
}

TEST_F(SecureClientsTest, SendATokenInPlainTextOnThisMachineOnly) {
  config_.tls = {};
  Serve();
  const client::Security token{.token_file = folder_ / "token"};
  client::ClientOptions options = OptionsOf(token);
  options.server = "127.0.0.1:" + std::to_string(daemon_->port());
  const auto listed = client::Client(options).ListTxns();
  EXPECT_TRUE(listed.ok()) << ToString(listed.error());
}

TEST_F(SecureClientsTest, LockstepctlToo) {
  Serve();
  const std::string server = "127.0.0.1:" + std::to_string(daemon_->port());
  const std::string ca = folder_ / "ca.crt";
  const auto robot = lockstep::testing::RunCtl(
      {"--server", server, "--ca", ca, "--token-file", folder_ / "token", "status"});
  EXPECT_EQ(robot.exit_code, 0) << robot.err;
  const auto alice = lockstep::testing::RunCtl({"--server", server, "--ca", ca, "--certificate",
                                                folder_ / "alice.crt", "--private-key",
                                                folder_ / "alice.key", "drain"});
  EXPECT_EQ(alice.exit_code, 1);
  EXPECT_THAT(alice.err, HasSubstr("role operator"));
  const auto missing =
      lockstep::testing::RunCtl({"--server", server, "--ca", "/missing.crt", "status"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/missing.crt: No such file"));
}

/// What must not be told is told nowhere: planted, and looked for.
TEST_F(SecureClientsTest, NoSecretIsInAnyLog) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  spdlog::set_level(spdlog::level::trace);
  Serve();
  const auto nobody = ConnectAs("");
  for (const std::string& sent : std::vector<std::string>{"Bearer " + kToken, "Bearer CANARY-wrong",
                                                          "CANARY-odd", "Basic CANARY-basic"}) {
    const auto status = CallAny(nobody, "/lockstep.v1.Coordinator/ListTxns", "", sent);
    EXPECT_THAT(status.error_message(), Not(HasSubstr("CANARY")));
  }
  WritePolicy("principals:\n  - {name: a, tokens: [CANARY-pasted]}\n");
  daemon_->RereadFiles();
  StopServer();
  daemon_.reset();
  spdlog::set_default_logger(before);
  EXPECT_THAT(log.str(), HasSubstr("policy.yaml:2")) << "something was logged";
  EXPECT_THAT(log.str(), Not(HasSubstr("CANARY")));
  EXPECT_THAT(log.str(), Not(HasSubstr("PRIVATE KEY")));
  EXPECT_THAT(ReadAudit(), HasSubstr("refused"));
  EXPECT_THAT(ReadAudit(), Not(HasSubstr("CANARY")));
}

}  // namespace
}  // namespace lockstep::server
