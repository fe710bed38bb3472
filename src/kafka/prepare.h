#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "kafka/interrupt.h"
#include "kafka/lane_env.h"
#include "kafka/producer.h"
#include "txn/types.h"
#include "txn/vote_check.h"

namespace lockstep::kafka {

/// One Kafka transaction from its first check to its vote, on a lane's thread. Blocks until
/// `give_up` at the latest, plus what librdkafka needs to notice (milliseconds).
///
/// A NO leaves the transaction open where it was begun: abort it.
class Preparation {
 public:
  Preparation(const LaneEnv& env, const txn::ProducerInstance& lane, Producer& producer,
              Interrupt& interrupt, const txn::BatchWork& work, MonoTime give_up);

  txn::Vote Run();
  /// Whether the producer has a transaction open now: false after a NO of the checks.
  bool begun() const { return begun_; }

 private:
  using Step = std::optional<txn::Refusal>;  ///< Why the vote is NO; nothing: go on.

  // In this order.
  Step CheckWork();
  Step CheckTopics();
  Step Begin();
  Step WriteRecords();
  Step AwaitReports();
  Step WriteOffsets();
  Step AskBroker();
  Step FindEvidence();
  Step CheckAnswered();

  /// `check` finds what is wrong with one member's work: those are the culprits, the first one's
  /// refusal is the vote's.
  Step CheckEach(const std::function<Step(const txn::BranchWork& work)>& check);
  Step CheckMember(const txn::BranchWork& work) const;
  Step CheckPartitions(const TopicCatalog::Topics& topics, bool& stale);
  Step CheckStillThere();
  /// Some records are acknowledged and nothing comes for the others.
  Step LeaveOutSlow();
  void MergeOffsets(std::size_t member);
  Step Enqueue(const txn::Record& record, std::size_t index);
  void TakeReports(Duration slice);
  Step Expired(const char* what);
  Step AtFailpoint(Failpoint point);
  txn::Vote Yes();

  txn::Refusal Refuse(txn::AbortReason reason, std::string message, bool retriable = false) const;
  txn::Refusal Refuse(const Failure& failure, const std::string& what) const;
  txn::Refusal Refuse(const Error& error, const std::string& what) const;
  txn::Refusal RefuseTopic(const std::string& name, const Topic& topic) const;
  /// The failure of the record that failed first, or the deeper one that made it fail.
  txn::Refusal RefuseDelivery(const DeliveryReport& report);
  txn::Refusal RefuseRecord(std::size_t index, const std::string& topic, const Failure& failure);
  void Blame(std::size_t member, const txn::Refusal& refusal);
  std::size_t MemberOf(std::size_t record) const;

  MonoTime Now() const { return env_.clock.Now(); }
  Duration Left() const;        ///< Until give_up; not negative.
  Duration AnswerTime() const;  ///< For one question to a broker.

  const LaneEnv& env_;
  const txn::ProducerInstance& lane_;
  Producer& producer_;
  Interrupt& interrupt_;
  const txn::BatchWork& work_;
  const MonoTime give_up_;

  /// Offsets that several members commit for one consumer group member: sent as one, the last of a
  /// partition wins.
  struct SharedOffsets {
    txn::GroupOffsets group;
    std::map<txn::TopicPartition, std::size_t> index;  // Into group.offsets.
    std::vector<std::size_t> members;
  };
  std::vector<const txn::Record*> records_;  // Of all members, in their order.
  std::vector<std::size_t> first_record_;    // Of each member.
  std::vector<SharedOffsets> offsets_;

  std::vector<std::string> topics_;  // Of records and offsets, each once.
  bool begun_ = false;
  MonoTime begun_at_{};  // Before the first request of the transaction.
  std::size_t enqueued_ = 0;
  std::size_t reported_ = 0;
  std::optional<DeliveryReport> failed_;  // The first one.
  std::vector<bool> acknowledged_;        // Each record.
  std::vector<txn::Culprit> culprits_;
  txn::Written written_;
  std::vector<txn::RecordPosition> positions_;  // If they are wanted.
  txn::TxnDescription description_;
  std::vector<txn::Evidence> evidence_;
};

}  // namespace lockstep::kafka
