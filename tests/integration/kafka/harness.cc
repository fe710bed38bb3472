#include "harness.h"

#include <time.h>

#include <stdexcept>

namespace lockstep::kafka::testing {

ThreadExecutor::ThreadExecutor() : thread_([this] { Run(); }) {}

ThreadExecutor::~ThreadExecutor() { Stop(); }

void ThreadExecutor::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool ThreadExecutor::stopped() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void ThreadExecutor::Post(std::function<void()> task) {
  PostAfter(Duration::zero(), std::move(task));
}

coordinator::Executor::TimerId ThreadExecutor::PostAfter(Duration delay,
                                                         std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  const TimerId id = next_++;
  const Time due = std::chrono::steady_clock::now() + delay;
  times_.emplace(id, due);
  tasks_.emplace(std::pair(due, id), std::move(task));
  changed_.notify_all();
  return id;
}

void ThreadExecutor::Cancel(TimerId timer) {
  const std::lock_guard lock(mutex_);
  const auto due = times_.find(timer);
  if (due == times_.end()) return;
  tasks_.erase({due->second, timer});
  times_.erase(due);
}

void ThreadExecutor::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = tasks_.begin();
    if (next->first.first > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, Time(next->first.first));
      continue;
    }
    auto task = std::move(next->second);
    times_.erase(next->first.second);
    tasks_.erase(next);
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

MonoTime BootClock::Now() const {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return MonoTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

WallTime BootClock::WallNow() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
}

FakeDecisionLog::FakeDecisionLog(Folder& folder, Incarnation incarnation) : folder_(folder) {
  recovered_.log_id = folder.log_id;
  recovered_.incarnation = incarnation;
}

void FakeDecisionLog::StoreBinding(ClusterName cluster, KafkaClusterId id,
                                   coordinator::Callback<Status> done) {
  {
    const std::lock_guard lock(mutex_);
    folder_.bindings[cluster] = id;
  }
  std::thread([done = std::move(done)] { done({}); }).detach();
}

std::optional<KafkaClusterId> FakeDecisionLog::Binding(const ClusterName& cluster) const {
  const std::lock_guard lock(mutex_);
  const auto found = folder_.bindings.find(cluster);
  if (found == folder_.bindings.end()) return std::nullopt;
  return found->second;
}

Process::Process(Folder& folder, std::uint64_t incarnation)
    : log_(folder, Incarnation(incarnation)) {}

Process::~Process() {
  executor_->Stop();
  clusters_.clear();
}

KafkaCluster& Process::Add(ClusterConfig config, std::vector<TransactionalId> pending) {
  return *Ask<KafkaCluster*>([&](const std::function<void(KafkaCluster*)>& done) {
    auto cluster = KafkaCluster::Create(
        std::move(config),
        {*executor_, clock_, log_, io_, registry_, [](const Error&) { std::abort(); }});
    clusters_.push_back(cluster);
    cluster->Start(std::move(pending), [this](const std::string&) { ++superseded_; });
    done(cluster.get());
  });
}

std::unique_ptr<Branch> Process::NewBranch(KafkaCluster& cluster) {
  return std::make_unique<Branch>(*this, cluster);
}

Branch::Branch(Process& process, KafkaCluster& cluster) : executor_(process.executor()) {
  Run([&] { participant_ = cluster.NewParticipant(); });
}

Branch::~Branch() {
  Run([this] { participant_.reset(); });
}

void Branch::Run(std::function<void()> task) {
  if (executor_->stopped()) return task();
  std::promise<void> done;
  executor_->Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

std::future<txn::Vote> Branch::StartPrepare(txn::BatchWork work, Duration time) {
  const auto promise = std::make_shared<std::promise<txn::Vote>>();
  Run([&] {
    participant_->Prepare(std::move(work), clock_.Now() + time,
                          [promise, voted = voted_](txn::Vote vote) {
                            *voted = true;
                            promise->set_value(std::move(vote));
                          });
  });
  return promise->get_future();
}

std::future<txn::Vote> Branch::StartPrepare(txn::BranchWork work, Duration time) {
  return StartPrepare({{std::make_shared<const txn::BranchWork>(std::move(work))}, false}, time);
}

std::future<txn::Vote> Branch::Stream(Duration time) {
  return StartPrepare({{std::make_shared<const txn::BranchWork>()}, true}, time);
}

std::future<void> Branch::Write(txn::BranchWork piece) {
  const auto written = std::make_shared<std::promise<void>>();
  Run([&] { participant_->Write(std::move(piece), [written] { written->set_value(); }); });
  return written->get_future();
}

void Branch::Finish(Duration time) {
  Run([&] { participant_->Finish(clock_.Now() + time, true); });
}

txn::Vote Branch::Prepare(txn::BranchWork work, Duration time) {
  auto vote = StartPrepare(std::move(work), time);
  if (vote.wait_for(time + std::chrono::seconds(30)) != std::future_status::ready) {
    throw std::runtime_error("no vote");
  }
  return vote.get();
}

Status Branch::Commit() {
  const auto promise = std::make_shared<std::promise<Status>>();
  Run([&] {
    participant_->Commit([promise](Status status) { promise->set_value(std::move(status)); });
  });
  return promise->get_future().get();
}

void Branch::Abort() {
  const auto promise = std::make_shared<std::promise<void>>();
  Run([&] { participant_->Abort([promise](bool) { promise->set_value(); }); });
  promise->get_future().get();
}

void Branch::Release() {
  Run([this] { participant_->Release(); });
}

bool Eventually(const std::function<bool()>& condition, Duration limit) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

txn::Record MakeRecord(const std::string& topic, const std::string& value,
                       std::optional<std::int32_t> partition) {
  txn::Record record;
  record.topic = topic;
  record.value = value;
  record.partition = partition;
  return record;
}

txn::BranchWork Records(std::vector<txn::Record> records) {
  txn::BranchWork work;
  work.records = std::move(records);
  return work;
}

}  // namespace lockstep::kafka::testing
