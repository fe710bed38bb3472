#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "coordinator/ports.h"
#include "log/folder.h"
#include "log/options.h"
#include "log/record_codec.h"
#include "log/restore.h"
#include "log/stored_batch.h"
#include "txn/types.h"

namespace lockstep::log {

/// The database of a decision log: checks what is appended, gathers it, writes it, forgets it.
///
/// Owned by RocksDecisionLog. Writer thread only, except Find, Binding, Horizon, Stats and Backup,
/// which are thread-safe, and recovered, which does not change.
class Store {
 public:
  /// Opens or makes the log, and gives this start its incarnation, durably. Blocking. The errors
  /// are those of Open in rocks_decision_log.h.
  static Result<std::unique_ptr<Store>> Open(const OpenOptions& options);

  /// As in restore.h.
  static Result<Restored> Restore(const OpenOptions& options, const BackupSource& source);

  const coordinator::RecoveredLog& recovered() const { return recovered_; }

  // Adding to the next Write. An error here is the caller's alone (effect None): what it asked for
  // contradicts what is stored, and nothing was added.

  Status Add(const txn::Decision& decision);
  Status Add(const coordinator::Completion& completion);
  Status AddAcknowledgement(BatchId batch);
  Status Add(const coordinator::StoredOrder& order);
  Status Add(const Binding& binding);
  Status Add(const Superseded& superseded);
  Status Add(const txn::Enlistment& enlistment);
  void EndEnlistment(const ClusterName& cluster, const TransactionalId& id);
  std::size_t added_bytes() const { return batch_.GetDataSize(); }

  /// Writes what was added, atomically, behind all that was written before. Durable on return, with
  /// all of that, if `sync`. Blocking: a sync of the disk. Fails with kUnavailable, effect Unknown;
  /// no other write may follow.
  Status Write(bool sync);

  /// One bounded round of forgetting. Written without a sync of its own: a crash brings what was
  /// forgotten and the horizon back together. True: there is more to forget now. Fails if what is
  /// to be forgotten cannot be read, or as Write.
  Result<bool> ForgetSome();

  Result<std::optional<txn::Decision>> Find(const GlobalTxnId& txn) const;
  Result<std::optional<txn::Decision>> FindKey(const std::string& key) const;
  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const;
  WallTime Horizon() const { return WallTime{horizon_ms_.load()}; }
  Result<coordinator::LogStats> Stats() const;
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const;

 private:
  struct OpenBatch {
    std::vector<txn::ParticipantOutcome> outcomes;
    bool pending() const;
    bool heuristic() const;
  };

  static LogId NewLogId();
  static std::filesystem::path Normal(const std::filesystem::path& path);
  static std::shared_ptr<rocksdb::FileSystem> FileSystemOf(const OpenOptions& options);
  Store(const OpenOptions& options, FolderLock lock);

  Status OpenDatabase(bool create);
  Status MakeLog(LogId id);
  Status Recover();
  Status RecoverMeta();
  Status RecoverBindings();
  Status RecoverOpenBatches();
  Status RecoverLeftBehind();
  Status RecoverEnlistments();
  Status StartIncarnation();
  Result<Restored> LoadBackup(const BackupSource& source);
  Status WriteRestored(bool last);
  /// The decision that an entry of an index leads to.
  Result<std::optional<txn::Decision>> Follow(const std::string& index_key) const;
  template <typename T>
  Result<std::optional<T>> GetMeta(std::string_view key) const;
  Result<bool> IsStored(BatchId batch) const;
  std::unique_ptr<rocksdb::Iterator> NewIterator() const;
  void PublishKept();
  Error InFolder(const Error& error) const;
  Error WriteFailed(const rocksdb::Status& status) const;

  /// Open: not to be forgotten.
  bool IsKept(BatchId batch) const;
  struct ForgetRound;
  Status ForgetLeftBehind(ForgetRound& round);
  Status ForgetOldest(ForgetRound& round);
  void Forget(const StoredBatch& batch, ForgetRound& round);

  const std::filesystem::path path_;
  const coordinator::Clock& clock_;
  const Retention retention_;

  const FolderLock lock_;
  const std::shared_ptr<rocksdb::FileSystem> fs_;
  std::unique_ptr<rocksdb::Env> own_env_;  // Only around a file system of the caller's.
  std::unique_ptr<rocksdb::DB> db_;

  coordinator::RecoveredLog recovered_;
  std::uint64_t highest_batch_ = 0;
  std::map<BatchId, OpenBatch> open_;
  Kept kept_;

  rocksdb::WriteBatch batch_;
  std::vector<log::Binding> added_bindings_;
  bool kept_changed_ = false;

  Forgotten forgotten_;
  /// Batches up to forgotten_.through that are still stored, because they were open or had not been
  /// settled for long enough. The value tells before when there is no need to look again.
  std::map<BatchId, WallTime> left_behind_;
  std::atomic<std::int64_t> horizon_ms_{0};
  // Copies of kept_ for Stats.
  std::atomic<std::uint64_t> stats_bytes_{0};
  std::atomic<std::uint64_t> stats_decisions_{0};
  std::atomic<std::uint64_t> syncs_{0};

  mutable std::mutex bindings_mutex_;
  std::map<ClusterName, KafkaClusterId> bindings_;  // Guarded by bindings_mutex_.
};

}  // namespace lockstep::log
