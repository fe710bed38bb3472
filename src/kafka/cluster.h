#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "kafka/cluster_registry.h"
#include "kafka/fencer.h"
#include "kafka/lane_env.h"
#include "kafka/lane_id.h"
#include "kafka/lane_pool.h"
#include "kafka/log_bridge.h"
#include "kafka/settings.h"
#include "kafka/topic_catalog.h"
#include "wire/client.h"

namespace lockstep::kafka {

/// A real Kafka cluster: coordinator::Cluster over the wire client and librdkafka's producers. See
/// docs/design/lanes.md.
///
/// Lives on the executor: made, called and destroyed there, or while it does not run; status() from
/// any thread. It joins in steps, each asked again until it succeeds: who is it, is that the one
/// that the log knows, what are its limits, which lanes of earlier incarnations are there, fence
/// them, open lanes. Then it looks after the cluster every probe_interval.
class KafkaCluster : public coordinator::Cluster,
                     public std::enable_shared_from_this<KafkaCluster> {
 public:
  /// What it uses; all must outlive it.
  struct Ports {
    coordinator::Executor& executor;
    const coordinator::Clock& clock;
    coordinator::DecisionLog& log;
    wire::IoThread& io;
    ClusterRegistry& registry;
    /// The log failed while it was to bind a cluster: nobody else may be about to write to it and
    /// notice, and the process must exit. On the log's thread.
    coordinator::Callback<Error> on_log_failed;
  };

  /// `config` must be valid (see Validate). Talks to nobody before Start.
  static std::shared_ptr<KafkaCluster> Create(ClusterConfig config, const Ports& ports);
  /// Stops its lanes without ending their transactions, and waits for their threads: at most
  /// request_timeout, usually milliseconds.
  ~KafkaCluster() override;

  const ClusterName& name() const override { return config_.name; }
  coordinator::ClusterStatus status() const override;
  void Start(std::vector<TransactionalId> pending,
             coordinator::Callback<std::string> superseded) override;
  void FencePending(TransactionalId id) override;
  std::unique_ptr<coordinator::Participant> NewParticipant() override;

  void Describe(const txn::ParticipantName& name,
                coordinator::Callback<Result<txn::TxnDescription>> done) override;
  void EndTxn(const txn::ParticipantName& name, txn::Direction direction,
              coordinator::Callback<txn::EndTxnAnswer> done) override;
  void LogEnds(std::vector<txn::TopicPartition> partitions,
               coordinator::Callback<Result<std::vector<txn::Evidence>>> done) override;
  void KnowsGroup(std::string group_id, coordinator::Callback<Result<bool>> done) override;
  void ReadMarkers(const txn::PreparedParticipant& participant,
                   coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done) override;
  void CheckMarkers(const txn::PreparedParticipant& participant,
                    coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) override;
  void RepairMarkers(const txn::PreparedParticipant& participant,
                     std::vector<txn::TopicPartition> partitions,
                     coordinator::Callback<Status> done) override;
  void ListOrphans(coordinator::Callback<Result<coordinator::OrphanListing>> done) override;
  void EndOrphan(coordinator::Orphan orphan, txn::Direction direction,
                 coordinator::Callback<Result<txn::TxnDescription>> done) override;

 private:
  KafkaCluster(ClusterConfig config, const Ports& ports);
  void MakeParts();  ///< What needs a weak pointer to this.

  // Joining and looking after, one step at a time: each ends in the next, or in Again.
  void Probe();
  void OnFacts(const Result<wire::ClusterFacts>& facts);
  void Identify(const KafkaClusterId& id);
  void Bind(const KafkaClusterId& id);
  void AskTimeout();
  void OnTimeout(const Result<std::chrono::milliseconds>& maximum);
  void ListOlderLanes();
  void OnListed(const Result<wire::TransactionListing>& listing);
  void OnSuperseded(const TransactionalId& id, const LaneId& lane);
  void OnFenceProgress();
  void Serve();
  /// The step failed, or all is done for now: probe again later.
  void Again(coordinator::ClusterState state, std::string problem);
  /// Again, in the state that follows from the error.
  void Failed(const std::string& what, const Error& error);
  void Refuse(std::string problem);

  void Publish();
  coordinator::ClusterState StateNow(std::string& problem) const;
  std::optional<txn::Refusal> Refusing() const;
  txn::Refusal WaitedInVain() const;
  Status Reached() const;
  Status MayAsk(const txn::ParticipantName& name) const;

  /// Wraps an answer: back to the executor, and only if this still lives.
  template <typename T>
  std::function<void(T)> OnExecutor(void (KafkaCluster::*then)(const T&));
  template <typename T>
  void Answer(const coordinator::Callback<T>& done, T answer);

  const ClusterConfig config_;
  const Ports ports_;
  const LogId log_id_;
  const Incarnation incarnation_;

  /// To its brokers, by whatever way.
  const std::shared_ptr<std::atomic<std::uint64_t>> requests_sent_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  wire::Client wire_;
  TopicCatalog topics_;
  LogBridge log_bridge_;
  std::shared_ptr<std::atomic<std::uint64_t>> next_slot_;
  std::shared_ptr<Fencer> fencer_;
  std::shared_ptr<LanePool> pool_;
  std::optional<LaneEnv> env_;  // Once joined.

  // Executor only.
  coordinator::ClusterState state_ = coordinator::ClusterState::kConnecting;
  std::string problem_;
  std::optional<KafkaClusterId> bound_;  // The log's binding.
  bool claimed_ = false;
  bool listed_ = false;  // Older lanes are known: joining waits for the fencer only.
  bool serving_ = false;
  bool served_before_ = false;  // A lane was available once.
  std::chrono::milliseconds transaction_timeout_{0};
  bool may_have_lost_markers_ = false;
  std::int16_t transaction_version_ = 0;
  std::atomic<bool> check_markers_{true};  // Until the brokers say what they are. Lanes read it.
  std::set<TransactionalId> pending_;
  coordinator::Callback<std::string> superseded_;

  mutable std::mutex mutex_;
  coordinator::ClusterStatus status_;  // A copy for other threads. Guarded by mutex_.
};

}  // namespace lockstep::kafka
