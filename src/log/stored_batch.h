#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rocksdb/iterator.h>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "txn/types.h"

/// Reading batches: a decision's record and all that was stored about it since.
namespace lockstep::log {

struct StoredBatch {
  txn::Decision decision;  ///< With its completions and its acknowledgement applied.
  WallTime settled_at;     ///< The latest of its records: retention counts from here.
  std::uint64_t weight = 0;
  std::vector<std::string> keys;  ///< Where its records stand.
};

/// What a decision weighs against the size limit, its members' index included. Depends only on what
/// was stored with the decision, so that what was added is later taken off again.
std::uint64_t WeightOf(const txn::Decision& decision, std::size_t record_bytes);

/// Open: it must be looked after at the next start, and is never forgotten.
bool IsOpen(const txn::Decision& decision);

/// Reads the batch whose decision `it` stands on, and moves it to the first key behind that batch.
/// Fails with kCorrupt where the records contradict each other.
Result<StoredBatch> ReadBatch(rocksdb::Iterator& it);

/// Moves `it` to the batch and reads it. None: it is not stored.
Result<std::optional<StoredBatch>> SeekBatch(rocksdb::Iterator& it, BatchId batch);

/// The status of an iterator that went out of range, or stands on a key it cannot read.
Status ReadStatus(const rocksdb::Iterator& it);

}  // namespace lockstep::log
