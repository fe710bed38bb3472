#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "oracle.h"
#include "scheduler.h"
#include "sim_broker.h"
#include "sim_options.h"
#include "trace.h"

namespace lockstep::sim {

class SimParticipant;

/// One transactional producer, as librdkafka's behave (TV1: the epoch stays from one transaction to
/// the next).
struct Lane {
  std::string id;
  fake_kafka::Producer producer;
  std::map<txn::TopicPartition, std::int32_t> next_sequence;
  /// No request that could change a transaction is without an answer. An unclean lane gets a new
  /// epoch before its next transaction.
  bool clean = true;
  /// Its last transaction did not end in a commit whose markers are known to be written.
  bool aborted = false;
};

/// One process's view of one cluster: what src/kafka is in the real one, with the same rules.
class SimCluster final : public coordinator::Cluster {
 public:
  struct World {
    const SimOptions& options;
    Scheduler& scheduler;
    Random& random;
    const coordinator::Clock& clock;
    Trace& trace;
    Oracle& oracle;
    coordinator::DecisionLog& log;
    std::function<void()> on_log_failed;
  };

  SimCluster(World world, SimBroker& broker);

  const ClusterName& name() const override { return broker_.name(); }
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
  /// Every group lives on every cluster.
  void KnowsGroup(std::string group_id, coordinator::Callback<Result<bool>> done) override;
  void ReadMarkers(const txn::PreparedParticipant& participant,
                   coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done) override;
  void CheckMarkers(const txn::PreparedParticipant& participant,
                    coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) override;
  void RepairMarkers(const txn::PreparedParticipant& participant,
                     std::vector<txn::TopicPartition> partitions,
                     coordinator::Callback<Status> done) override;
  /// There is one log: nobody asks for orphans.
  void ListOrphans(coordinator::Callback<Result<coordinator::OrphanListing>>) override;
  void EndOrphan(coordinator::Orphan orphan, txn::Direction direction,
                 coordinator::Callback<Result<txn::TxnDescription>> done) override;

  // ---- For participants
  // --------------------------------------------------------------------------

  const World& world() const { return world_; }
  SimBroker& broker() { return broker_; }
  /// Calls TakeLane of the participant once a lane is free.
  void WantLane(SimParticipant* participant);
  void NoLongerWantsLane(SimParticipant* participant);
  /// A clean lane goes back to the pool, any other is initialised first.
  void ReturnLane(Lane* lane);
  /// As wire Describe, without a check of the cluster's id. Nothing: no answer.
  void DescribeId(const std::string& id, Life caller,
                  std::function<void(std::optional<txn::TxnDescription>)> done);

 private:
  void Touch(const std::string& id);
  bool ChecksMarkers() const;
  bool MayAsk(const txn::ParticipantName& participant) const;
  void Connect();
  void Identified(const std::string& cluster_id);
  void ListEarlier();
  void FenceEarlier(const std::vector<std::string>& ids);
  void OpenLanes();
  std::string LaneId(int slot) const;
  /// The incarnation in a lane's id; 0: not an id of ours on this cluster.
  std::uint64_t IncarnationOf(const std::string& id) const;
  std::function<fake_kafka::ProducerAnswer(FakeKafka&)> InitRequest(const std::string& id) const;
  /// InitProducerId again and again until it is done.
  void Fence(const std::string& id, std::function<void()> done);
  void Initialise(Lane* lane);
  void RetireId(Lane* lane);
  void Pool(Lane* lane);

  const World world_;
  SimBroker& broker_;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
  coordinator::ClusterState state_ = coordinator::ClusterState::kConnecting;
  KafkaClusterId kafka_cluster_id_;
  std::set<std::string> pending_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::deque<Lane*> idle_;
  std::deque<SimParticipant*> waiting_;
  int next_slot_ = 0;
};

}  // namespace lockstep::sim
