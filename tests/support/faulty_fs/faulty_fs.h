#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/file_system.h>

namespace lockstep::testing {

/// A file system over the machine's that knows what a loss of power would leave: `kill -9` alone
/// never loses the page cache, so it cannot show a missing sync.
///
/// A byte is durable once its file was synced after it; an entry of a folder (a file made, renamed
/// or removed, a folder made) once that folder was synced after it. Kill makes every later call
/// fail; when all users are gone, Restart puts the real files into a state that the loss of power
/// could have left. What it leaves to chance comes from the seed. Its syncs cost nothing: they
/// reach no disk. Thread-safe.
class FaultyFs : public rocksdb::FileSystemWrapper {
 public:
  /// `root` exists; the tests' folders stand in it. Removed files are kept in root/.removed until a
  /// Restart needs them no more.
  FaultyFs(std::filesystem::path root, std::uint64_t seed);

  /// The changes that can fail, and that KillAt counts.
  enum class Op : std::uint8_t { kMake, kAppend, kSync, kSyncFolder, kRename, kRemove };

  // Faults.

  /// The nth such call from now on (from 1), on a path that ends so, fails; each other goes on. A
  /// failing append may leave some of its bytes, as a full disk does.
  void FailNth(Op op, std::string path_end, int nth, rocksdb::IOStatus error);
  /// Syncs of files that end so block until Release. For slow disks, without sleeping.
  void HoldSyncs(std::string path_end);
  void WaitUntilHeld();
  void Release();
  /// Kills at the nth change from now on (from 1): that one and all later calls fail.
  void KillAt(int nth);

  /// The power goes.
  void Kill();
  bool killed() const;
  enum class Left : std::uint8_t {
    kOnlySynced,  ///< Nothing that was not synced.
    kRandom,      ///< For each folder, and each file, a random part of what was not: torn anywhere.
  };
  /// The power is back. Nobody may have a file open.
  void Restart(Left left);

  /// Calls so far on paths that end so.
  int Count(Op op, std::string_view path_end) const;

  // rocksdb::FileSystem.

  const char* Name() const override { return "FaultyFs"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* dbg) override;

 private:
  class File;
  class Folder;

  /// What a name stands for.
  struct Node {
    bool folder = false;
    std::filesystem::path place;  // Where its bytes are now.
    std::uint64_t size = 0;
    std::uint64_t synced = 0;  // How many of its bytes are durable.
  };
  using NodePtr = std::shared_ptr<Node>;
  using Entries = std::map<std::string, NodePtr>;
  /// One change of a folder: names and what they stand for since (null: nothing).
  using Change = std::vector<std::pair<std::string, NodePtr>>;
  struct FolderState {
    Entries durable;
    Entries live;
    std::vector<Change> unsynced;
  };
  struct Fault {
    Op op;
    std::string path_end;
    int countdown;
    rocksdb::IOStatus error;
  };

  /// Counts the call; the error with which it must fail.
  rocksdb::IOStatus Enter(Op op, const std::string& path);
  void Note(const std::string& folder, Change change);
  NodePtr LiveNode(const std::string& path) const;
  void SetAside(const NodePtr& node);
  std::uint64_t Random(std::uint64_t at_most);
  rocksdb::IOStatus Append(const NodePtr& node, const rocksdb::Slice& data,
                           rocksdb::FSWritableFile& file);
  rocksdb::IOStatus Sync(const NodePtr& node);
  rocksdb::IOStatus SyncFolder(const std::string& path);
  void RestartFolder(const std::filesystem::path& path, FolderState& state, Left left);

  const std::filesystem::path root_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All below: guarded by mutex_.
  std::mt19937_64 random_;
  std::map<std::string, FolderState> folders_;
  std::vector<Fault> faults_;
  std::map<std::pair<Op, std::string>, int> counts_;
  std::optional<std::string> held_end_;
  bool held_ = false;
  bool killed_ = false;
  int kill_in_ = 0;  // 0: never.
  int set_aside_ = 0;
};

/// Damage at rest: flips one bit of a file.
void FlipBit(const std::filesystem::path& file, std::uint64_t byte, int bit);

}  // namespace lockstep::testing
