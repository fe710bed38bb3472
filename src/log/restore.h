#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "log/backup_codec.h"
#include "log/options.h"

/// Makes a decision log of a backup. See docs/design/log_format.md and DESIGN on identity: it is
/// another log than the one that was backed up.
namespace lockstep::log {

/// The next bytes of the backup; empty: there are no more.
using BackupSource = std::function<Result<std::string>()>;

struct Restored {
  LogId log_id;  ///< The new log's own.
  BackupInfo from;
  std::uint64_t decisions = 0;
  std::size_t incomplete = 0;  ///< Of them: some participant is pending.
  std::size_t heuristic = 0;   ///< Of them: heuristic, not acknowledged.
};

/// Into a folder that is empty, does not exist (its parent does), or holds what is left of a
/// restore that did not end. The log in it has a new identity: its lanes are its own, it keeps and
/// completes what the old log had decided by the backup, and knows that it does not know what came
/// later.
///
/// Blocking. On return the log is durable. On any error the folder holds none, and lockstepd
/// refuses it. The errors are those of Open (rocks_decision_log.h), but kFailedPrecondition also:
/// there is a log in the folder, or the backup is of a newer format; and kCorrupt also: it is torn,
/// or changed. Uses path, clock and file_system of the options.
Result<Restored> Restore(const OpenOptions& options, const BackupSource& source);

}  // namespace lockstep::log
