#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "random.h"
#include "scheduler.h"
#include "sim_disk.h"
#include "sim_options.h"
#include "trace.h"

namespace lockstep::sim {

class Oracle;

/// The decision log of one process on a disk: a sync takes time, may be slow or fail, and is shared
/// by all that was written before it.
class SimLog final : public coordinator::DecisionLog {
 public:
  /// Opens the disk.
  SimLog(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
         Trace& trace, Oracle& oracle);

  const coordinator::RecoveredLog& recovered() const override { return disk_.recovered(); }
  void StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) override;
  void StoreCompletion(coordinator::Completion completion, bool urgent,
                       coordinator::Callback<Status> done) override;
  void StoreEnlistment(txn::Enlistment enlistment) override;
  void EndEnlistment(ClusterName cluster, TransactionalId id) override;
  void StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) override;
  void StoreOrder(coordinator::StoredOrder order, coordinator::Callback<Status> done) override;
  void StoreBinding(ClusterName cluster, KafkaClusterId id,
                    coordinator::Callback<Status> done) override;
  /// Never called: there is one copy of the log.
  void StoreSuperseded(std::string why, coordinator::Callback<Status> done) override;
  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const override;
  Result<std::optional<txn::Decision>> Find(const GlobalTxnId& txn) const override;
  Result<std::optional<txn::Decision>> FindKey(const std::string& key) const override;
  WallTime Horizon() const override { return disk_.Horizon(); }
  Result<coordinator::LogStats> Stats() const override { return coordinator::LogStats{}; }
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const override { std::abort(); }

  bool failed() const { return failed_; }
  /// No syncs are slow from now on.
  void CalmDown() { calm_ = true; }

 private:
  /// Written, not yet synced.
  struct Waiting {
    std::uint64_t end = 0;  // Durable once so many records of this life are.
    std::function<void()> durable;
    coordinator::Callback<Status> done;
  };

  void Append(SimDisk::Record record, std::function<void()> durable,
              coordinator::Callback<Status> done);
  void Sync();
  void SyncDone(std::uint64_t end);
  void Fail();

  SimDisk& disk_;
  const SimOptions& options_;
  Scheduler& scheduler_;
  Random& random_;
  Trace& trace_;
  Oracle& oracle_;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);

  std::map<BatchId, txn::Decision> decisions_;  // Those that are durable.
  std::vector<Waiting> waiting_;
  bool sync_runs_ = false;
  bool sync_wanted_ = false;
  bool lazy_sync_planned_ = false;
  bool failed_ = false;
  bool calm_ = false;
};

}  // namespace lockstep::sim
