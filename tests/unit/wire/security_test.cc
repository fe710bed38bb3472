// The client on connections that have to log in: when it does, again, and how it takes a refusal.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client_fixture.h"

namespace lockstep::wire {
namespace {

using protocol::ApiKey;
using protocol::Writer;
using ::testing::HasSubstr;

class SecurityTest : public ClientTest {
 protected:
  SecurityTest() { ::setenv("LOCKSTEP_TEST_SECRET", "secret", 1); }

  static ClientOptions Secured(const FakeBroker& broker) {
    ClientOptions options = Options({&broker});
    options.security.sasl = {.mechanism = SaslMechanism::kPlain,
                             .username = "me",
                             .password = {"", "LOCKSTEP_TEST_SECRET"}};
    return options;
  }
  static void WriteOutcome(Writer& w, ErrorCode error, std::int64_t lifetime_ms) {
    w.Error(error);
    w.NullableString(error == ErrorCode::kNone ? std::nullopt
                                               : std::optional<std::string>("who are you?"));
    w.Bytes("");
    w.Int64(lifetime_ms);
    w.NoTags();
  }
  /// Log-ins succeed, or do not, and the session lasts as long.
  static void AnswerLogIn(FakeBroker& broker, ErrorCode error, std::int64_t lifetime_ms = 0) {
    broker.Handle(ApiKey::kSaslHandshake, [](const FakeRequest&, Writer& w) {
      w.Error(ErrorCode::kNone);
      w.ArrayCount(1);
      w.String("PLAIN");
      return true;
    });
    broker.Handle(ApiKey::kSaslAuthenticate, [=](const FakeRequest&, Writer& w) {
      WriteOutcome(w, error, lifetime_ms);
      return true;
    });
  }
};

TEST_F(SecurityTest, LogsInBeforeItAsksAnything) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  AnswerLogIn(broker, ErrorCode::kNone);
  Client client(io(), Secured(broker));
  ASSERT_TRUE(StartDescribe(client, "x").Get().ok());
  const auto requests = broker.requests();
  ASSERT_GE(requests.size(), 4U);
  EXPECT_EQ(requests[0].key, ApiKey::kSaslHandshake);
  EXPECT_EQ(requests[1].key, ApiKey::kSaslAuthenticate);
  EXPECT_EQ(requests[2].key, ApiKey::kApiVersions);
  protocol::Reader r = requests[1].Read();
  EXPECT_EQ(r.Bytes(), std::string_view("\0me\0secret", 10));
  EXPECT_EQ(broker.requests(ApiKey::kSaslAuthenticate).size(), 1U);
}

TEST_F(SecurityTest, ARefusalIsPassedOnToAllAndTriedOnceAPause) {
  FakeBroker broker;
  AnswerLogIn(broker, ErrorCode::kSaslAuthenticationFailed);
  ClientOptions options = Secured(broker);
  options.refused_backoff_min = 1h;
  options.refused_backoff_max = 1h;
  Client client(io(), options);
  for (int i = 0; i < 50; ++i) {
    const auto answer = StartDescribe(client, "x").Get();
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Code::kPermissionDenied);
    EXPECT_THAT(answer.error().message, HasSubstr("log-in as 'me' by PLAIN: who are you?"));
  }
  EXPECT_EQ(broker.connections(), 1);
}

TEST_F(SecurityTest, AChangedSecretIsTriedAtOnce) {
  const std::string file = std::filesystem::temp_directory_path() / "lockstep-secret-test";
  std::ofstream(file) << "old\n";
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  AnswerLogIn(broker, ErrorCode::kNone);
  broker.Handle(ApiKey::kSaslAuthenticate, [](const FakeRequest& request, Writer& w) {
    protocol::Reader r = request.Read();
    const bool fine = r.Bytes() == std::string_view("\0me\0newer", 9);
    WriteOutcome(w, fine ? ErrorCode::kNone : ErrorCode::kSaslAuthenticationFailed, 0);
    return true;
  });
  ClientOptions options = Secured(broker);
  options.security.sasl->password = {file, ""};
  options.refused_backoff_min = 1h;
  options.refused_backoff_max = 1h;
  Client client(io(), options);
  ASSERT_FALSE(StartDescribe(client, "x").Get().ok());
  std::ofstream(file) << "newer\n";
  const auto answer = StartDescribe(client, "x").Get();
  std::filesystem::remove(file);
  EXPECT_TRUE(answer.ok()) << answer.error().message;
}

// KIP-368. What is asked while the second log-in runs waits for it: nothing may come between its
// requests. Nothing is lost, and the connection stays.
TEST_F(SecurityTest, LogsInAgainBeforeTheSessionEnds) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  AnswerLogIn(broker, ErrorCode::kNone, 1200);
  Client client(io(), Secured(broker));
  ASSERT_TRUE(StartDescribe(client, "x").Get().ok());
  broker.Hold(ApiKey::kSaslHandshake);
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kSaslHandshake, 2));
  auto waiting = StartDescribe(client, "x");
  auto waiting_too = StartDescribe(client, "x");
  broker.Release(ApiKey::kSaslHandshake);
  EXPECT_TRUE(waiting.Get().ok());
  EXPECT_TRUE(waiting_too.Get().ok());
  EXPECT_EQ(broker.connections(), 1);
  const auto requests = broker.requests();
  for (std::size_t i = 0; i + 1 < requests.size(); ++i) {
    if (requests[i].key != ApiKey::kSaslHandshake) continue;
    EXPECT_EQ(requests[i + 1].key, ApiKey::kSaslAuthenticate) << i;
  }
}

TEST_F(SecurityTest, AMechanismThatIsNotOfferedIsToldWithThoseThatAre) {
  FakeBroker broker;
  broker.Handle(ApiKey::kSaslHandshake, [](const FakeRequest&, Writer& w) {
    w.Error(ErrorCode::kUnsupportedSaslMechanism);
    w.ArrayCount(2);
    w.String("SCRAM-SHA-512");
    w.String("OAUTHBEARER");
    return true;
  });
  Client client(io(), Secured(broker));
  const auto answer = StartDescribe(client, "x").Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error().message, HasSubstr("only SCRAM-SHA-512, OAUTHBEARER"));
}

TEST_F(SecurityTest, AFileThatCannotBeUsedIsNamed) {
  FakeBroker broker;
  ClientOptions options = Options({&broker});
  options.security.tls = TlsConfig{.ca_file = "/no/such/ca.pem"};
  Client client(io(), options);
  const auto answer = StartDescribe(client, "x").Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(answer.error().message, HasSubstr("tls.ca_file: /no/such/ca.pem: No such file"));
  EXPECT_EQ(broker.connections(), 0);
}

}  // namespace
}  // namespace lockstep::wire
