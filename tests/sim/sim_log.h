#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "log/record_codec.h"
#include "random.h"
#include "scheduler.h"
#include "sim_options.h"
#include "trace.h"

namespace lockstep::sim {

class Oracle;

/// What survives the process: one file of framed records, of which a prefix is synced.
struct SimDisk {
  std::string bytes;
  std::size_t synced = 0;

  /// The power goes: the synced prefix stays, of the rest any part may, also half a record.
  void Crash(Random& random);
};

/// The decision log of one process on the disk, in memory: real record bytes (record_codec.h), a
/// sync that takes time, may be slow or fail, and is shared by all that was written before it.
class SimLog final : public coordinator::DecisionLog {
 public:
  /// Opens: reads what is there, cuts a torn end off, and stores this start.
  SimLog(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
         const coordinator::Clock& clock, Trace& trace, Oracle& oracle);

  const coordinator::RecoveredLog& recovered() const override { return recovered_; }
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
  WallTime Horizon() const override { return horizon_; }
  Result<coordinator::LogStats> Stats() const override { return coordinator::LogStats{}; }
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const override { std::abort(); }

  /// No syncs fail or are slow from now on.
  void CalmDown() { calm_ = true; }

 private:
  enum class Type : char {
    kIdentity = 'i',
    kStart = 's',
    kDecision = 'd',
    kCompletion = 'c',
    kAcknowledgement = 'a',
    kOrder = 'o',
    kBinding = 'b',
    kForgotten = 'f',
    kEnlistment = 'e',
    kEnlistmentEnded = 'E',  // The cluster, a zero byte, the transactional.id.
  };
  /// Written, not yet synced.
  struct Waiting {
    std::size_t end = 0;  // Durable once the disk is synced up to here.
    std::function<void()> apply;
    coordinator::Callback<Status> done;
  };

  void Recover();
  void ReadRecord(Type type, std::string_view payload);
  void Forget();
  void Write(Type type, const std::string& payload);
  void Append(Type type, const std::string& payload, std::function<void()> apply,
              coordinator::Callback<Status> done);
  void Sync();
  void SyncDone(std::size_t end);
  void Fail();
  void ApplyDecision(const txn::Decision& decision);
  void ApplyCompletion(const coordinator::Completion& completion);
  void ApplyOrder(const coordinator::StoredOrder& order);
  void ApplyForgotten(const log::Forgotten& forgotten);

  SimDisk& disk_;
  const SimOptions& options_;
  Scheduler& scheduler_;
  Random& random_;
  const coordinator::Clock& clock_;
  Trace& trace_;
  Oracle& oracle_;
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);

  // What is durable.
  coordinator::RecoveredLog recovered_;
  std::map<std::string, txn::Enlistment> enlisted_;  // While it is read back.
  std::map<BatchId, txn::Decision> decisions_;
  std::map<GlobalTxnId, BatchId> batch_of_;
  std::map<std::string, BatchId> batch_of_key_;
  std::map<ClusterName, KafkaClusterId> bindings_;
  WallTime horizon_;

  std::vector<Waiting> waiting_;
  bool sync_runs_ = false;
  bool sync_wanted_ = false;
  bool lazy_sync_planned_ = false;
  bool failed_ = false;
  bool calm_ = false;
};

}  // namespace lockstep::sim
