#include "log/rocks_decision_log.h"

#include <pthread.h>
#include <rocksdb/perf_level.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/failpoint.h"
#include "base/planted.h"
#include "log/store.h"

namespace lockstep::log {
namespace {

/// A write's size: a large group is written in several syncs, to keep RocksDB's buffers small.
constexpr std::size_t kMaxWriteBytes = std::size_t{2} << 20;

Error FailpointError(std::string_view name) {
  return MakeError(Code::kUnavailable, "decision log: failed by failpoint " + std::string(name),
                   Effect::kUnknown);
}

}  // namespace

Result<std::unique_ptr<RocksDecisionLog>> Open(const OpenOptions& options) {
  Result<std::unique_ptr<Store>> store = Store::Open(options);
  if (!store.ok()) return store.error();
  return std::unique_ptr<RocksDecisionLog>(new RocksDecisionLog(options, *std::move(store)));
}

RocksDecisionLog::RocksDecisionLog(const OpenOptions& options, std::unique_ptr<Store> store)
    : lazy_sync_interval_(options.lazy_sync_interval),
      forget_interval_(options.forget_interval),
      max_queued_(options.max_queued),
      store_(std::move(store)),
      next_forget_(std::chrono::steady_clock::now() + options.forget_interval),
      writer_([this] { Run(); }) {}

RocksDecisionLog::~RocksDecisionLog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  writer_.join();
}

const coordinator::RecoveredLog& RocksDecisionLog::recovered() const { return store_->recovered(); }

void RocksDecisionLog::StoreDecision(txn::Decision decision, coordinator::Callback<Status> done) {
  Enqueue(std::move(decision), true, std::move(done));
}

void RocksDecisionLog::StoreCompletion(coordinator::Completion completion, bool urgent,
                                       coordinator::Callback<Status> done) {
  Enqueue(completion, urgent, std::move(done));
}

void RocksDecisionLog::StoreEnlistment(txn::Enlistment enlistment) {
  Enqueue(std::move(enlistment), false, nullptr);
}

void RocksDecisionLog::EndEnlistment(ClusterName cluster, TransactionalId id) {
  Enqueue(EndedEnlistment{std::move(cluster), std::move(id)}, false, nullptr);
}

void RocksDecisionLog::StoreAcknowledgement(BatchId batch, coordinator::Callback<Status> done) {
  Enqueue(batch, true, std::move(done));
}

void RocksDecisionLog::StoreOrder(coordinator::StoredOrder order,
                                  coordinator::Callback<Status> done) {
  Enqueue(std::move(order), true, std::move(done));
}

void RocksDecisionLog::StoreBinding(ClusterName cluster, KafkaClusterId id,
                                    coordinator::Callback<Status> done) {
  Enqueue(log::Binding{std::move(cluster), std::move(id)}, true, std::move(done));
}

void RocksDecisionLog::StoreSuperseded(std::string why, coordinator::Callback<Status> done) {
  Enqueue(Superseded{std::move(why)}, true, std::move(done));
}

std::optional<KafkaClusterId> RocksDecisionLog::Binding(const ClusterName& cluster) const {
  return store_->Binding(cluster);
}

Result<std::optional<txn::Decision>> RocksDecisionLog::Find(const GlobalTxnId& txn) const {
  return UnlessFailed(store_->Find(txn));
}

Result<std::optional<txn::Decision>> RocksDecisionLog::FindKey(const std::string& key) const {
  return UnlessFailed(store_->FindKey(key));
}

RocksDecisionLog::Found RocksDecisionLog::UnlessFailed(Found found) const {
  const std::lock_guard lock(mutex_);
  if (failed_) return *failed_;
  return found;
}

WallTime RocksDecisionLog::Horizon() const { return store_->Horizon(); }

Result<coordinator::LogStats> RocksDecisionLog::Stats() const {
  Result<coordinator::LogStats> stats = store_->Stats();
  if (!stats.ok()) return stats;
  const std::lock_guard lock(mutex_);
  stats->queued = queue_.size();
  stats->sync_seconds = sync_seconds_;
  return stats;
}

Result<std::unique_ptr<coordinator::LogBackup>> RocksDecisionLog::Backup() const {
  return store_->Backup();
}

void RocksDecisionLog::Enqueue(What what, bool urgent, coordinator::Callback<Status> done) {
  {
    const std::lock_guard lock(mutex_);
    Append append{std::move(what), std::move(done), {}};
    if (queue_.size() >= max_queued_) {
      if (append.done == nullptr) return;
      // Its payload is dropped at once; its `done` must come from the writer.
      append = {BatchId(), std::move(append.done),
                MakeError(Code::kResourceExhausted,
                          "decision log: " + std::to_string(max_queued_) +
                              " records wait to be written; this one was not taken")};
    }
    if (queue_.empty()) oldest_queued_ = std::chrono::steady_clock::now();
    queue_.push_back(std::move(append));
    urgent_ = urgent_ || urgent;
    // Woken for the first lazy one too: it sets the time by which the sync is due.
    if (!urgent && queue_.size() > 1) return;
  }
  wake_.notify_one();
}

