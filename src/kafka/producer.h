#pragma once

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "kafka/errors.h"
#include "kafka/log_bridge.h"
#include "kafka/request_ledger.h"
#include "kafka/settings.h"
#include "kafka/topic_catalog.h"
#include "txn/types.h"

namespace lockstep::kafka {

/// What became of one record.
struct DeliveryReport {
  std::size_t record = 0;  ///< As given to Produce.
  txn::TopicPartition partition;
  std::int64_t offset = -1;        ///< -1: delivered, but librdkafka does not know where.
  std::optional<Failure> failure;  ///< None: every in-sync replica has it.
};

/// One transactional producer of librdkafka. Owned and called by one lane's thread; Wake may be
/// called from any. Calls block for at most the time that they are given.
///
/// Calls return what went wrong, or nothing. InitTransactions, CommitTransaction and
/// AbortTransaction go on in the background after a retriable failure: call again to wait on.
class Producer {
 public:
  /// Starts librdkafka's threads (4 or so); talks to nobody yet. `log` must outlive it, and so must
  /// `requests`, to which every request is added that it sends.
  static Result<std::unique_ptr<Producer>> Create(const ClusterConfig& config,
                                                  const TransactionalId& id,
                                                  std::chrono::milliseconds transaction_timeout,
                                                  LogBridge& log,
                                                  std::atomic<std::uint64_t>& requests);
  /// Drops whatever is open: sends no EndTxn and waits for no answer.
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// InitProducerId: aborts what the id left open and fences its earlier producers.
  std::optional<Failure> InitTransactions(Duration slice);
  std::optional<Failure> BeginTransaction();

  /// Has librdkafka know these topics with as many partitions, so that their first records go out
  /// at once: else they wait up to a second for its own refresh, and a record for a partition added
  /// since its last one is refused. Cheap for what it knows.
  std::optional<Failure> Warm(const TopicCatalog::Topics& topics, Duration timeout);

  /// Hands over a record of a topic that was warmed; `index` comes back in its report. Copies it.
  /// A failure here does not spoil the transaction; __QUEUE_FULL asks to take up reports first.
  std::optional<Failure> Produce(const txn::Record& record, std::size_t index);
  /// Waits for reports and passes on those that are there. False if the time passed without one, or
  /// Wake was called.
  bool TakeReports(Duration slice, const std::function<void(const DeliveryReport&)>& take);

  /// AddOffsetsToTxn and TxnOffsetCommit. Not resumable: a failure spoils the transaction.
  std::optional<Failure> SendOffsets(const txn::GroupOffsets& offsets, Duration timeout);

  std::optional<Failure> CommitTransaction(Duration slice);
  /// Forgets the records that were not sent yet. Does not wait: their reports follow.
  void PurgeUnsent();
  int Undelivered() const;  ///< Records whose report was not taken yet.
  std::optional<Failure> AbortTransaction(Duration slice);

  /// Why the open transaction, or the producer, failed; nothing if neither did. Only while a
  /// transaction is open.
  std::optional<Failure> TransactionFailure();
  bool dead() const;  ///< Fatal: it will never work again.

  /// When brokers will close the connections that were opened at the start (the token's end; this
  /// librdkafka cannot log in again on them). None: not before they like to.
  std::optional<std::chrono::system_clock::time_point> session_end() const;

  void Wake();  ///< Ends TakeReports early.
  const RequestLedger& ledger() const { return ledger_; }

 private:
  struct Deleter {
    void operator()(rd_kafka_t* handle) const;
    void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
    void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
  };

  Producer(const TransactionalId& id, std::string token_file, LogBridge& log,
           std::atomic<std::uint64_t>& requests)
      : id_(id.get()), token_file_(std::move(token_file)), log_(log), ledger_(requests) {}
  static void OnLog(const rd_kafka_t* handle, int level, const char* facility, const char* text);
  /// librdkafka wants an OAUTHBEARER token: at the start, and before the last one's time is up.
  static void OnTokenNeeded(rd_kafka_t* handle, const char* config, void* opaque);
  Status StartTokens();

  const std::string id_;
  const std::string token_file_;
  /// Of the first token: milliseconds since 1970, 0 for none. Written by librdkafka's thread.
  std::atomic<std::int64_t> session_end_ms_{0};
  LogBridge& log_;
  RequestLedger ledger_;
  // Destroyed in the opposite order: librdkafka wants its queues and topics gone before it goes.
  std::unique_ptr<rd_kafka_t, Deleter> handle_;
  std::unique_ptr<rd_kafka_queue_t, Deleter> queue_;
  struct WarmTopic {
    std::unique_ptr<rd_kafka_topic_t, Deleter> handle;
    std::int32_t partitions = -1;  // How many it was last asked for.
  };
  std::unordered_map<std::string, WarmTopic> topics_;
};

}  // namespace lockstep::kafka
