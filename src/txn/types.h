#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

/// The vocabulary of the protocol: plain values, no I/O. Kafka's words for Kafka's things.
namespace lockstep::txn {

// ---- What a managed branch writes ---------------------------------------------------------------

struct TopicPartition {
  std::string topic;
  std::int32_t partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
};
std::string ToString(const TopicPartition& tp);  ///< "orders-3", as Kafka's own tools print it.

struct Header {
  std::string key;
  std::optional<std::string> value;  ///< Null and empty are different in Kafka.
};

struct Record {
  std::string topic;
  std::optional<std::int32_t> partition;  ///< None: the Java client's default partitioner decides.
  std::optional<std::string> key;         ///< Null and empty are different.
  std::optional<std::string> value;       ///< Null is a tombstone.
  std::vector<Header> headers;
  std::optional<std::int64_t> timestamp_ms;  ///< None: the time of sending.
};

/// Bytes a record weighs against the buffer limits: payload and a flat share for its bookkeeping.
std::size_t Weight(const Record& record);

struct OffsetToCommit {
  TopicPartition partition;
  std::int64_t offset = 0;
  std::int32_t leader_epoch = -1;  ///< -1: not known.
  std::string metadata;
};

/// Consumer offsets that commit with the transaction (KIP-447). The broker fences a stale
/// generation or member only if they are passed, so `standalone` must be said explicitly.
struct GroupOffsets {
  std::string group_id;
  std::int32_t generation = -1;
  std::string member_id;
  std::optional<std::string> group_instance_id;
  bool standalone = false;  ///< No generation or member: the caller vouches for being alone.
  std::vector<OffsetToCommit> offsets;
};

/// What one branch asks of one cluster, in the order in which it was asked.
struct BranchWork {
  std::vector<Record> records;
  std::vector<GroupOffsets> offsets;
  bool want_positions = false;  ///< The vote shall tell where each record was written.
  bool empty() const { return records.empty() && offsets.empty(); }
};

/// What a batch writes on one cluster: its members' work, in the order of their commits. Never
/// changed any more, and shared: what another member spoils is tried again.
struct BatchWork {
  std::vector<std::shared_ptr<const BranchWork>> members;
  /// Of a large transaction, alone in its batch: the work comes later, piece by piece.
  bool streamed = false;
};

// ---- A participant, and how the brokers know it ----------------------------------------------

/// Which versions of EndTxn end this participant. Never mixed on one participant: the answers of
/// the other column lie (the table in docs/design/protocol.md).
enum class EndTxnProtocol : std::uint8_t {
  kTv1,  ///< EndTxn v0-4: the epoch stays. librdkafka, always.
  kTv2,  ///< EndTxn v5 (KIP-890): each end bumps the epoch.
};

/// One Kafka transaction on one cluster, named so that it can be ended from any process. Under
/// TV1 (producer id, epoch) names many transactions in a row, so the broker's start time is part
/// of the name.
struct ParticipantName {
  ClusterName cluster;
  KafkaClusterId kafka_cluster_id;
  TransactionalId transactional_id;
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
  EndTxnProtocol protocol = EndTxnProtocol::kTv1;
  std::int64_t start_time_ms = -1;  ///< DescribeTransactions' start time: the broker's clock.
  friend bool operator==(const ParticipantName&, const ParticipantName&) = default;
};

/// A transactional producer, as its brokers know it: a later instance of the id, or a fence or
/// time-out of it, has another epoch, or another producer id.
struct ProducerInstance {
  TransactionalId transactional_id;
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
  friend bool operator==(const ProducerInstance&, const ProducerInstance&) = default;
};

/// Where a partition's end-of-transaction marker will be looked for: at or after this offset, which
/// lies between the participant's last write there and its marker. Control batches outlive
/// compaction, records do not.
struct Evidence {
  TopicPartition partition;
  std::int64_t offset = 0;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

/// What a YES vote says, and what the decision keeps of a participant.
struct PreparedParticipant {
  ParticipantName name;
  std::vector<Evidence> evidence;  ///< One per partition written, group offsets included.
  WallTime deadline;               ///< When the broker may abort it, for people and logs only.
  /// The client's own producer opened it: its id is never initialised by us.
  bool enlisted = false;
  friend bool operator==(const PreparedParticipant&, const PreparedParticipant&) = default;
};

/// The Kafka transaction of a client's own producer that a global one is to end: logged before its
/// first write, so that after our crash an undecided one is aborted at once. Its name has no start
/// time: nothing has begun.
struct Enlistment {
  GlobalTxnId txn;
  ParticipantName name;
  friend bool operator==(const Enlistment&, const Enlistment&) = default;
};

// ---- Outcomes --------------------------------------------------------------------------------

enum class GlobalTxnState : std::uint8_t {
  kActive,      ///< Takes work.
  kPreparing,   ///< Commit was asked; no decision. May still abort.
  kCommitting,  ///< Decided COMMIT, durably; some participant is not yet known complete.
  kCommitted,   ///< Every participant is known to be committed.
  kAborting,    ///< Will never commit; some participant may not have been told yet.
  kAborted,
  kHeuristic,  ///< Decided COMMIT, and some participant is known aborted, or cannot be known.
};
std::string_view Name(GlobalTxnState state);

/// How one participant ended, as far as it is known.
enum class ParticipantOutcome : std::uint8_t {
  kPending,    ///< Not known yet: being asked.
  kCommitted,  ///< Known.
  kAborted,    ///< Known.
  kUnknown,    ///< Cannot be known any more: no evidence is left.
};
std::string_view Name(ParticipantOutcome outcome);

enum class Direction : std::uint8_t { kCommit, kAbort };

/// Why a global transaction aborted, or why a branch refused. The client sees it.
enum class AbortReason : std::uint8_t {
  kNone,
  kClientAbort,         ///< Abort was called.
  kTxnTimeout,          ///< The global transaction's own timeout passed before the decision.
  kShutdown,            ///< lockstepd stopped before the decision.
  kClusterUnavailable,  ///< The cluster did not answer in time.
  kClusterMismatch,     ///< The address answers with another Kafka cluster id than the known one.
  kUnknownTopic,        ///< The topic does not exist (and is not created by us).
  kUnknownPartition,    ///< The topic has no such partition.
  kRecordTooLarge,      ///< The broker, or the producer's limit, refuses the record's size.
  kInvalidRecord,       ///< The broker refuses the record for another reason of its own.
  kNotAuthorized,       ///< An ACL is missing.
  kGroupFenced,         ///< Stale generation, unknown member, or a group that is not there.
  kProducerFenced,      ///< Someone else took the transactional.id, or the broker aborted it.
  kDeadlineTooClose,    ///< Kafka's transaction timeout was too near to promise COMMIT.
  kVoteMismatch,        ///< The broker's view of the transaction is not what we wrote.
  kInternal,
};
std::string_view Name(AbortReason reason);
/// It lies in what was asked of the cluster: without that, the other members of the batch may
/// commit.
bool LiesInWork(AbortReason reason);

struct Refusal {
  AbortReason reason = AbortReason::kNone;
  ClusterName cluster;     ///< Empty where no cluster is to blame.
  std::string message;     ///< Names the thing and the way out.
  bool retriable = false;  ///< The same transaction, begun anew, may well succeed.
};

/// A member without which its batch may commit.
struct Culprit {
  std::size_t member = 0;  ///< Index into the batch's members.
  Refusal refusal;         ///< Its own.
  /// Not known to be at fault, but what the others would wait for: it may commit by itself.
  bool slow = false;
};

/// Where one record was written.
struct RecordPosition {
  std::int32_t partition = 0;
  std::int64_t offset = -1;  ///< -1: the broker did not tell.
  friend bool operator==(const RecordPosition&, const RecordPosition&) = default;
};
/// One for each record of a branch, in their order. Shared: it may be long, and is never changed.
using Positions = std::shared_ptr<const std::vector<RecordPosition>>;

/// One participant's vote. YES only if every record was delivered, and the broker says Ongoing
/// under the expected name with the partitions we wrote (docs/design/protocol.md, "Prepare").
struct Vote {
  enum class Kind : std::uint8_t { kYes, kReadOnly, kNo };
  Kind kind = Kind::kNo;
  PreparedParticipant prepared;   ///< kYes only.
  MonoTime deadline;              ///< kYes only: the broker keeps it open at least until then.
  Positions positions;            ///< kYes only, if they were wanted.
  Refusal refusal;                ///< kNo only.
  std::vector<Culprit> culprits;  ///< kNo only: whose fault it is, as far as that is known.
};

// ---- What the log keeps -------------------------------------------------------------------------

/// What an operator may say of a decided participant whose outcome is pending. An order changes
/// what the resolution does next; what a broker proves still wins.
enum class OrderKind : std::uint8_t {
  kCommit,            ///< Have the broker commit it, as decided; takes an earlier kAbort back.
  kAbort,             ///< Against the decision: have the broker abort it.
  kDeclareCommitted,  ///< No broker is left to ask: take it for committed.
  kDeclareAborted,    ///< The same, for aborted.
  kDeclareUnknown,    ///< The same, for not to be known.
};
std::string_view Name(OrderKind kind);

struct OperatorOrder {
  OrderKind kind = OrderKind::kCommit;
  bool forced = false;
  std::string who;
  std::string why;
  WallTime given_at;
  friend bool operator==(const OperatorOrder&, const OperatorOrder&) = default;
};
/// "ABORT by an operator (ann): the topic was restored from a backup".
std::string ToString(const OperatorOrder& order);
/// The outcome that an order declares; none for those that a broker is to carry out.
std::optional<ParticipantOutcome> DeclaredOutcome(OrderKind kind);

struct DecidedParticipant {
  PreparedParticipant prepared;
  ParticipantOutcome outcome = ParticipantOutcome::kPending;
  std::optional<OperatorOrder> order;  ///< The latest, if any.
  friend bool operator==(const DecidedParticipant&, const DecidedParticipant&) = default;
};

/// A client's name for one whole piece of work, run at most once (Coordinator::Submit).
struct ClientKey {
  std::string key;
  WallTime birth;      ///< When the client made it, by its own clock (rule M18).
  std::string digest;  ///< Of the work that it stands for.
  friend bool operator==(const ClientKey&, const ClientKey&) = default;
};

/// The key under which a member of a decision was run.
struct MemberKey {
  std::uint32_t member = 0;  ///< Index into the decision's members.
  ClientKey key;
  friend bool operator==(const MemberKey&, const MemberKey&) = default;
};

/// A durable COMMIT decision over one batch. No record of a transaction means ABORT.
struct Decision {
  BatchId batch;
  WallTime decided_at;
  std::vector<GlobalTxnId> members;
  std::vector<MemberKey> keys;  ///< Of the members that have one.
  std::vector<DecidedParticipant> participants;
  bool acknowledged = false;  ///< An operator has seen a HEURISTIC outcome.
  friend bool operator==(const Decision&, const Decision&) = default;

  bool complete() const;   ///< No participant is pending.
  bool heuristic() const;  ///< Complete, and not everywhere committed.
};

/// The state that a decision's members have.
GlobalTxnState StateOf(const Decision& decision);

}  // namespace lockstep::txn
