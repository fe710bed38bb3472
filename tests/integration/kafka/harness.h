#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/ports.h"
#include "kafka/cluster.h"
#include "wire/client.h"

/// One lockstepd in a test, as far as src/kafka sees it: an executor, a clock, a log.
namespace lockstep::kafka::testing {

/// A thread that runs tasks in turn, and timers.
class ThreadExecutor : public coordinator::Executor {
 public:
  ThreadExecutor();
  ~ThreadExecutor() override;
  void Post(std::function<void()> task) override;
  TimerId PostAfter(Duration delay, std::function<void()> task) override;
  void Cancel(TimerId timer) override;
  void Stop();
  bool stopped();

 private:
  using Time = std::chrono::steady_clock::time_point;
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<Time, TimerId>, std::function<void()>> tasks_;  // In the order of their time.
  std::map<TimerId, Time> times_;
  TimerId next_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

class BootClock : public coordinator::Clock {
 public:
  MonoTime Now() const override;
  WallTime WallNow() const override;
};

/// What survives a crash: the log's folder.
struct Folder {
  LogId log_id;
  std::map<ClusterName, KafkaClusterId> bindings;
};

/// Serves bindings, and fails everything else: src/kafka has no business with it.
class FakeDecisionLog : public coordinator::DecisionLog {
 public:
  FakeDecisionLog(Folder& folder, Incarnation incarnation);
  const coordinator::RecoveredLog& recovered() const override { return recovered_; }
  void StoreBinding(ClusterName cluster, KafkaClusterId id,
                    coordinator::Callback<Status> done) override;
  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const override;
  void StoreDecision(txn::Decision, coordinator::Callback<Status>) override { std::abort(); }
  void StoreEnlistment(txn::Enlistment) override {}
  void EndEnlistment(ClusterName, TransactionalId) override {}
  void StoreCompletion(coordinator::Completion, bool, coordinator::Callback<Status>) override {
    std::abort();
  }
  void StoreAcknowledgement(BatchId, coordinator::Callback<Status>) override { std::abort(); }
  void StoreOrder(coordinator::StoredOrder, coordinator::Callback<Status>) override {
    std::abort();
  }
  void StoreSuperseded(std::string, coordinator::Callback<Status>) override { std::abort(); }
  Result<std::optional<txn::Decision>> Find(const GlobalTxnId&) const override { std::abort(); }
  Result<std::optional<txn::Decision>> FindKey(const std::string&) const override { std::abort(); }
  WallTime Horizon() const override { return {}; }
  Result<coordinator::LogStats> Stats() const override { std::abort(); }
  Result<std::unique_ptr<coordinator::LogBackup>> Backup() const override { std::abort(); }

 private:
  mutable std::mutex mutex_;
  Folder& folder_;
  coordinator::RecoveredLog recovered_;
};

class Branch;

/// One start of lockstepd on a folder. Destroying it is like a kill: nothing is ended.
class Process {
 public:
  Process(Folder& folder, std::uint64_t incarnation);
  ~Process();

  KafkaCluster& Add(ClusterConfig config, std::vector<TransactionalId> pending = {});
  std::unique_ptr<Branch> NewBranch(KafkaCluster& cluster);

  /// Runs it on the executor and waits for what it hands to its callback.
  template <typename T>
  T Ask(const std::function<void(std::function<void(T)>)>& call) {
    const auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    executor_->Post([call, promise] { call([promise](T answer) { promise->set_value(answer); }); });
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      throw std::runtime_error("no answer");
    }
    return future.get();
  }

  const std::shared_ptr<ThreadExecutor>& executor() { return executor_; }
  /// How often a cluster found that the folder is an older copy.
  int superseded() const { return superseded_; }
  const BootClock& clock() const { return clock_; }
  wire::IoThread& io() { return io_; }

 private:
  BootClock clock_;
  const std::shared_ptr<ThreadExecutor> executor_ = std::make_shared<ThreadExecutor>();
  FakeDecisionLog log_;
  wire::IoThread io_;
  ClusterRegistry registry_;
  std::atomic<int> superseded_{0};
  std::vector<std::shared_ptr<KafkaCluster>> clusters_;
};

/// A participant, driven from the test's thread. Destroying it without Release is what happens to
/// it in a coordinator that goes down; it may outlive its process.
class Branch {
 public:
  Branch(Process& process, KafkaCluster& cluster);
  ~Branch();

  txn::Vote Prepare(txn::BranchWork work, Duration time = std::chrono::seconds(20));
  /// The vote may never come (see coordinator::Participant): voted() tells.
  std::future<txn::Vote> StartPrepare(txn::BranchWork work,
                                      Duration time = std::chrono::seconds(20));
  /// The vote of work that comes by Write.
  std::future<txn::Vote> Stream(Duration time = std::chrono::seconds(20));
  /// Ready once the piece is written.
  std::future<void> Write(txn::BranchWork piece);
  void Finish(Duration time = std::chrono::seconds(20));
  bool voted() const { return *voted_; }
  Status Commit();
  void Abort();
  void Release();

 private:
  std::future<txn::Vote> StartPrepare(txn::BatchWork work, Duration time);
  /// On the executor, or here if that has stopped; returns once it was done.
  void Run(std::function<void()> task);

  const std::shared_ptr<ThreadExecutor> executor_;
  const BootClock clock_;
  const std::shared_ptr<std::atomic<bool>> voted_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<coordinator::Participant> participant_;
};

/// Waits until it holds, at most half a minute; false if it does not.
bool Eventually(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(30));

txn::Record MakeRecord(const std::string& topic, const std::string& value,
                       std::optional<std::int32_t> partition = std::nullopt);
txn::BranchWork Records(std::vector<txn::Record> records);

}  // namespace lockstep::kafka::testing
