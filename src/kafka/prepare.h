#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "kafka/interrupt.h"
#include "kafka/lane_env.h"
#include "kafka/producer.h"
#include "kafka/work_feed.h"
#include "txn/types.h"
#include "txn/vote_check.h"

namespace lockstep::kafka {

/// One Kafka transaction from its first check to its vote, on a lane's thread. Blocks until
/// `give_up` at the latest, plus what librdkafka needs to notice (milliseconds). Streamed work
/// comes from the feed, each piece as if it were all, and with it the time to give up.
///
/// A NO leaves the transaction open where it was begun: abort it.
class Preparation {
 public:
  Preparation(const LaneEnv& env, const txn::ProducerInstance& lane, Producer& producer,
              Interrupt& interrupt, const txn::BatchWork& work, MonoTime give_up, WorkFeed& feed);

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
  Step WriteStream();
  Step AwaitReports();
  Step WriteOffsets();
  Step AskBroker();
  Step FindEvidence();
  Step CheckAnswered();

  /// What is to be checked and written next.
  void TakeUp(std::vector<std::shared_ptr<const txn::BranchWork>> members);
  Step WritePiece(WorkFeed::Piece piece);
  void NoteAcknowledged(std::size_t record);

  /// `check` finds what is wrong with one member's work: those are the culprits, the first one's
  /// refusal is the vote's.
  Step CheckEach(const std::function<Step(const txn::BranchWork& work)>& check);
  Step CheckMember(const txn::BranchWork& work) const;
  Step CheckPartitions(const TopicCatalog::Topics& topics, bool& stale);
  /// Waits for reports for a while; looks into it if none come.
  Step TakeNews();
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
  const bool streamed_;
  WorkFeed& feed_;
  MonoTime give_up_;

  /// Offsets that several members commit for one consumer group member: sent as one, the last of a
  /// partition wins.
  struct SharedOffsets {
    txn::GroupOffsets group;
    std::map<txn::TopicPartition, std::size_t> index;  // Into group.offsets.
    std::vector<std::size_t> members;
  };
  std::vector<std::shared_ptr<const txn::BranchWork>> members_;  // Of a stream: its last piece.
  std::vector<std::size_t> first_record_;                        // Of each member.
  std::vector<SharedOffsets> offsets_;

  std::set<std::string> topics_;  // Of records and offsets, those of earlier pieces included.
  bool begun_ = false;
  MonoTime begun_at_{};  // Before the first request of the transaction.
  std::size_t enqueued_ = 0;
  std::size_t reported_ = 0;
  std::optional<DeliveryReport> failed_;  // The first one.
  MonoTime last_news_{};                  // Of the records that are under way.
  std::vector<bool> acknowledged_;        // Each record.
  std::vector<txn::Culprit> culprits_;
  txn::Written written_;
  std::vector<txn::RecordPosition> positions_;  // If they are, or may be, wanted.
  struct SentPiece {
    std::size_t end;   // Behind its last record.
    std::size_t left;  // Not acknowledged.
    coordinator::Callback<> written;
  };
  std::deque<SentPiece> sent_;  // Of a stream: those that are not acknowledged, and later ones.
  txn::TxnDescription description_;
  std::vector<txn::Evidence> evidence_;
};

}  // namespace lockstep::kafka
