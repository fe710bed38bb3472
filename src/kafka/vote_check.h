#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "txn/resolve.h"
#include "txn/types.h"

namespace lockstep::kafka {

/// Under which name a lane writes: bound right after InitProducerId.
struct LaneIdentity {
  TransactionalId transactional_id;
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
};

/// What one transaction wrote, by what librdkafka reported.
struct Written {
  std::map<txn::TopicPartition, std::int64_t> partitions;  ///< A delivered offset; -1: not known.
  std::size_t groups = 0;                                  ///< Whose offsets were sent.
};

inline constexpr char kOffsetsTopic[] = "__consumer_offsets";

/// Whether the broker's view of the transaction is what we wrote: the heart of a YES vote. It must
/// be Ongoing under our own name, over exactly the partitions that we wrote; offsets of n groups
/// stand in 1 to n partitions of __consumer_offsets. A refusal names no cluster.
std::optional<txn::Refusal> CheckDescription(const LaneIdentity& lane, const Written& written,
                                             const txn::TxnDescription& description);

/// The partitions of __consumer_offsets in a description.
std::vector<txn::TopicPartition> OffsetsPartitions(const txn::TxnDescription& description);

}  // namespace lockstep::kafka
