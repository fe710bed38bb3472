#include "fixture.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "call_context.h"
#include "wire/raw_client.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AclEntry;
using testing::AclOperation;
using testing::AclResource;

std::string Base64Url(const std::string& bytes) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kAlphabet[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += kAlphabet[(bits << (6 - count)) & 63U];
  return text;
}

/// Started by the first test, stopped after the last.
class SharedClusters : public ::testing::Environment {
 public:
  void SetUp() override {
    testing::KafkaClusterOptions old;
    old.kafka = "3.9.1";
    old.secure = true;
    testing::KafkaClusterOptions current;
    current.secure = true;
    clusters_ = testing::StartKafkaClusters({old, current});
    for (const auto& cluster : clusters_) {
      for (const char* principal : {"User:lockstep", "User:CN=lockstep"}) {
        Allow(*cluster, DocumentedAcls(principal));
      }
    }
  }
  void TearDown() override { clusters_.clear(); }
  testing::KafkaCluster& at(std::size_t i) { return *clusters_.at(i); }

 private:
  std::vector<std::unique_ptr<testing::KafkaCluster>> clusters_;
};

auto* const g_clusters = static_cast<SharedClusters*>(
    ::testing::AddGlobalTestEnvironment(std::make_unique<SharedClusters>().release()));

std::string Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<AclEntry> DocumentedAcls(const std::string& principal) {
  return {
      {principal, AclOperation::kWrite, AclResource::kTransactionalId, "lockstep-*"},
      {principal, AclOperation::kDescribe, AclResource::kTransactionalId, "lockstep-*"},
      {principal, AclOperation::kWrite, AclResource::kTopic, "t-*"},
      {principal, AclOperation::kDescribe, AclResource::kTopic, "t-*"},
      {principal, AclOperation::kRead, AclResource::kTopic, "t-*"},
      {principal, AclOperation::kDescribeConfigs, AclResource::kCluster, "kafka-cluster"},
  };
}

void Allow(testing::KafkaCluster& cluster, const std::vector<AclEntry>& entries) {
  const auto answer = testing::RawClient(cluster.bootstrap()).Ask(testing::CreateAcls{entries});
  if (answer.error != wire::ErrorCode::kNone) throw std::runtime_error(answer.error_message);
}

void ForbidAll(testing::KafkaCluster& cluster, const std::string& principal) {
  testing::RawClient(cluster.bootstrap()).Ask(testing::DeleteAcls{principal});
}

testing::KafkaCluster& SecuredTest::A() { return g_clusters->at(0); }
testing::KafkaCluster& SecuredTest::B() { return g_clusters->at(1); }

SecuredTest::SecuredTest() : folder_("/var/tmp/lockstep-secured.XXXXXX") {
  if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
}

SecuredTest::~SecuredTest() { fs::remove_all(folder_); }

std::string SecuredTest::NewTopic(const std::string& name) const {
  std::string topic = "t-" + name;
  A().CreateTopic(topic + ":2");
  B().CreateTopic(topic + ":2");
  return topic;
}

std::string SecuredTest::Write(const std::string& name, const std::string& content) const {
  std::string path = folder_ + "/" + name;
  std::ofstream(path + ".new") << content;
  fs::rename(path + ".new", path);
  return path;
}

std::string SecuredTest::Token(std::chrono::seconds valid, const std::string& subject) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return Base64Url(R"({"alg":"none"})") + "." +
         Base64Url(R"({"note":"canary-token","sub":")" + subject + R"(","iat":)" +
                   std::to_string(now) + R"(,"exp":)" + std::to_string(now + valid.count()) + "}") +
         ".";
}

std::string SecuredTest::LogIn(const testing::KafkaCluster& cluster, const std::string& listener,
                               const std::string& mechanism) const {
  std::string yaml = "    security_protocol: " + listener + "\n";
  if (listener.ends_with("SSL")) {
    yaml += "    tls: {ca_file: " + cluster.SecurityFile("ca.crt") + "}\n";
  }
  yaml += "    sasl:\n      mechanism: " + mechanism + "\n";
  if (mechanism == "OAUTHBEARER") {
    return yaml + "      token_file: " + Write("token", Token(std::chrono::hours(1))) + "\n";
  }
  return yaml + "      username: lockstep\n      password_file: " +
         Write("password", cluster.password("lockstep") + "\n") + "\n";
}

std::string SecuredTest::Certificate(const testing::KafkaCluster& cluster,
                                     const std::string& name) const {
  std::string yaml =
      "    security_protocol: SSL\n    tls:\n      ca_file: " + cluster.SecurityFile("ca.crt") +
      "\n";
  if (name.empty()) return yaml;
  return yaml + "      certificate_file: " + cluster.SecurityFile(name + ".crt") +
         "\n      key_file: " + cluster.SecurityFile(name + ".key") + "\n";
}

testing::Ran SecuredTest::Ctl(const testing::Lockstepd& daemon, std::vector<std::string> words) {
  words.insert(words.begin(), {LOCKSTEPCTL_BINARY, "--server", daemon.address()});
  return testing::RunProgram(words);
}

std::string SecuredTest::StateOf(testing::Lockstepd& daemon, const std::string& cluster) {
  CallContext context;
  v1::GetStatusResponse status;
  EXPECT_TRUE(daemon.admin().GetStatus(&context, {}, &status).ok());
  for (const v1::ClusterStatus& each : status.clusters()) {
    if (each.name() == cluster) return v1::ClusterState_Name(each.state()) + ": " + each.problem();
  }
  return "not there";
}

void SecuredTest::ExpectNoSecrets(const testing::Lockstepd& daemon) const {
  // "canary-token" inside of a token, at any place of a group of three.
  const std::vector<std::string> secrets = {A().password("lockstep"), A().key_password(),
                                            "Y2FuYXJ5LXRva2Vu",       "NhbmFyeS10b2tlb",
                                            "jYW5hcnktdG9rZW",        "canary-"};
  const auto expect_none = [&](const std::string& where, const std::string& text) {
    for (const std::string& secret : secrets) {
      EXPECT_EQ(text.find(secret), std::string::npos) << where << " has " << secret;
    }
  };
  std::size_t files = 0;
  for (const std::string& folder : {daemon.folder(), daemon.data_dir()}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      expect_none(entry.path(), Content(entry.path()));
    }
  }
  EXPECT_GT(files, 4U) << "configuration, log, and some of RocksDB's";
  const testing::Ran dump =
      testing::RunProgram({LOCKSTEPCTL_BINARY, "log", "dump", daemon.data_dir()});
  EXPECT_EQ(dump.exit_code, 0) << dump.out;
  expect_none("log dump", dump.out);
  if (daemon.address().empty()) return;
  expect_none("status", Ctl(daemon, {"--output", "json", "status"}).out);
  expect_none("clusters", Ctl(daemon, {"clusters"}).out);
}

}  // namespace lockstep
