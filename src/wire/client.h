#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "wire/io_thread.h"

/// Kafka's protocol, as far as Lockstep needs it and librdkafka does not offer it: ending a
/// transaction by name from any process, and asking brokers what became of one.
namespace lockstep::wire {

/// How connections are secured. Plaintext for now; TLS and SASL add their settings here and their
/// handshakes in connection.h, and nothing else changes.
struct SecurityConfig {
  enum class Protocol : std::uint8_t { kPlaintext };
  Protocol protocol = Protocol::kPlaintext;
};

struct ClientOptions {
  std::vector<std::string> bootstrap;  ///< "host:port", "[v6]:port"; tried in turn.
  std::string client_id = "lockstep";
  SecurityConfig security;
  Duration connect_timeout =
      std::chrono::seconds(3);  ///< Name look-up, TCP and handshake together.
  /// Nothing answered for so long while something is asked: the connection is dropped.
  Duration request_timeout = std::chrono::seconds(10);
  Duration backoff_min =
      std::chrono::milliseconds(20);               ///< First pause before a retry or reconnect;
  Duration backoff_max = std::chrono::seconds(1);  ///< doubled each time up to this one.
  /// Unanswered requests on one connection; more wait their turn.
  std::size_t max_in_flight = 64;
  /// To one broker, opened as load demands: brokers work off a connection one request at a time.
  std::size_t max_connections = 4;
  std::size_t max_queued = 16384;  ///< Calls under way in the whole client; more are refused.
  std::size_t max_response_bytes = std::size_t{16} << 20U;  ///< A longer one closes the connection.
};

struct BrokerFacts {
  std::int32_t node_id = -1;
  std::string host;
  std::int32_t port = 0;
  bool reachable = false;
  /// The highest metadata.version its software supports, 0 if unknown: tells its release apart, see
  /// docs/design/wire.md.
  std::int16_t metadata_version_max = 0;
};

struct ClusterFacts {
  KafkaClusterId cluster_id;
  std::int16_t transaction_version = 0;  ///< Finalized feature transaction.version; 0: none.
  std::int16_t metadata_version = 0;     ///< Finalized feature metadata.version.
  std::vector<BrokerFacts> brokers;
  /// Some broker is, or may be (unreachable), Kafka 4.3 or later: it can say CompleteCommit without
  /// having written the markers (KAFKA-20734).
  bool may_lose_markers = false;
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

/// What the broker answered: never an outcome by itself (DESIGN, the EndTxn table).
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
    kNone,             ///< None up to `offset`, the partition's end when it was read.
    kOffsetOutOfRange  ///< Below the log's start, or beyond its end: nothing can be said.
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

template <typename T>
using Callback = std::function<void(Result<T>)>;

/// One Kafka cluster. Thread-safe; no call blocks.
///
/// Each call runs until its answer, an error that no retry can mend, or its timeout. Its callback
/// runs exactly once, on the IoThread, never from inside the call, and must not block. Lost
/// connections are reopened, moved coordinators and leaders are looked up again, retriable answers
/// are asked again, all inside and all with the same version and the same arguments.
///
/// Errors. A call that only asks fails with effect None. A call that changes something fails with
/// effect None only if no byte of it can have reached a broker, or every attempt got an answer that
/// rules the effect out; else Unknown. Codes: kUnavailable (no connection, or the cluster says so),
/// kDeadlineExceeded (the message has the last cause), kPermissionDenied, kUnimplemented (no common
/// version), kCorrupt (undecodable answer; the connection is dropped), kResourceExhausted
/// (max_queued), kFailedPrecondition (another cluster answers, see PinClusterId), and for error
/// codes that Kafka gives the one in errors.h.
class Client {
 public:
  /// `options.bootstrap` must not be empty. Connects at the first call.
  Client(IoThread& io, ClientOptions options);
  /// Fails what is under way with kUnavailable; returns once no callback runs or will run. Not to
  /// be called on the IoThread.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// From now on only connections to brokers of this cluster are used: each broker is asked for its
  /// cluster id right after connecting, before anything else is sent. Others are refused with
  /// kFailedPrecondition, except GetFacts, which tells the id that was found.
  void PinClusterId(KafkaClusterId id);

