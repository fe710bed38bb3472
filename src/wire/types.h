#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "txn/resolve.h"
#include "txn/types.h"
#include "wire/errors.h"
#include "wire/security.h"

/// What goes into Client's calls and comes out of them: plain values.
namespace lockstep::wire {

struct ClientOptions {
  std::vector<std::string> bootstrap;  ///< "host:port", "[v6]:port"; tried in turn.
  std::string client_id = "lockstep";
  SecurityConfig security;
  /// Name look-up, TCP and handshake together.
  Duration connect_timeout = std::chrono::seconds(3);
  /// Nothing answered for so long while something is asked: the connection is dropped.
  Duration request_timeout = std::chrono::seconds(5);
  /// The first pause before a retry or a reconnect; doubled each time, up to the second one.
  Duration backoff_min = std::chrono::milliseconds(20);
  Duration backoff_max = std::chrono::seconds(1);
  /// The same, after a broker refused us, or we it: no storm of log-ins that an operator must mend
  /// first, and whose account may be locked by them. Over at once when a file of `security`
  /// changes.
  Duration refused_backoff_min = std::chrono::seconds(1);
  Duration refused_backoff_max = std::chrono::seconds(30);
  /// Unanswered requests on one connection, at least 1; more wait their turn.
  std::size_t max_in_flight = 64;
  /// To one broker, opened as load demands: brokers work off a connection one request at a time.
  std::size_t max_connections = 4;
  /// Calls under way in the whole client; more are refused.
  std::size_t max_queued = 16384;
  /// A longer answer closes the connection.
  std::size_t max_response_bytes = std::size_t{16} << 20U;
  /// Counts every request that is sent; may be null.
  std::shared_ptr<std::atomic<std::uint64_t>> requests_sent;
};

struct BrokerFacts {
  std::int32_t node_id = -1;
  std::string host;
  std::int32_t port = 0;
  bool reachable = false;
  /// The highest metadata.version its software supports, 0 if unknown: tells its release apart, see
  /// docs/design/wire.md.
  std::int16_t metadata_version_max = 0;
  std::string release;  ///< For people: "Kafka 4.4", "Kafka 4.4 or later"; empty if unknown.
};

struct ClusterFacts {
  KafkaClusterId cluster_id;
  std::int16_t transaction_version = 0;  ///< Finalized feature transaction.version; 0: none.
  std::int16_t metadata_version = 0;     ///< Finalized feature metadata.version.
  std::vector<BrokerFacts> brokers;
  /// Some broker is, or may be (unreachable), Kafka 4.3 or later: it can say CompleteCommit without
  /// having written the markers (KAFKA-20734).
  bool may_lose_markers = false;
  /// Some broker is Kafka 4.3 or later: it refuses a SCRAM client whose last message does not
  /// repeat the whole nonce.
  bool checks_scram_nonce = false;
};

struct PartitionFacts {
  txn::TopicPartition partition;
  ErrorCode error = ErrorCode::kNone;  ///< E.g. UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE.
  std::int32_t leader = -1;            ///< -1: none.
};

struct TopicFacts {
  std::string topic;
  ErrorCode error = ErrorCode::kNone;  ///< E.g. UNKNOWN_TOPIC_OR_PARTITION: then no partitions.
  std::vector<PartitionFacts> partitions;
};

struct BrokerAddress {
  std::int32_t node_id = -1;
  std::string host;
  std::int32_t port = 0;
};

enum class CoordinatorType : std::int8_t { kGroup = 0, kTransaction = 1 };

struct ProducerIdentity {
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
};

/// Whether retriable answers and lost connections are tried again, with the same version and the
/// same arguments, until the deadline.
enum class Attempts : std::uint8_t { kUntilDeadline, kOnce };

struct EndTxnRequest {
  TransactionalId transactional_id;
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
  txn::Direction direction = txn::Direction::kAbort;
  txn::EndTxnProtocol protocol = txn::EndTxnProtocol::kTv1;
};

/// What the broker answered: never an outcome by itself (docs/design/protocol.md).
struct EndTxnAnswer {
  ErrorCode error = ErrorCode::kNone;
  std::int16_t version = 0;   ///< The request's: it decides what the answer means.
  ProducerIdentity identity;  ///< v5, and NONE: the identity from now on. Else as sent.
  /// An earlier attempt of this call got no answer: it may still arrive, and end a later
  /// transaction of the id (KAFKA-17754) unless its epoch changes first.
  bool unanswered_before = false;
};

struct ListTransactionsFilter {
  std::vector<txn::KafkaTxnState> states;  ///< Empty: all.
  std::string id_prefix;                   ///< Compared here, not by the brokers. Empty: all.
};

struct ListedTransaction {
  TransactionalId transactional_id;
  ProducerId producer_id;
  txn::KafkaTxnState state = txn::KafkaTxnState::kUnknown;
};

struct BrokerFailure {
  BrokerAddress broker;
  Error error;
};

/// Every broker's part, merged. Not complete while `failures` is not empty.
struct TransactionListing {
  std::vector<ListedTransaction> transactions;
  std::vector<BrokerFailure> failures;
};

enum class Isolation : std::int8_t { kReadUncommitted = 0, kReadCommitted = 1 };

/// One partition's latest offset, or why it is not known.
struct PartitionOffset {
  txn::TopicPartition partition;
  Result<std::int64_t> offset;
};

struct MarkerQuery {
  txn::TopicPartition partition;
  std::int64_t from_offset = 0;
  ProducerId producer_id;
  /// Gives up with kResourceExhausted after reading so much.
  std::size_t max_bytes = std::size_t{256} << 20U;
};

/// The first control batch of the producer id at or after the query's offset.
struct MarkerAnswer {
  enum class Kind : std::uint8_t {
    kCommit,
    kAbort,
    kNone,              ///< None up to `offset`, the partition's end when it was read.
    kOffsetOutOfRange,  ///< Below the log's start, or beyond its end: nothing can be said.
  };
  Kind kind = Kind::kNone;
  std::int64_t offset = -1;      ///< The marker's; see kNone.
  ProducerEpoch producer_epoch;  ///< The marker's.
};

struct MarkerWrite {
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
  txn::Direction direction = txn::Direction::kCommit;
  /// Where: only if the producer's open transaction there began at or before the offset.
  std::vector<txn::Evidence> evidence;
};

/// One partition's answer to WriteTxnMarkers. kFailedPrecondition, effect None: the producer has no
/// open transaction there that covers the evidence, so nothing was written.
struct MarkerWritten {
  txn::TopicPartition partition;
  Status status;
};

struct GroupMember {
  std::string member_id;
  std::optional<std::string> instance_id;
  std::int32_t epoch = -1;  ///< KIP-848 groups only.
};

struct GroupFacts {
  bool exists = false;
  bool consumer_protocol = false;  ///< A KIP-848 group; false: classic.
  std::string state;               ///< As the broker words it, e.g. "Stable", "Empty".
  std::int32_t group_epoch = -1;   ///< KIP-848 only: classic generations cannot be asked for.
  std::vector<GroupMember> members;
};

}  // namespace lockstep::wire
