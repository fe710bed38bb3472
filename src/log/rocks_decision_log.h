#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "coordinator/ports.h"
#include "log/options.h"
#include "log/record_codec.h"
#include "txn/types.h"

namespace lockstep::log {

class Store;

/// The decision log in RocksDB. The records, keys and rules: docs/design/log_format.md.
///
/// Appends are queued; one writer thread puts all that wait into one atomic write with one sync,
/// and then calls each `done`, in the order of the appends, outside of any lock. So appends that
/// arrive while a sync runs share the next one. What need not be synced at once waits for a sync to
/// share, for lazy_sync_interval at most. Enlistments wait as long for a write to share, and ask
/// for no sync; in the one queue they keep their place, so no crash loses one and keeps what was
/// appended later. A full queue drops them: as if a crash had.
///
/// Beside the port's rule (a failed write fails everything from then on, effect Unknown) an append
/// may fail by itself, effect None, nothing written, the log unharmed: kInternal if it contradicts
/// what is stored (a batch number used twice, a completion of what is not open), and
/// kResourceExhausted if max_queued appends wait.
///
/// Find answers kUnavailable, effect Unknown, once the log has failed: a decision that it does not
/// find then may be on the disk all the same. Who finds nothing asks for the Horizon afterwards,
/// not before: in that order the horizon covers whatever was forgotten in between.
///
/// The destructor writes what is queued, calls each `done`, and closes; nobody may use the log by
/// then. `done` must not destroy the log.
class RocksDecisionLog final : public coordinator::DecisionLog {
 public:
  ~RocksDecisionLog() override;
  RocksDecisionLog(const RocksDecisionLog&) = delete;
  RocksDecisionLog& operator=(const RocksDecisionLog&) = delete;

  const coordinator::RecoveredLog& recovered() const override;

  void StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) override;
  void StoreCompletion(coordinator::Completion completion, bool urgent,
                       coordinator::Callback<Status> done) override;
  void StoreEnlistment(txn::Enlistment enlistment) override;
  void EndEnlistment(ClusterName cluster, TransactionalId id) override;
  void StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) override;
  void StoreOrder(coordinator::StoredOrder order, coordinator::Callback<Status> done) override;
  void StoreBinding(ClusterName cluster, KafkaClusterId id,
                    coordinator::Callback<Status> done) override;
  void StoreSuperseded(std::string why, coordinator::Callback<Status> done) override;

  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const override;
  Result<std::optional<txn::Decision>> Find(const GlobalTxnId& txn) const override;
  Result<std::optional<txn::Decision>> FindKey(const std::string& key) const override;
  WallTime Horizon() const override;
  Result<coordinator::LogStats> Stats() const override;
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const override;

 private:
  using Found = Result<std::optional<txn::Decision>>;
  /// What was read, unless the log has failed.
  Found UnlessFailed(Found found) const;

  friend Result<std::unique_ptr<RocksDecisionLog>> Open(const OpenOptions& options);

  using SteadyTime = std::chrono::steady_clock::time_point;
  /// An acknowledgement is queued as the number of its batch.
  struct EndedEnlistment {
    ClusterName cluster;
    TransactionalId id;
  };
  using What =
      std::variant<txn::Decision, coordinator::Completion, BatchId, coordinator::StoredOrder,
                   log::Binding, Superseded, txn::Enlistment, EndedEnlistment>;
  struct Append {
    What what;
    coordinator::Callback<Status> done;  // Null: nobody waits for a sync of it.
    Status status;                       // Its own error: it does not become part of a write.
  };

  RocksDecisionLog(const OpenOptions& options, std::unique_ptr<Store> store);

  void Enqueue(What what, bool urgent, coordinator::Callback<Status> done);

  // Writer thread.
  void Run();
  std::vector<Append> WaitForAppends(bool& stopping);
  void WriteAll(std::vector<Append> appends);
  Status Add(const What& what);
  Status Write(bool sync);
  Status WriteMeasured(bool sync);
  static void Answer(std::span<const Append> appends, const Status& written);
  void ForgetIfDue();
  void Fail(Error error);

  const std::chrono::milliseconds lazy_sync_interval_;
  const std::chrono::milliseconds forget_interval_;
  const std::size_t max_queued_;
  const std::unique_ptr<Store> store_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Append> queue_;               // Guarded by mutex_.
  SteadyTime oldest_queued_;                // Guarded by mutex_: when queue_'s first came.
  bool urgent_ = false;                     // Guarded by mutex_: something in queue_ does not wait.
  bool stop_ = false;                       // Guarded by mutex_.
  Histogram sync_seconds_{kSecondsBounds};  // Guarded by mutex_.
  /// Once set it stays. Set by the writer, under mutex_: the writer alone may read it without.
  std::optional<Error> failed_;

  SteadyTime next_forget_;  // Writer thread only.
  std::thread writer_;      // Last: starts when everything else is there.
};

/// Opens the log in `options.path`, or makes one. Blocking. On return this start's incarnation is
/// durable, and no other process can open the folder until the log is destroyed. Changes nothing in
/// a folder that is not a decision log, or of a newer format. Errors, all with effect None:
///   kNotFound            no such folder (or no parent to make it in), or no log and none wanted
///   kInvalidArgument     not a folder, or it holds something else
///   kPermissionDenied    the folder, or a file in it, may not be read or written
///   kFailedPrecondition  in use (the message names the pid), written by a newer version, or found
///                        to be an older copy (StoreSuperseded)
///   kResourceExhausted   the disk is full
///   kCorrupt             damaged: nothing is dropped to make it open
///   kUnavailable         another I/O error
Result<std::unique_ptr<RocksDecisionLog>> Open(const OpenOptions& options);

}  // namespace lockstep::log
