#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "clusters.h"
#include "kafka_reader.h"
#include "lockstepd.h"

namespace lockstep {

/// Cluster a has one node. Cluster b has two, and all its coordinators on node 1: node 2 can go
/// without them. Shared by the whole program; each test has topics and a data folder of its own, so
/// that a test may even empty a cluster.
class BadDaysTest : public ::testing::Test {
 protected:
  static testing::KafkaCluster& A();
  static testing::KafkaCluster& B();
  static testing::Lockstepd::Options BothClusters();

  /// The running test's name; made on both clusters, with two partitions (of b's on node 1).
  static std::string NewTopic();

  /// lockstepctl, as a user runs it.
  static testing::Ran Ctl(const testing::Lockstepd& daemon, std::vector<std::string> words);

  /// "VALUE" written to `topic` on both clusters, decided COMMIT, and lockstepd dead before the
  /// cluster `not_on` heard of it. The transaction's id.
  static std::string CrashDecided(testing::Lockstepd& daemon, const std::string& topic,
                                  const std::string& not_on, const std::string& value);

  static std::vector<std::string> OnA(const std::string& topic);
  static std::vector<std::string> OnB(const std::string& topic);
};

}  // namespace lockstep
