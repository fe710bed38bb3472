#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "clusters.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "wire/messages.h"

namespace lockstep {

/// Two secured clusters: a is Kafka 3.9.1, b is 4.4.0. `lockstep` (by password, token or
/// certificate) has the ACLs that the documentation names, no more. Shared by the whole program;
/// each test has topics and a data folder of its own.
class SecuredTest : public ::testing::Test {
 protected:
  SecuredTest();
  ~SecuredTest() override;

  static testing::KafkaCluster& A();
  static testing::KafkaCluster& B();

  /// The running test's name, or one of its parameters; made on both clusters.
  std::string NewTopic(const std::string& name) const;
  /// A file of this test's, removed at its end, and where it is.
  std::string Write(const std::string& name, const std::string& content) const;
  /// An OAUTHBEARER token that expires so much later (KIP-255's unsecured).
  static std::string Token(std::chrono::seconds valid, const std::string& subject = "lockstep");

  /// A cluster's YAML, to log in by `mechanism` over `listener`, which is SASL_PLAINTEXT or
  /// SASL_SSL.
  std::string LogIn(const testing::KafkaCluster& cluster, const std::string& listener,
                    const std::string& mechanism) const;
  /// To come in by a certificate: its files' name, or none.
  std::string Certificate(const testing::KafkaCluster& cluster, const std::string& name) const;

  static testing::Ran Ctl(const testing::Lockstepd& daemon, std::vector<std::string> words);
  /// The state and the problem of a cluster, as `lockstepctl clusters` has them, as JSON text.
  static std::string StateOf(testing::Lockstepd& daemon, const std::string& cluster);

  /// Fails the test if a secret of this program stands in what lockstepd leaves behind.
  void ExpectNoSecrets(const testing::Lockstepd& daemon) const;

  std::string folder_;
};

/// "DescribeConfigs of Cluster" and so on: what the documentation asks for.
std::vector<testing::AclEntry> DocumentedAcls(const std::string& principal);
void Allow(testing::KafkaCluster& cluster, const std::vector<testing::AclEntry>& entries);
void ForbidAll(testing::KafkaCluster& cluster, const std::string& principal);

}  // namespace lockstep
