#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "txn/resolve.h"
#include "wire/io_thread.h"
#include "wire/rights.h"
#include "wire/types.h"

/// Kafka's protocol, as far as Lockstep needs it and librdkafka does not offer it: ending a
/// transaction by name from any process, and asking brokers what became of one.
namespace lockstep::wire {

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
/// (max_queued, max_response_bytes), kFailedPrecondition (another cluster answers, see
/// PinClusterId), and for error codes that Kafka gives the one in errors.h.
class Client {
 public:
  /// Connects at the first call. Without a bootstrap address, or with one that is not an address,
  /// every call fails with kInvalidArgument.
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

  // For `lockstepctl check`.

  /// What we may do with the cluster and these topics, as far as we may Describe them.
  void GetRights(std::vector<std::string> topics, Duration timeout, Callback<Rights> done);
  /// kPermissionDenied: not even Describe. The group need not exist.
  void GetGroupRights(std::string group_id, Duration timeout, Callback<Operations> done);
  /// kPermissionDenied: not even Describe, or not Write. Asks for the id's coordinator and ends a
  /// transaction that cannot be: nothing is begun, written or remembered.
  void TryTransactionalId(TransactionalId id, Duration timeout, Callback<Operations> done);
  /// Of each broker. Needs DescribeConfigs on the cluster.
  void GetBrokerSettings(std::vector<std::string> names, Duration timeout,
                         Callback<std::vector<BrokerSettings>> done);
  /// Needs Describe on the cluster.
  void GetControllerTime(Duration timeout, Callback<ControllerTime> done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::wire
