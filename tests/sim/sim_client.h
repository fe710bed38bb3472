#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "sim_caller.h"

namespace lockstep::sim {

class World;

/// An application: begins transactions, adds work, commits, aborts, does both at once, repeats
/// itself, or is never heard of again; or has whole transactions done under a key (sim_execute.cc).
/// It asks until it knows the outcome.
class SimClient : private SimCaller {
 public:
  SimClient(World& world, int number) : SimCaller(world), number_(number) {}
  SimClient(const SimClient&) = delete;
  SimClient& operator=(const SimClient&) = delete;

  void Start();
  /// One transaction over all clusters, which must commit.
  void StartLast();
  /// Begins nothing any more.
  void Stop() { stopped_ = true; }
  bool done() const { return done_; }

 private:
  using View = Result<coordinator::TxnView>;

  void NextTxn();
  void Begin();
  void Begun(const View& view);
  void AddWork();
  void Finish();
  void Commit();
  void Abort();
  void Get();
  void Answered(const View& view);
  using SubmitAnswer = std::function<void(const Result<coordinator::Submitted>&)>;
  void NewKey();
  void Execute();
  /// A call under the key, with work on these clusters.
  void Submit(coordinator::Coordinator& coordinator, const txn::ClientKey& key,
              const std::vector<ClusterName>& clusters, const SubmitAnswer& done);
  void Executed(const Result<coordinator::Submitted>& answer);
  void AnsweredFinally(bool committed);
  coordinator::CommitOptions SomeCommitOptions();
  std::vector<ClusterName> SomeClusters();
  std::optional<KafkaClusterId> SomeExpectedCluster(const ClusterName& cluster);
  /// `whose`: the first word of its tags, which are added to `tags`.
  txn::BranchWork SomeWork(const std::string& whose, const ClusterName& cluster,
                           std::vector<std::string>& tags);
  std::string NewTag(const std::string& whose, const ClusterName& cluster,
                     std::vector<std::string>& tags);

  const int number_;
  bool stopped_ = false;
  bool done_ = false;
  bool must_commit_ = false;
  int txns_left_ = 0;
  GlobalTxnId id_;
  std::uint64_t next_sequence_ = 0;
  std::vector<ClusterName> branches_;  // Clusters of the calls still to make.
  int tags_ = 0;
  bool keyed_ = false;  // What is under way is under key_.
  txn::ClientKey key_;
  int keys_ = 0;
  int calls_of_key_ = 0;
  int submits_ = 0;
};

}  // namespace lockstep::sim
