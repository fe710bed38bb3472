#pragma once

#include <librdkafka/rdkafka.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace lockstep::kafka {

/// Requests by which a producer can change a transaction, as Kafka numbers them.
enum class TxnApi : std::int16_t {
  kProduce = 0,
  kInitProducerId = 22,
  kAddPartitionsToTxn = 24,
  kAddOffsetsToTxn = 25,
  kEndTxn = 26,
  kTxnOffsetCommit = 28,
};
inline constexpr std::array kTxnApis = {
    TxnApi::kProduce,         TxnApi::kInitProducerId, TxnApi::kAddPartitionsToTxn,
    TxnApi::kAddOffsetsToTxn, TxnApi::kEndTxn,         TxnApi::kTxnOffsetCommit};

/// Counts a producer's requests and their answers. A request that was sent and not answered may
/// still reach the broker, when the transaction after this one runs: that is what makes a lane
/// unclean (docs/design/protocol.md, "Lanes: clean or retired"; M3).
///
/// Fed by librdkafka's interceptors on its own threads; read on any. What librdkafka told its
/// caller is counted before it is told: an answer is counted on the broker's thread, which hands it
/// on afterwards.
class RequestLedger {
 public:
  /// `all` counts every request that is sent, of whatever API; it outlives this.
  explicit RequestLedger(std::atomic<std::uint64_t>& all) : all_(all) {}

  struct Count {
    std::uint32_t sent = 0;
    std::uint32_t answered = 0;  ///< Whatever the answer said.
    bool settled() const { return sent == answered; }
    friend bool operator==(const Count&, const Count&) = default;
  };

  /// The ledger must outlive the producer made from this configuration.
  void AttachTo(rd_kafka_conf_t* conf);

  using Counts = std::array<Count, kTxnApis.size()>;  ///< In the order of kTxnApis.

  Count Of(TxnApi api) const;
  Counts All() const;

  // For the interceptors, and for tests.
  void OnSent(std::int16_t api_key);
  void OnAnswered(std::int16_t api_key);

 private:
  struct Cell {
    std::atomic<std::uint32_t> sent{0};
    std::atomic<std::uint32_t> answered{0};
  };
  std::atomic<std::uint64_t>& all_;
  std::array<Cell, kTxnApis.size()> cells_;
};

/// Whether the requests of one transaction leave its lane clean: nothing was sent at all; or
/// exactly one EndTxn, every request has its answer, and librdkafka did not take a new epoch.
/// `before` was read when the transaction began, on a lane that was clean.
bool IsClean(const RequestLedger::Counts& before, const RequestLedger::Counts& after);

}  // namespace lockstep::kafka
