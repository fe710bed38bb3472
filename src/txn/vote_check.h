#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "txn/resolve.h"
#include "txn/types.h"

namespace lockstep::txn {

/// What one transaction wrote, by the producer's own books.
struct Written {
  std::map<TopicPartition, std::int64_t> partitions;  ///< A delivered offset; -1: not known.
  std::size_t groups = 0;                             ///< Whose offsets were sent.
};

inline constexpr char kOffsetsTopic[] = "__consumer_offsets";

/// Whether the broker's view of the transaction is what was written: the heart of a YES vote. It
/// must be Ongoing under the producer's own name, over exactly the partitions that it wrote;
/// offsets of n groups stand in 1 to n partitions of __consumer_offsets. A refusal names no
/// cluster.
std::optional<Refusal> CheckDescription(const ProducerInstance& producer, const Written& written,
                                        const TxnDescription& description);

/// The partitions of __consumer_offsets in a description.
std::vector<TopicPartition> OffsetsPartitions(const TxnDescription& description);

}  // namespace lockstep::txn
