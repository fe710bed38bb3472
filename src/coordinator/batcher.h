#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace lockstep::coordinator {

/// Which transactions commit together, and in which order they write: bookkeeping without I/O, on
/// the executor (docs/design/batches.md).
///
/// Transactions that touch the same clusters stand in one line. While a batch of the line writes,
/// the others wait, and then share the next one. On each cluster, batches write one after another
/// in the order in which they were formed, whatever line they are from: so records stand in their
/// partitions in the order of the commits.
class Batcher {
 public:
  /// The clusters that a transaction touches, in their order.
  using Line = std::vector<ClusterName>;
  struct Limits {
    std::size_t txns = 1'000;
    std::size_t bytes = 1u << 20;
  };
  struct Group {
    Line line;
    std::vector<GlobalTxnId> members;
  };
  /// It is a batch's turn to write on a cluster.
  struct Turn {
    BatchId batch;
    ClusterName cluster;
  };

  /// At the end of its line.
  void Add(Line line, GlobalTxnId id, std::size_t bytes);
  /// What is left of a batch that another member spoiled: to be tried as it is, before all that
  /// came later.
  void AddAgain(Line line, std::vector<GlobalTxnId> members);

  /// The next batch that may be formed, from any line; none: nobody waits, or a batch of each line
  /// where somebody does is writing. It may have members that do not want to commit any more.
  std::optional<Group> Next(const Limits& limits);
  /// A batch of the line is to write. Its turn on a cluster comes at once, or from Leave.
  std::vector<Turn> Enter(BatchId batch, const Line& line);
  bool writing(BatchId batch) const { return writing_.contains(batch); }
  /// The batch writes there no more. Unknown ones are ignored.
  std::optional<Turn> Leave(BatchId batch, const ClusterName& cluster);

 private:
  struct Waiting {
    GlobalTxnId id;
    std::size_t bytes = 0;
  };
  struct Queue {
    std::deque<std::vector<GlobalTxnId>> again;
    std::deque<Waiting> waiting;
    int writing = 0;  // Clusters on which its batch is to write still.
    bool idle() const { return again.empty() && waiting.empty() && writing == 0; }
  };

  std::map<Line, Queue> lines_;
  std::map<BatchId, Line> writing_;
  std::map<ClusterName, std::deque<BatchId>> turns_;  // The first one writes.
};

}  // namespace lockstep::coordinator
