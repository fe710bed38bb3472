#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "sim_cluster.h"

namespace lockstep::sim {

/// One managed Kafka transaction on one lane: begin, AddPartitionsToTxn, Produce, offsets, vote,
/// EndTxn, with librdkafka's retries.
class SimParticipant final : public coordinator::Participant {
 public:
  explicit SimParticipant(SimCluster& cluster) : cluster_(cluster) {}
  ~SimParticipant() override;

  void Prepare(txn::BatchWork work, MonoTime give_up,
               coordinator::Callback<txn::Vote> vote) override;
  void Write(txn::BranchWork piece, coordinator::Callback<> written) override;
  void Finish(MonoTime give_up, bool want_positions) override;
  void Commit(coordinator::Callback<Status> done) override;
  void Abort(coordinator::Callback<bool> done) override;
  void Release() override;

  void TakeLane(Lane* lane);

 private:
  template <typename R>
  void Ask(const std::string& what, std::function<R(FakeKafka&)> request,
           std::function<void(R)> answered);
  void Unanswered();
  void GiveUpAt(MonoTime time);
  void TakeUp(const txn::BranchWork& work);
  void NextPiece();
  void Delivered();
  void AddPartitions();
  void Produce();
  bool VotesUnflushed() const;
  void ProduceTo(const txn::TopicPartition& partition, const std::vector<std::string>& values);
  void SendOffsets(std::size_t group);
  void CommitOffsets(std::size_t group);
  void FindOffsetsEvidence();
  void DescribeAndVote();
  void Judge(const txn::TxnDescription& description);
  void VoteYes(std::int64_t start_time_ms);
  /// Handles an error of a request that writes: true if it was one.
  bool Failed(fake_kafka::KafkaError error, std::function<void()> again);
  void Refuse(txn::AbortReason reason, const std::string& message);
  /// Whose fault it is: told, or left to be found out.
  std::vector<txn::Culprit> Culprits(const txn::Refusal& refusal) const;
  void TellVote(txn::Vote vote);
  bool preparing() const { return vote_ != nullptr && !stopped_; }

  void SendCommit(int attempts_left, coordinator::Callback<Status> done);
  void SendAbort(coordinator::Callback<> done);
  Life life() const { return life_; }

  SimCluster& cluster_;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
  txn::BatchWork work_;
  std::vector<txn::GroupOffsets> offsets_;  // Of all members, or pieces, in their order.
  coordinator::Callback<txn::Vote> vote_;   // Null once it voted, or may not any more.
  Lane* lane_ = nullptr;
  MonoTime begun_{};
  bool stopped_ = false;         // No more requests of the preparation.
  bool in_transaction_ = false;  // The broker said that a partition was added.
  int in_flight_ = 0;            // Requests that may change the transaction, still waited for.
  bool unanswered_ = false;      // One of them was given up.
  struct Piece {
    txn::BranchWork work;
    coordinator::Callback<> written;
  };
  std::deque<Piece> pieces_;  // Of a stream: the first one is being written.
  bool waits_for_piece_ = false;
  bool finished_ = false;
  // Of the work, or of the piece that is being written.
  std::map<txn::TopicPartition, std::vector<std::string>> records_;
  std::size_t undelivered_ = 0;  // Partitions without a delivery report.
  std::map<txn::TopicPartition, std::int64_t> evidence_;
};

}  // namespace lockstep::sim
