#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "txn/types.h"

/// What the coordinator counts of its own work, for whoever shows it (server/metrics.h). Plain
/// numbers on the executor: the path of a commit pays for an addition, and for no lock.
namespace lockstep::coordinator {

inline constexpr std::array kBatchBounds = {1.0,  2.0,   5.0,   10.0,  20.0,
                                            50.0, 100.0, 200.0, 500.0, 1000.0};

/// Seconds that participants of one cluster took. Of lanes and clients' own producers alike.
struct ParticipantTimes {
  Histogram prepare{kSecondsBounds};  ///< From being asked to its vote, YES or NO.
  Histogram end{kSecondsBounds};      ///< From EndTxn(commit) to the broker's OK.
  /// From the broker's OK until its markers are known to be there, where that must be checked.
  Histogram markers{kSecondsBounds};
};

/// Since the start.
struct Stats {
  static constexpr std::size_t kAbortReasons =
      static_cast<std::size_t>(txn::AbortReason::kInternal) + 1;

  std::uint64_t begun = 0;
  std::uint64_t committed = 0;  ///< Known to be, everywhere; by recovery too.
  std::uint64_t heuristic = 0;
  std::array<std::uint64_t, kAbortReasons> aborted{};  ///< By txn::AbortReason.

  Histogram batch_txns{kBatchBounds};  ///< How many transactions began to commit together.
  /// Where the time of a commit goes. Of each transaction: from Commit to the begin of its batch;
  /// one that another member spoiled waits again.
  Histogram in_line{kSecondsBounds};
  Histogram prepare{kSecondsBounds};   ///< Of each batch: from there until all votes are YES.
  Histogram log{kSecondsBounds};       ///< Of each batch: until its decision is durable.
  Histogram complete{kSecondsBounds};  ///< Of each batch: until every participant's end is known.
  Histogram commit{kSecondsBounds};    ///< Of each transaction: from Commit to COMMITTED.
  /// Of each committed batch of several participants: between the first and the last of which the
  /// commit was known. Not of what recovery takes up: when the first was committed is not known.
  Histogram skew{kSecondsBounds};
  std::map<ClusterName, ParticipantTimes> clusters;
};

/// What is in doubt on one cluster.
struct InDoubtThere {
  std::size_t txns = 0;                ///< Decided, and their outcome there is not known.
  std::optional<WallTime> decided_at;  ///< Of the oldest.
  std::size_t missing_markers = 0;     ///< Partitions; see txn::Resolution::hanging.
};

/// Stats, and how things stand at the moment.
struct Reading {
  Stats stats;
  std::size_t open_txns = 0;
  std::size_t in_line = 0;         ///< Of them: asked to commit, and not in a batch yet.
  std::size_t batches = 0;         ///< From their begin until nothing is left to do.
  std::size_t buffered_bytes = 0;  ///< Against limits.buffer_bytes.
  std::size_t in_doubt_txns = 0;   ///< Decided, and not every participant's outcome is known.
  std::size_t heuristic_txns = 0;  ///< That no operator has acknowledged.
  std::map<ClusterName, InDoubtThere> in_doubt;  ///< Every cluster has an entry.

  std::size_t recovered = 0;   ///< Decisions that this start found in doubt.
  std::size_t recovering = 0;  ///< Of them: not settled yet.
  Duration recovery{};         ///< From the start until all were settled, or until now.
};

}  // namespace lockstep::coordinator
