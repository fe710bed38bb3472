#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/ids.h"
#include "coordinator/ports.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace lockstep::log {

/// How long outcomes are kept once they are known everywhere. Whichever bound is reached first
/// forgets; an open batch (incomplete, or heuristic and not acknowledged) is never forgotten.
struct Retention {
  std::chrono::milliseconds time = std::chrono::days(7);
  std::uint64_t bytes = std::uint64_t{4} << 30;  ///< Of decisions, their members' index included.
};

struct OpenOptions {
  std::filesystem::path path;  ///< The data folder: the log's alone.
  /// An empty or missing folder (whose parent exists) gets a new log, with a new identity.
  bool create_if_missing = true;
  const coordinator::Clock* clock = nullptr;  ///< Required; outlives the log.
  Retention retention;
  /// How long what is not urgent may wait for a sync to share.
  std::chrono::milliseconds lazy_sync_interval{50};
  /// How often it is looked whether there is something to forget.
  std::chrono::milliseconds forget_interval{std::chrono::minutes(1)};
  /// Appends that may wait for the writer. Beyond it an append fails with kResourceExhausted,
  /// effect None. The coordinator's own limits keep it far below.
  std::size_t max_queued = 65536;

  std::shared_ptr<rocksdb::FileSystem> file_system;  ///< For tests. Null: the machine's.
  LogId new_log_id;  ///< For tests, of a log that is made. Empty: a random one, as it must be.
};

}  // namespace lockstep::log
