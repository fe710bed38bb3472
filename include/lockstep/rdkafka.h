#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/client.h"

/// librdkafka's producers and consumers in global transactions. The records go straight to the
/// brokers; Lockstep ends the transactions. All that lockstep/enlist.h asks of an application is
/// kept in here.
///
///   rdkafka::Producer east({.cluster = "east", .transactional_id = "orders-0", .conf = EastConf});
///   for (...) {
///     auto txn = rdkafka::Transaction::Begin(client, {&east});
///     east.Produce({.topic = "orders", .value = "v"});     // Straight to the broker.
///     txn->Produce("west", {.topic = "orders", .value = "v"});  // Through Lockstep.
///     auto result = txn->Commit();
///   }
namespace lockstep::rdkafka {

struct ProducerOptions {
  std::string cluster;           ///< Its name in the server's configuration.
  std::string transactional_id;  ///< This producer's alone: whoever initialises it last owns it.
  /// Makes a new configuration, which is then ours, for each instance. Required. Called within
  /// Transaction::Begin. Overridden in it: transactional.id, transaction.timeout.ms, the delivery
  /// callback, delivery.report.only.error. Its opaque and other callbacks stay yours; they are
  /// called within this header's calls.
  std::function<rd_kafka_conf_t*()> conf;
  /// The brokers abort an open transaction after so long, a decided one too if Lockstep is away:
  /// at most their transaction.max.timeout.ms, which is this by default.
  std::chrono::milliseconds transaction_timeout = std::chrono::minutes(15);
  /// Each record's delivery report, of those whose instance lives to get it. `_private` is not for
  /// you. Called within the calls of Producer and Transaction.
  std::function<void(const rd_kafka_message_t&)> on_delivery;
};

/// A transactional producer of the application's own: make one and use it for one transaction after
/// the other. The rd_kafka_t within is made by Transaction::Begin, and made anew whenever it must
/// be: then Begin takes longer. One thread at a time, the same as its transaction's. Outlives it.
class Producer {
 public:
  explicit Producer(ProducerOptions options);
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// Queues a record of the open transaction: blocks where the queue is full, and for the metadata
  /// of a topic's first record. Whether it was delivered is Commit's concern: kAborted if it was
  /// not. After an error the transaction goes on without the record, unless the error is
  /// kWrongState or kFenced: then there is none open, or it can only abort.
  client::Status Produce(const client::Record& record, client::Timeout timeout = {});

  /// Adds consumer offsets of a group on this producer's own cluster (elsewhere:
  /// Transaction::SendOffsets). Blocks for the broker. After an error the transaction can only
  /// abort.
  client::Status SendOffsets(const client::GroupOffsets& offsets, client::Timeout timeout = {});

  /// The instance of now, for metadata and the like; null before the first Begin. Not for
  /// producing, polling or ending anything. Valid until the next Begin, or end of a transaction.
  rd_kafka_t* handle() const;

 private:
  friend class Transaction;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A client::Transaction together with the transactions of enlisted producers. Destroyed before
/// Commit or Abort it aborts, for which it blocks for some seconds at most. One thread at a time.
/// Movable; a moved-from one may only be destroyed or assigned to. Outlives neither its producers
/// nor its client.
class Transaction {
 public:
  /// Begins one in which each of these producers, of different clusters, may write. Makes,
  /// registers and initialises those that need it. After an error nothing is open.
  static client::Result<Transaction> Begin(client::Client& client,
                                           const std::vector<Producer*>& producers,
                                           const client::BeginOptions& options = {},
                                           client::Timeout timeout = {});
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  ~Transaction();

  const std::string& id() const;

  /// Managed work, on clusters of which no producer is enlisted: as client::Transaction's.
  client::Status Produce(const std::string& cluster, client::Record record,
                         client::Timeout timeout = {});
  client::Status ProduceAll(const std::string& cluster, std::vector<client::Record> records,
                            client::Timeout timeout = {});
  client::Status SendOffsets(const std::string& cluster, const client::GroupOffsets& offsets,
                             client::Timeout timeout = {});

  /// Flushes, commits everywhere or nowhere, and has the producers follow. OK is kCommitted,
  /// kAborted or kHeuristic on every cluster, whatever became of a producer. Where a record was not
  /// acknowledged it aborts: kAborted, and Abort::message says which.
  ///
  /// After an error with Effect::kUnknown it may be committed: call Commit again, as long as it
  /// takes. If you give up, the producers are made anew at their next Begin, and what is decided is
  /// carried out all the same.
  client::Result<client::TxnResult> Commit(client::Timeout timeout = {});

  /// Aborts everywhere, unless Commit was called before and COMMIT is decided: then the outcome
  /// says so. After an error with Effect::kUnknown: as Commit.
  client::Result<client::TxnResult> Abort(client::Timeout timeout = {});

 private:
  class Impl;
  explicit Transaction(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---- Consume, process, produce
// --------------------------------------------------------------------
//
// For a consumer with enable.auto.commit=false that is subscribed, on the thread that polls it.

struct MessageDestroyer {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using Message = std::unique_ptr<rd_kafka_message_t, MessageDestroyer>;

/// What one transaction is about.
struct Batch {
  std::vector<Message> messages;
  /// The consumer's membership when the first of them arrived: if the group rebalances after that,
  /// the offsets are refused.
  client::ConsumerGroup group;
};

/// Up to `most` messages: waits for the first, and takes those that are there then. None: nothing
/// came. Errors of the consumer are for its own callbacks.
Batch Poll(rd_kafka_t* consumer, std::size_t most, std::chrono::milliseconds wait);

/// The offsets behind these messages, for SendOffsets. They carry what fences the consumer should
/// its group have moved on, and the cluster that it reads from. The batch is not empty.
client::Result<client::GroupOffsets> OffsetsOf(rd_kafka_t* consumer, const Batch& batch,
                                               client::Timeout timeout = {});

/// Has the consumer go back to what its group has committed, after a transaction over these
/// messages has aborted. Partitions that it has lost meanwhile are their new owner's. Blocks for
/// the broker; repeat it after an error.
client::Status Rewind(rd_kafka_t* consumer, const Batch& batch, client::Timeout timeout = {});

}  // namespace lockstep::rdkafka
