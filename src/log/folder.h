#pragma once

#include <filesystem>
#include <string>

#include <rocksdb/file_system.h>

#include "base/result.h"

/// The folder around the database: whether it is a decision log, and who may use it.
///
/// Besides RocksDB's files it holds
///   FORMAT    "Lockstep decision log\nformat 1\n": there exactly if the log was made completely;
///   CREATING  there while it is being made: nobody was ever served from it, so it is made anew.
///   Not
///             empty: it is made of a backup, which only another restore can do anew;
///   OWNER     locked (flock) by the process that has the log open, which writes its pid into it.
namespace lockstep::log {

/// The newest folder format that this version reads, and the one that it makes. It covers the
/// files, the keys and the record kinds together: see docs/design/log_format.md for when it is
/// raised.
inline constexpr int kFolderFormat = 1;

/// Keeps other processes, and other openings in this one, out of the folder while it lives.
class FolderLock {
 public:
  /// Fails with kFailedPrecondition, naming the holder, if the folder is in use.
  static Result<FolderLock> Take(const std::filesystem::path& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

enum class FolderState {
  kEmpty,
  kUnfinished,         ///< A crash came while the log was made.
  kUnfinishedRestore,  ///< A crash, or another failure, while it was made of a backup.
  kReady,
};

/// Looks, and changes nothing. Fails if it does not exist (kNotFound), is no folder or holds
/// something else than a decision log (kInvalidArgument), may not be read (kPermissionDenied), or
/// is of a newer format (kFailedPrecondition).
Result<FolderState> Inspect(rocksdb::FileSystem& fs, const std::filesystem::path& folder);

/// Why a kUnfinishedRestore folder is refused: an empty log in its place would presume aborted what
/// the backup holds as committed.
Error RestoreAgain(const std::filesystem::path& folder);

/// Makes the folder itself, durably. Its parent must exist.
Status MakeFolder(rocksdb::FileSystem& fs, const std::filesystem::path& folder);

/// Of a kReady folder: looks through RocksDB's record files for damage that RocksDB would not see.
/// Fails with kCorrupt, or if a file cannot be read.
Status CheckRecordFiles(rocksdb::FileSystem& fs, const std::filesystem::path& folder);

enum class Creation { kNew, kRestore };

/// From any state but kReady: marks the folder as being made, and removes what an earlier attempt
/// left. On return RocksDB may make its database.
Status BeginCreation(rocksdb::FileSystem& fs, const std::filesystem::path& folder,
                     Creation creation);

/// The database and all that was written into it are durable: on return the folder is kReady,
/// durably.
Status FinishCreation(rocksdb::FileSystem& fs, const std::filesystem::path& folder);

/// On a kReady folder: removes the file CREATING, should a crash have left it, so that it cannot
/// one day have the log taken for an unfinished one.
Status EndCreation(rocksdb::FileSystem& fs, const std::filesystem::path& folder);

}  // namespace lockstep::log
