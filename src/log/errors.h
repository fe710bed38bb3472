#pragma once

#include <filesystem>
#include <string_view>

#include <rocksdb/status.h>

#include "base/result.h"

/// The one place where failures of the file system and of RocksDB become ours. Each error names the
/// folder, what is wrong, and the way out. All have effect None: they come from opening and
/// reading.
namespace lockstep::log {

/// `doing` continues "decision log '/data': ", e.g. "listing the folder".
Error FromErrno(const std::filesystem::path& folder, std::string_view doing, int error_number);

/// kPermissionDenied, kResourceExhausted (disk full), kCorrupt, kFailedPrecondition (in use),
/// kUnavailable (any other I/O error) or kInternal. `status` is not OK.
Error FromRocks(const std::filesystem::path& folder, std::string_view doing,
                const rocksdb::Status& status);

/// The stored bytes contradict themselves, or a part of them is missing.
Error Damaged(const std::filesystem::path& folder, std::string_view what);

}  // namespace lockstep::log
