#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "clusters.h"
#include "harness.h"
#include "kafka_reader.h"

namespace lockstep::kafka::testing {

using Broker = ::lockstep::testing::KafkaCluster;

inline std::string FreshName(const std::string& prefix) {
  static int count = 0;
  return prefix + "-" + std::to_string(++count);
}

inline LogId FreshLogId() {
  static int count = 0;
  return LogId("00000000" + std::to_string(10'000'000 + ++count));
}

/// One broker of each version, shared by the tests that leave it as they found it.
inline Broker& BrokerOf(const std::string& version) {
  static std::map<std::string, std::unique_ptr<Broker>> brokers;
  auto& broker = brokers[version];
  if (broker == nullptr) {
    ::lockstep::testing::KafkaClusterOptions options;
    options.kafka = version;
    broker = std::make_unique<Broker>(options);
  }
  return *broker;
}

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string VersionName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = "v" + info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// One lockstepd, or one after the other, with one cluster and one lane. Says which broker.
class LanesFixture {
 public:
  explicit LanesFixture(Broker& broker) : broker_(broker), topic_(FreshName("t")) {
    folder_.log_id = FreshLogId();
    broker_.CreateTopic(topic_ + ":3");
  }
  ~LanesFixture() { DisarmFailpoints(); }

  ClusterConfig Config() const {
    ClusterConfig config;
    config.name = ClusterName("a");
    config.bootstrap_servers = {broker_.bootstrap()};
    config.lanes_max = 1;
    config.transaction_timeout = std::chrono::seconds(60);
    config.request_timeout = std::chrono::seconds(3);
    config.end_timeout = std::chrono::seconds(3);
    config.probe_interval = std::chrono::milliseconds(500);
    return config;
  }

  /// The next start of the same instance.
  void NewProcess(std::vector<TransactionalId> pending = {}) {
    NewProcess(Config(), std::move(pending));
  }
  void NewProcess(ClusterConfig config, std::vector<TransactionalId> pending = {}) {
    process_.reset();
    process_ = std::make_unique<Process>(folder_, ++incarnation_);
    cluster_ = &process_->Add(std::move(config), std::move(pending));
  }

  void StopProcess() { process_.reset(); }

  std::unique_ptr<Branch> NewBranch() { return process_->NewBranch(*cluster_); }
  bool Becomes(coordinator::ClusterState state) {
    return Eventually([&] { return cluster_->status().state == state; });
  }
  /// No lane is lent or being renewed.
  bool BecomesIdle() {
    return Eventually([&] {
      const auto status = cluster_->status();
      return status.lanes_idle > 0 && status.lanes_busy + status.lanes_renewing == 0;
    });
  }

  Result<txn::TxnDescription> TryDescribe(const txn::ParticipantName& name) {
    return process_->Ask<Result<txn::TxnDescription>>(
        [&](const std::function<void(Result<txn::TxnDescription>)>& done) {
          cluster_->Describe(name, done);
        });
  }
  txn::TxnDescription Describe(const txn::ParticipantName& name) {
    const auto answer = TryDescribe(name);
    if (!answer.ok()) throw std::runtime_error(ToString(answer.error()));
    return *answer;
  }
  bool BecomesState(const txn::ParticipantName& name, txn::KafkaTxnState state) {
    return Eventually([&] {
      const auto answer = TryDescribe(name);
      return answer.ok() && answer->state == state;
    });
  }
  /// Whether one EndTxn(commit) from outside the lane was answered NONE.
  bool EndByWire(const txn::ParticipantName& name) {
    const auto answer =
        process_->Ask<txn::EndTxnAnswer>([&](const std::function<void(txn::EndTxnAnswer)>& done) {
          cluster_->EndTxn(name, txn::Direction::kCommit, done);
        });
    return answer.kind == txn::EndTxnAnswer::Kind::kDone;
  }
  std::vector<txn::MarkerFound> Markers(const txn::PreparedParticipant& participant) {
    using Found = Result<std::vector<txn::MarkerFound>>;
    const auto found = process_->Ask<Found>(
        [&](const std::function<void(Found)>& done) { cluster_->ReadMarkers(participant, done); });
    if (!found.ok()) throw std::runtime_error(ToString(found.error()));
    return *found;
  }

  std::vector<std::string> Committed(
      ::lockstep::testing::Open open = ::lockstep::testing::Open::kAwaitTheirEnd) const {
    return ::lockstep::testing::ReadValues(broker_.bootstrap(), topic_, open);
  }
  txn::BranchWork One(const std::string& value) const {
    return Records({MakeRecord(topic_, value, 0)});
  }
  /// A YES, or the test fails.
  txn::PreparedParticipant PrepareYes(Branch& branch, txn::BranchWork work) {
    const txn::Vote vote = branch.Prepare(std::move(work));
    EXPECT_EQ(vote.kind, txn::Vote::Kind::kYes) << vote.refusal.message;
    return vote.prepared;
  }
  /// A NO for this reason, or the test fails. The branch is aborted and released.
  txn::Refusal PrepareNo(txn::BranchWork work, txn::AbortReason reason,
                         Duration time = std::chrono::seconds(20)) {
    const auto branch = NewBranch();
    const txn::Vote vote = branch->Prepare(std::move(work), time);
    EXPECT_EQ(vote.kind, txn::Vote::Kind::kNo);
    EXPECT_EQ(vote.refusal.reason, reason) << vote.refusal.message;
    branch->Abort();
    branch->Release();
    return vote.refusal;
  }
  /// Commits one record; returns under which name.
  /// No late request of the one before can meet it: it has a later epoch or, where one of its
  /// markers may be missing, another id.
  static void ExpectRenewed(const txn::ParticipantName& now, const txn::ParticipantName& before) {
    if (now.transactional_id != before.transactional_id) return;
    EXPECT_GT(now.producer_epoch, before.producer_epoch);
  }

  txn::ParticipantName CommitOne(const std::string& value) {
    const auto branch = NewBranch();
    const txn::PreparedParticipant prepared = PrepareYes(*branch, One(value));
    const Status status = branch->Commit();
    EXPECT_TRUE(status.ok()) << ToString(status.error());
    branch->Release();
    return prepared.name;
  }

 protected:
  Broker& broker_;
  const std::string topic_;
  Folder folder_;
  std::uint64_t incarnation_ = 0;
  std::unique_ptr<Process> process_;
  KafkaCluster* cluster_ = nullptr;
};

}  // namespace lockstep::kafka::testing