  /// Asks some broker for the cluster and every broker for its versions. Fails only if no broker
  /// answers; single ones that do not are marked unreachable.
  void GetFacts(Duration timeout, Callback<ClusterFacts> done);

  /// Topics that do not exist, or may not be described, come back with their error code. Never
  /// creates a topic. Not retried on leaderless partitions.
  void GetTopics(std::vector<std::string> topics, Duration timeout,
                 Callback<std::vector<TopicFacts>> done);

  /// Who coordinates it now; asks the cluster, and renews what later calls use.
  void FindCoordinator(CoordinatorType type, std::string key, Duration timeout,
                       Callback<BrokerAddress> done);

  /// Takes over the transactional.id: bumps its epoch, aborts what it left open. OK: the older
  /// producer is fenced, and any transaction of its is aborted (CONCURRENT_TRANSACTIONS is retried
  /// until it is). Changes; fails with kInvalidArgument for a timeout above the broker's maximum.
  void InitProducerId(TransactionalId id, std::chrono::milliseconds txn_timeout, Duration timeout,
                      Callback<ProducerIdentity> done);

  /// One EndTxn. TV1: the highest common version up to 4; TV2: 5, or kUnimplemented where the
  /// cluster's finalized transaction.version is below 2 (a v5 there wedges the id). With
  /// kUntilDeadline, answers that settle nothing (CONCURRENT_TRANSACTIONS, a moved coordinator) are
  /// asked again; any other answer, errors included, is returned as it came. With kOnce the first
  /// answer is returned, whatever it is. Changes.
  void EndTxn(EndTxnRequest request, Attempts attempts, Duration timeout,
              Callback<EndTxnAnswer> done);

  /// `exists` is false for TRANSACTIONAL_ID_NOT_FOUND. Partitions of topics that we may not
  /// Describe are missing without an error.
  void DescribeTransaction(TransactionalId id, Duration timeout,
                           Callback<txn::TxnDescription> done);

  /// Asks every broker. Fails only if the brokers cannot be listed. Ids that we may not Describe
  /// are missing without an error.
  void ListTransactions(ListTransactionsFilter filter, Duration timeout,
                        Callback<TransactionListing> done);

  /// The latest offsets: the high watermark, or the last stable offset for kReadCommitted. One
  /// request per leader. The answer is in the order of `partitions`, each with its own error.
  void ListOffsets(std::vector<txn::TopicPartition> partitions, Isolation isolation,
                   Duration timeout, Callback<std::vector<PartitionOffset>> done);

  /// Reads the partition (read_uncommitted) until the first control batch of the producer id. Only
  /// batch headers and control batches are decoded, so compression costs nothing.
  void FindMarker(MarkerQuery query, Duration timeout, Callback<MarkerAnswer> done);

  /// Raw WriteTxnMarkers to the partitions' leaders: the repair for markers that the coordinator
  /// left out (KAFKA-20734). Each leader is first asked for the producer's open transaction
  /// (DescribeProducers), for the broker itself checks nothing: only for what is known to be
  /// committed. Needs ClusterAction, or Alter on the cluster, and Read on the topics. Changes.
  void WriteTxnMarkers(MarkerWrite write, Duration timeout,
                       Callback<std::vector<MarkerWritten>> done);

  /// Asks as a classic and as a KIP-848 group, for DescribeGroups calls both an unknown group and a
  /// live KIP-848 one "Dead".
  void DescribeGroup(std::string group_id, Duration timeout, Callback<GroupFacts> done);

  /// The least `transaction.max.timeout.ms` of the brokers that answer. Needs DescribeConfigs on
  /// the cluster.
  void GetTransactionMaxTimeout(Duration timeout, Callback<std::chrono::milliseconds> done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::wire
