#pragma once

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
              Interrupt& interrupt, const txn::BranchWork& work, MonoTime give_up);

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

  Step CheckPartitions(const TopicCatalog::Topics& topics, bool& stale);
  Step CheckStillThere();
  Step Enqueue(const txn::Record& record, std::size_t index);
  void TakeReports(Duration slice);
  Step Expired(const char* what);
  Step AtFailpoint(Failpoint point);
  txn::Vote Yes();

  txn::Refusal Refuse(txn::AbortReason reason, std::string message, bool retriable = false) const;
  txn::Refusal Refuse(const Failure& failure, const std::string& what) const;
  txn::Refusal Refuse(const Error& error, const std::string& what) const;
  /// The failure of the record that failed first, or the deeper one that made it fail.
  txn::Refusal RefuseDelivery(const DeliveryReport& report);

  MonoTime Now() const { return env_.clock.Now(); }
  Duration Left() const;        ///< Until give_up; not negative.
  Duration AnswerTime() const;  ///< For one question to a broker.

  const LaneEnv& env_;
  const txn::ProducerInstance& lane_;
  Producer& producer_;
  Interrupt& interrupt_;
  const txn::BranchWork& work_;
  const MonoTime give_up_;

  std::vector<std::string> topics_;  // Of records and offsets, each once.
  bool begun_ = false;
  MonoTime begun_at_{};  // Before the first request of the transaction.
  std::size_t enqueued_ = 0;
  std::size_t reported_ = 0;
  std::optional<DeliveryReport> failed_;  // The first one.
  txn::Written written_;
  std::vector<txn::RecordPosition> positions_;  // If they are wanted.
  txn::TxnDescription description_;
  std::vector<txn::Evidence> evidence_;
};

}  // namespace lockstep::kafka
