#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "security_fixture.h"

/// Certificates, as gRPC judges them on both sides.
namespace lockstep::server {
namespace {

using std::chrono::hours;
using testing::HasSubstr;

const char* const kInfo = "/lockstep.v1.Coordinator/GetServerInfo";
const char* const kStatus = "/lockstep.v1.Admin/GetStatus";

class TlsListenerTest : public SecurityFixture {
 protected:
  /// Whether the first attempt succeeds.
  static bool Connects(const std::shared_ptr<grpc::Channel>& channel) {
    const auto limit = std::chrono::system_clock::now() + std::chrono::seconds(20);
    for (auto state = channel->GetState(true);; state = channel->GetState(true)) {
      if (state == GRPC_CHANNEL_READY) return true;
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
      if (!channel->WaitForStateChange(state, limit)) return false;
    }
  }
  KeyPair Alice(hours from = hours(-24), hours until = hours(24)) const {
    return ca_.Issue({.common_name = "alice",
                      .alternative_names = {"URI:spiffe://test/alice"},
                      .valid_from = from,
                      .valid_until = until});
  }
};

TEST_F(TlsListenerTest, TakesClientCertificatesOfItsCaInTheirTime) {
  config_.tls.client_certificates = "required";
  Serve();
  EXPECT_TRUE(CallAny(ConnectWith(ca_.certificate(), Alice()), kInfo, "").ok());
  const TestCa other;
  const KeyPair of_other = other.Issue({.alternative_names = {"URI:spiffe://test/alice"}});
  for (const auto& [what, pair] :
       std::vector<std::pair<std::string, KeyPair>>{{"expired", Alice(hours(-48), hours(-24))},
                                                    {"not yet valid", Alice(hours(24), hours(48))},
                                                    {"of another CA", of_other},
                                                    {"none", KeyPair()}}) {
    const auto status = CallAny(ConnectWith(ca_.certificate(), pair), kInfo, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << what;
  }
}

TEST_F(TlsListenerTest, AWrongOptionalCertificateIsNotTakenForNone) {
  Serve();
  const TestCa other;
  const KeyPair of_other = other.Issue({.alternative_names = {"URI:spiffe://test/alice"}});
  EXPECT_EQ(CallAny(ConnectWith(ca_.certificate(), of_other), kInfo, "").error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallAny(ConnectWith(ca_.certificate(), Alice(hours(-48), hours(-24))), kInfo, "")
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsListenerTest, ClientsRefuseAWrongServer) {
  const auto serve_with = [this](const KeyPair& pair) {
    WriteFile("server.crt", pair.certificate);
    WriteFile("server.key", pair.key);
    daemon_->RereadFiles();
  };
  Serve();
  EXPECT_TRUE(Connects(ConnectWith(ca_.certificate(), Alice())));
  const TestCa other;
  EXPECT_FALSE(Connects(ConnectWith(other.certificate(), Alice())))
      << "the client knows another CA";
  serve_with(ca_.Issue({.alternative_names = {"IP:127.0.0.1"},
                        .valid_from = hours(-48),
                        .valid_until = hours(-24)}));
  EXPECT_FALSE(Connects(ConnectWith(ca_.certificate(), Alice()))) << "expired";
  serve_with(ca_.Issue(
      {.alternative_names = {"IP:127.0.0.1"}, .valid_from = hours(24), .valid_until = hours(48)}));
  EXPECT_FALSE(Connects(ConnectWith(ca_.certificate(), Alice()))) << "not yet valid";
  serve_with(ca_.Issue({.alternative_names = {"DNS:elsewhere"}}));
  EXPECT_FALSE(Connects(ConnectWith(ca_.certificate(), Alice()))) << "of another host";
  serve_with(ca_.IssueForServer());
  EXPECT_TRUE(Connects(ConnectWith(ca_.certificate(), Alice())));
}

TEST_F(TlsListenerTest, PlaintextIsNotSpokenThere) {
  Serve();
  const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                           grpc::InsecureChannelCredentials());
  EXPECT_EQ(CallAny(channel, kInfo, "").error_code(), grpc::StatusCode::UNAVAILABLE);
}

/// New certificates, and a new CA for clients', while calls go on: none of them fails.
TEST_F(TlsListenerTest, CertificatesChangeUnderLoad) {
  Serve();
  const TestCa next("Next CA");  // Two of one name could not be told apart.
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&, lasting = i == 0] {
      // One keeps its connection, one makes one for each call.
      const std::string both = ca_.certificate() + next.certificate();
      auto channel = ConnectWith(both, Alice());
      while (!stop) {
        if (!lasting) channel = ConnectWith(both, Alice());
        if (!CallAny(channel, kInfo, "").ok()) ++failed;
        ++calls;
      }
    });
  }
  const auto some_calls = [&] {
    for (const int before = calls; calls < before + 20;) std::this_thread::yield();
  };
  some_calls();
  WriteFile("ca.crt", ca_.certificate() + next.certificate());
  const KeyPair pair = next.IssueForServer();
  WriteFile("server.crt", pair.certificate);
  daemon_->RereadFiles();  // Half of the pair: not taken up.
  some_calls();
  WriteFile("server.key", pair.key);
  daemon_->RereadFiles();
  some_calls();
  stop = true;
  for (auto& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  // Connections from now on are the new certificate's, and the new CA's clients may come.
  EXPECT_FALSE(Connects(ConnectWith(ca_.certificate(), Alice())));
  const KeyPair bob = next.Issue({.alternative_names = {"URI:spiffe://test/bob"}});
  EXPECT_TRUE(CallAny(ConnectWith(next.certificate(), bob), kInfo, "").ok());
}

TEST_F(TlsListenerTest, IdentitiesAreOfTheirKind) {
  WritePolicy(
      "principals:\n"
      "  - {name: uri, certificates: ['uri:spiffe://test/x']}\n"
      "  - {name: dns, certificates: ['dns:client.test']}\n"
      "  - {name: subject, certificates: ['subject:CN=plain']}\n");
  Serve();
  const auto call = [this](const testing_support::CertificateOptions& options) {
    return CallAny(ConnectWith(ca_.certificate(), ca_.Issue(options)), kInfo, "");
  };
  EXPECT_TRUE(call({.alternative_names = {"URI:spiffe://test/x"}}).ok());
  EXPECT_TRUE(call({.alternative_names = {"DNS:client.test"}}).ok());
  EXPECT_TRUE(call({.common_name = "plain"}).ok());
  // The same words at another place are somebody else.
  EXPECT_EQ(call({.common_name = "client.test"}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(call({.alternative_names = {"URI:client.test"}}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(call({.alternative_names = {"DNS:sub.client.test"}}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  const auto two = call({.alternative_names = {"DNS:client.test", "URI:spiffe://test/x"}});
  EXPECT_EQ(two.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(two.error_message(), HasSubstr("is that of both"));
}

TEST_F(TlsListenerTest, ServesAUnixSocket) {
  config_.tls = {};
  config_.policy_file.clear();
  config_.listen = {.host = {}, .port = 0, .unix_path = folder_ / "s"};
  Serve();
  const auto channel =
      grpc::CreateChannel("unix:" + config_.listen.unix_path, grpc::InsecureChannelCredentials());
  EXPECT_TRUE(CallAny(channel, kInfo, "").ok());
}

/// How a pod's preStop and a person at the machine come in: no certificate of their own, but a
/// token.
TEST_F(TlsListenerTest, AUnixSocketBesideIsPlainTextAndAsksForATokenAllTheSame) {
  config_.tls.client_certificates = "required";
  config_.admin_listen = ListenAddress{.unix_path = folder_ / "admin"};
  WritePolicy(std::string(kPolicy) + "  - {name: robot, role: operator, tokens: ['sha256:" +
              HashToken("secret") + "']}\n");
  Serve();
  const auto channel = grpc::CreateChannel("unix:" + config_.admin_listen->unix_path,
                                           grpc::InsecureChannelCredentials());
  EXPECT_TRUE(CallAny(channel, kStatus, "", "Bearer secret").ok());
  EXPECT_EQ(CallAny(channel, kStatus, "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(Connects(ConnectAs("")));
}

}  // namespace
}  // namespace lockstep::server
