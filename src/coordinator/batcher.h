#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::coordinator {

/// Which transactions commit together, when, and in which order they write: bookkeeping without
/// I/O, on the executor (docs/design/batches.md).
///
/// Transactions that touch the same clusters stand in one line. While a batch of the line is under
/// way, the others wait, and then share the next one. On each cluster, batches write one after
/// another in the order in which they were formed, whatever line they are from: so records stand in
/// their partitions in the order of the commits.
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

  /// A batch whose votes are in holds its line for as long as this, if its end takes longer.
  static constexpr Duration kPatience = std::chrono::milliseconds(20);
  /// Those whose batch has ended have this part of the time that it took to come back.
  static constexpr int kReturnPart = 4;

  /// At the end of the client's own line within its line: of those who wait, each client has one
  /// member in the next batch before any has two.
  void Add(Line line, const std::string& client, GlobalTxnId id, std::size_t bytes);
  /// What is left of a batch that another member spoiled: to be tried as it is, before all that
  /// came later.
  void AddAgain(Line line, std::vector<GlobalTxnId> members);

  /// The next batch that may be formed, from any line. It may have members that do not want to
  /// commit any more.
  std::optional<Group> Next(const Limits& limits, MonoTime now);
  /// How many wait, with those that do not want to commit any more.
  std::size_t waiting() const;
  /// When Next may have one, although nothing else was called in between.
  std::optional<MonoTime> NextTime() const;

  /// A batch of the group begins. Its turn to write on a cluster comes at once, or from Leave.
  std::vector<Turn> Enter(BatchId batch, const Group& group, MonoTime now);
  /// It is not known here any more once it has ended, or another one has begun beside it.
  bool under_way(BatchId batch) const { return under_way_.contains(batch); }
  /// The batch writes there no more. Unknown ones are ignored.
  std::optional<Turn> Leave(BatchId batch, const ClusterName& cluster, MonoTime now);
  /// It has its outcome. It has left its clusters before. Unknown ones are ignored.
  void End(BatchId batch, MonoTime now);

 private:
  struct Waiting {
    GlobalTxnId id;
    std::size_t bytes = 0;
  };
  /// The latest batch of a line.
  struct Latest {
    BatchId batch;
    std::size_t members = 0;
    std::size_t expected = 0;  // Who will be in the line once they have come back, once it ended.
    int writing = 0;           // Clusters on which it is to write still.
    bool ended = false;
    MonoTime began{};
    MonoTime since{};  // It left its last cluster, or ended.
  };
  struct Queue {
    std::deque<std::vector<GlobalTxnId>> again;
    std::map<std::string, std::deque<Waiting>> waiting;  // By client; none is empty.
    std::deque<std::string> turns;                       // Of the clients.
    std::size_t txns = 0;                                // Of all clients.
    std::size_t bytes = 0;
    std::optional<Latest> latest;
    std::optional<MonoTime> wake;  // Somebody waits, and at this time need not any longer.
  };

  /// When the line's next batch may be formed; none: not before something happens.
  static std::optional<MonoTime> FreeAt(const Queue& queue, const Limits& limits);
  static std::vector<GlobalTxnId> Take(Queue& queue, const Limits& limits);

  std::map<Line, Queue> lines_;
  std::map<BatchId, Line> under_way_;
  std::map<ClusterName, std::deque<BatchId>> turns_;  // The first one writes.
};

}  // namespace lockstep::coordinator