void RocksDecisionLog::Run() {
  ::pthread_setname_np(::pthread_self(), "decision-log");
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);  // Nobody reads its counters.
  for (bool stopping = false; !stopping;) {
    std::vector<Append> appends = WaitForAppends(stopping);
    WriteAll(std::move(appends));
    if (!stopping) ForgetIfDue();
  }
}

/// Returns what is to be written now; nothing if it is time to forget, or to stop.
std::vector<RocksDecisionLog::Append> RocksDecisionLog::WaitForAppends(bool& stopping) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const SteadyTime lazy_due = oldest_queued_ + lazy_sync_interval_;
    if (stop_ || urgent_ || (!queue_.empty() && now >= lazy_due)) break;
    if (now >= next_forget_) return {};
    wake_.wait_until(lock, queue_.empty() ? next_forget_ : std::min(next_forget_, lazy_due));
  }
  stopping = stop_;
  urgent_ = false;
  return std::exchange(queue_, {});
}

void RocksDecisionLog::WriteAll(std::vector<Append> appends) {
  for (auto next = appends.begin(); next != appends.end();) {
    const auto first = next;
    do {
      if (next->status.ok()) next->status = Add(next->what);
      ++next;
    } while (next != appends.end() && store_->added_bytes() < kMaxWriteBytes);
    const bool early = Planted(PlantedBug::kLogAcksBeforeSync);
    if (early) Answer({first, next}, {});
    const Status written = Write(
        std::any_of(first, next, [](const Append& append) { return append.done != nullptr; }));
    if (!early) Answer({first, next}, written);
  }
}

Status RocksDecisionLog::Add(const What& what) {
  if (failed_) return {};  // Write tells.
  if (const auto* batch = std::get_if<BatchId>(&what)) return store_->AddAcknowledgement(*batch);
  if (const auto* decision = std::get_if<txn::Decision>(&what)) return store_->Add(*decision);
  if (const auto* order = std::get_if<coordinator::StoredOrder>(&what)) return store_->Add(*order);
  if (const auto* binding = std::get_if<log::Binding>(&what)) return store_->Add(*binding);
  if (const auto* superseded = std::get_if<Superseded>(&what)) return store_->Add(*superseded);
  if (const auto* enlistment = std::get_if<txn::Enlistment>(&what)) return store_->Add(*enlistment);
  if (const auto* ended = std::get_if<EndedEnlistment>(&what)) {
    store_->EndEnlistment(ended->cluster, ended->id);
    return {};
  }
  return store_->Add(std::get<coordinator::Completion>(what));
}

Status RocksDecisionLog::Write(bool sync) {
  if (failed_) return *failed_;
  Status status;
  if (sync && FailpointHit(Failpoint::kLogBeforeSync)) {
    status = FailpointError("log.before_sync");
  } else {
    status = WriteMeasured(sync);
    if (sync && FailpointHit(Failpoint::kLogAfterSync)) status = FailpointError("log.after_sync");
  }
  if (!status.ok()) Fail(status.error());
  return status;
}

Status RocksDecisionLog::WriteMeasured(bool sync) {
  const SteadyTime start = std::chrono::steady_clock::now();
  Status status = store_->Write(sync);
  if (sync && status.ok()) {
    const Duration took = std::chrono::steady_clock::now() - start;
    const std::lock_guard lock(mutex_);
    sync_seconds_.Add(took);
  }
  return status;
}

void RocksDecisionLog::Answer(std::span<const Append> appends, const Status& written) {
  for (const Append& append : appends) {
    if (append.done != nullptr) append.done(append.status.ok() ? written : append.status);
  }
}

void RocksDecisionLog::ForgetIfDue() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now < next_forget_) return;
  next_forget_ = now + forget_interval_;
  if (failed_) return;
  const Result<bool> more = store_->ForgetSome();
  if (!more.ok()) return Fail(more.error());
  if (*more) next_forget_ = now;
}

void RocksDecisionLog::Fail(Error error) {
  error.effect = Effect::kUnknown;
  error.code = Code::kUnavailable;
  if (Planted(PlantedBug::kWritesAfterFailure)) return;
  const std::lock_guard lock(mutex_);
  failed_ = std::move(error);
}

}  // namespace lockstep::log
