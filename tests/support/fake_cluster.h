#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "wire/protocol/codec.h"

namespace lockstep::bench {

/// A Kafka cluster of one broker that costs nearly nothing: it knows the state of transactions,
/// takes records and drops them, and answers at once. For what lockstepd itself can do, and for
/// more clusters than real brokers fit on a machine. It speaks what librdkafka's transactional
/// producers and lockstepd ask; fences, and refuses, as Kafka does. It cannot be read from.
///
/// All on the io_context's thread; connections end with it.
class FakeCluster {
 public:
  /// Listens on a free port of 127.0.0.1. Every topic is there, with so many partitions.
  FakeCluster(boost::asio::io_context& io, int partitions);
  ~FakeCluster();
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;

  std::string bootstrap() const;
  /// Records of transactions that committed.
  std::int64_t committed_records() const { return committed_records_; }  ///< Thread-safe.

 private:
  class Session;
  enum class State { kEmpty, kOngoing, kCompleteCommit, kCompleteAbort };
  struct Txn {
    std::int64_t producer_id = 0;
    std::int16_t epoch = 0;
    State state = State::kEmpty;
    std::int64_t start_time_ms = -1;
    std::int64_t records = 0;
    std::map<std::string, std::vector<std::int32_t>> partitions;
  };
  using Reader = wire::protocol::Reader;
  using Writer = wire::protocol::Writer;

  static const char* NameOf(State state);
  void Accept();
  /// A request without its size; the answer with it. Empty: to be hung up on.
  std::string Answer(const std::string& frame);

  void ApiVersions(Writer& w) const;
  void Metadata(Reader& r, Writer& w) const;
  void FindCoordinator(Writer& w) const;
  void InitProducerId(Reader& r, Writer& w);
  void AddPartitions(Reader& r, Writer& w);
  void Produce(Reader& r, Writer& w);
  void EndTxn(Reader& r, Writer& w);
  void DescribeTransactions(Reader& r, Writer& w) const;
  void ListTransactions(Writer& w) const;
  static void DescribeConfigs(Writer& w);

  wire::ErrorCode End(Txn& txn, bool commit);
  /// kNone, if that producer owns the transaction.
  wire::ErrorCode Check(const std::string& id, std::int64_t producer_id, std::int16_t epoch) const;
  void WriteBroker(Writer& w) const;

  const int partitions_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::map<std::string, Txn> txns_;                                       // By transactional.id.
  std::map<std::pair<std::string, std::int32_t>, std::int64_t> offsets_;  // The next one.
  std::atomic<std::int64_t> committed_records_{0};
};

}  // namespace lockstep::bench
