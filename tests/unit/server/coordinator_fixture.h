#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "fakes.h"
#include "server/thread_executor.h"

/// The coordinator alone, over fakes.
namespace lockstep::server {

using Answer = std::future<Result<coordinator::TxnView>>;

class CoordinatorFixture : public testing::Test {
 protected:
  ~CoordinatorFixture() override { executor_.Stop(); }

  void Start() {
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        options_, executor_, clock_, log_, std::vector<coordinator::Cluster*>{&east_, &west_},
        [](const Error& error) { FAIL() << error.message; });
    ASSERT_TRUE(coordinator_->Start().ok());
  }

  template <typename T, typename Call>
  std::future<T> Ask(const Call& call) {
    auto promise = std::make_shared<std::promise<T>>();
    call([promise](T answer) { promise->set_value(std::move(answer)); });
    return promise->get_future();
  }
  GlobalTxnId Begin(Duration timeout = std::chrono::seconds(60)) {
    return Ask<Result<coordinator::TxnView>>(
               [&](auto done) { coordinator_->Begin(timeout, "", done); })
        .get()
        ->id;
  }
  void Add(const GlobalTxnId& id, const std::string& cluster, std::uint64_t sequence,
           const std::string& value, const std::string& topic = "orders") {
    txn::BranchWork work;
    work.records.push_back({.topic = topic, .value = value});
    auto status = Ask<Status>([&](auto done) {
      coordinator_->AddWork(id, ClusterName(cluster), work, sequence, std::nullopt, done);
    });
    ASSERT_TRUE(status.get().ok());
  }
  /// Begun, with one record on each cluster.
  GlobalTxnId BeginWithWork(const std::string& value, const std::string& topic = "orders",
                            Duration timeout = std::chrono::seconds(60)) {
    const GlobalTxnId id = Begin(timeout);
    Add(id, "east", 0, value, topic);
    Add(id, "west", 1, value);
    return id;
  }
  Answer Commit(const GlobalTxnId& id, coordinator::CommitOptions options = {}) {
    return Ask<Result<coordinator::TxnView>>(
        [&](auto done) { coordinator_->Commit(id, options, done); });
  }
  Answer Commit(const std::string& value, const std::string& topic = "orders") {
    return Commit(BeginWithWork(value, topic));
  }
  /// A transaction whose batch writes on both clusters until LetHeld or LetVotes.
  Answer CommitHeld(const std::string& value) {
    east_.HoldVotes(true);
    west_.HoldVotes(true);
    Answer answer = Commit(value);
    AwaitHeld(1);
    return answer;
  }
  void AwaitHeld(std::size_t votes) const {
    while (east_.held_votes() < votes || west_.held_votes() < votes) std::this_thread::yield();
  }
  /// Those that are held; later ones are held too.
  void LetHeld() {
    // What was asked for before is under way.
    Ask<std::vector<coordinator::InDoubtView>>([&](auto done) {
      coordinator_->ListInDoubt(done);
    }).wait();
    east_.LetHeldVotes();
    west_.LetHeldVotes();
  }
  void LetVotes() {
    east_.HoldVotes(false);
    west_.HoldVotes(false);
    LetHeld();
  }
  static txn::GlobalTxnState StateOf(Answer& answer) { return answer.get()->state; }

  ThreadExecutor executor_;
  SystemClock clock_;
  FakeLog log_{executor_};
  FakeCluster east_{"east", executor_};
  FakeCluster west_{"west", executor_};
  coordinator::CoordinatorOptions options_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

inline FakeCluster::Behaviour Refusing(txn::AbortReason reason, const std::string& bad_topic) {
  FakeCluster::Behaviour behaviour;
  behaviour.refusal = {reason, ClusterName("east"), "it is bad", false};
  behaviour.bad_topic = bad_topic;
  return behaviour;
}

}  // namespace lockstep::server
