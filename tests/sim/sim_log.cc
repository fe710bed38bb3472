#include "sim_log.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/planted.h"
#include "oracle.h"

namespace lockstep::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Error LogFailed() {
  return MakeError(Code::kUnavailable, "the simulated disk failed", Effect::kUnknown);
}

}  // namespace

SimLog::SimLog(SimDisk& disk, const SimOptions& options, Scheduler& scheduler, Random& random,
               Trace& trace, Oracle& oracle)
    : disk_(disk),
      options_(options),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      oracle_(oracle) {
  disk_.Open();
  oracle_.OnLogOpened();
  // Also those that were complete at once, which recovery has nothing to do for.
  for (const GlobalTxnId& id : oracle_.Begun()) {
    if (auto found = disk_.Find(id)) decisions_.emplace(found->batch, *std::move(found));
  }
  for (const auto& [batch, decision] : decisions_) oracle_.OnDecisionDurable(decision);
}

void SimLog::Append(SimDisk::Record record, std::function<void()> durable,
                    coordinator::Callback<Status> done) {
  if (failed_) {
    scheduler_.After({}, life_, [done = std::move(done)] { done(LogFailed()); });
    return;
  }
  disk_.Write(std::move(record));
  waiting_.push_back({disk_.written(), std::move(durable), std::move(done)});
}

void SimLog::StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) {
  trace_([&] { return "log: decision " + std::to_string(decision.batch.get()) + " written"; });
  oracle_.OnDecisionWritten(decision);
  if (Planted(PlantedBug::kLogAcksBeforeSync)) {
    scheduler_.After({}, life_, [done] { done({}); });
    done = [](const Status&) {};
  }
  const auto durable = [this, batch = decision.batch, member = decision.members.front()] {
    trace_([&] { return "log: decision " + std::to_string(batch.get()) + " durable"; });
    const auto stored = disk_.Find(member);
    if (!stored || stored->batch != batch) throw Violation("a durable decision is not found");
    decisions_[batch] = *stored;
    oracle_.OnDecisionDurable(*stored);
  };
  Append(std::move(decision), durable, std::move(done));
  Sync();
}

// Not synced: how much of it a crash leaves is the disk's affair.
void SimLog::StoreEnlistment(txn::Enlistment enlistment) {
  if (!failed_) disk_.Write(std::move(enlistment));
}

void SimLog::EndEnlistment(ClusterName cluster, TransactionalId id) {
  if (!failed_) disk_.Write(SimDisk::EndedEnlistment{std::move(cluster), std::move(id)});
}

void SimLog::StoreCompletion(coordinator::Completion completion, bool urgent,
                             coordinator::Callback<Status> done) {
  Append(
      completion,
      [this, completion] {
        oracle_.OnCompletionDurable(decisions_.at(completion.batch), completion.participant);
      },
      std::move(done));
  if (urgent) return Sync();
  if (std::exchange(lazy_sync_planned_, true)) return;
  scheduler_.After(milliseconds(50), life_, [this] {
    lazy_sync_planned_ = false;
    Sync();
  });
}

void SimLog::StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) {
  Append(
      SimDisk::Acknowledged{batch}, [] {}, std::move(done));
  Sync();
}

void SimLog::StoreOrder(coordinator::StoredOrder order, coordinator::Callback<Status> done) {
  Append(
      std::move(order), [] {}, std::move(done));
  Sync();
}

void SimLog::StoreBinding(ClusterName cluster, KafkaClusterId id,
                          coordinator::Callback<Status> done) {
  Append(
      log::Binding{std::move(cluster), std::move(id)}, [] {}, std::move(done));
  Sync();
}

void SimLog::StoreSuperseded(std::string, coordinator::Callback<Status>) { std::abort(); }

void SimLog::Sync() {
  if (failed_ || waiting_.empty()) return;
  if (sync_runs_) {
    sync_wanted_ = true;
    return;
  }
  sync_runs_ = true;
  Duration takes = random_.Between(microseconds(100), milliseconds(4));
  if (!calm_ && random_.Chance(options_.slow_sync)) {
    takes = random_.Between(milliseconds(100), seconds(20));
  }
  scheduler_.After(takes, life_, [this, end = disk_.written()] { SyncDone(end); });
}

void SimLog::SyncDone(std::uint64_t end) {
  sync_runs_ = false;
  if (!disk_.Sync(end)) return Fail();
  std::vector<Waiting> durable;
  while (!waiting_.empty() && waiting_.front().end <= end) {
    durable.push_back(std::move(waiting_.front()));
    waiting_.erase(waiting_.begin());
  }
  for (Waiting& entry : durable) {
    if (auto refused = disk_.Refused(entry.end)) {
      entry.done(*std::move(refused));
      continue;
    }
    entry.durable();
    entry.done({});
  }
  if (std::exchange(sync_wanted_, false)) Sync();
}

void SimLog::Fail() {
  trace_([] { return std::string("log: the sync failed"); });
  failed_ = true;
  for (Waiting& entry : std::exchange(waiting_, {})) entry.done(LogFailed());
}

std::optional<KafkaClusterId> SimLog::Binding(const ClusterName& cluster) const {
  return disk_.Binding(cluster);
}

Result<std::optional<txn::Decision>> SimLog::Find(const GlobalTxnId& txn) const {
  return disk_.Find(txn);
}

Result<std::optional<txn::Decision>> SimLog::FindKey(const std::string& key) const {
  return disk_.FindKey(key);
}

}  // namespace lockstep::sim
