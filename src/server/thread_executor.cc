#include "server/thread_executor.h"

#include <pthread.h>
#include <time.h>

namespace lockstep::server {

ThreadExecutor::ThreadExecutor() : thread_([this] { Run(); }) {}

ThreadExecutor::~ThreadExecutor() { Stop(); }

void ThreadExecutor::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    posted_.push_back(std::move(task));
    if (!std::exchange(idle_, false)) return;
  }
  wake_.notify_one();
}

ThreadExecutor::TimerId ThreadExecutor::PostAfter(Duration delay, std::function<void()> task) {
  const Time due = std::chrono::steady_clock::now() + delay;
  TimerId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_timer_++;
    if (stopped_) return id;
    const auto added = timers_.emplace(std::pair(due, id), std::move(task)).first;
    due_.emplace(id, due);
    if (added != timers_.begin() || !std::exchange(idle_, false)) return id;
  }
  wake_.notify_one();
  return id;
}

void ThreadExecutor::Cancel(TimerId timer) {
  Timers::node_type cancelled;  // Its task is destroyed outside of the lock.
  const std::lock_guard lock(mutex_);
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  cancelled = timers_.extract({found->second, timer});
  due_.erase(found);
}

void ThreadExecutor::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  // What they hold may call us while it goes, which changes nothing any more.
  std::vector<Task> posted;
  Timers timers;
  const std::lock_guard lock(mutex_);
  posted.swap(posted_);
  timers.swap(timers_);
  due_.clear();
}

void ThreadExecutor::Run() {
  ::pthread_setname_np(::pthread_self(), "coordinator");
  std::vector<Task> tasks;
  while (!stopped_) {
    {
      std::unique_lock lock(mutex_);
      while (!stopped_ && posted_.empty()) {
        const Time now = std::chrono::steady_clock::now();
        if (!timers_.empty() && timers_.begin()->first.first <= now) break;
        idle_ = true;
        if (timers_.empty()) {
          wake_.wait(lock);
        } else {
          // A copy: the timer may be cancelled meanwhile.
          const Time due = timers_.begin()->first.first;
          wake_.wait_until(lock, due);
        }
        idle_ = false;
      }
      tasks.swap(posted_);
    }
    RunAll(tasks);
    tasks.clear();
    // One by one, for each may cancel the next; what becomes due meanwhile waits for its turn.
    const Time now = std::chrono::steady_clock::now();
    while (!stopped_) {
      const Timers::node_type due = TakeDue(now);
      if (due.empty()) break;
      due.mapped()();
    }
  }
}

void ThreadExecutor::RunAll(std::vector<Task>& tasks) {
  for (Task& task : tasks) {
    if (stopped_) return;
    task();
    task = nullptr;  // What it holds goes before the next one runs.
  }
}

ThreadExecutor::Timers::node_type ThreadExecutor::TakeDue(Time now) {
  const std::lock_guard lock(mutex_);
  if (timers_.empty() || timers_.begin()->first.first > now) return {};
  due_.erase(timers_.begin()->first.second);
  return timers_.extract(timers_.begin());
}

MonoTime SystemClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return MonoTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

WallTime SystemClock::WallNow() const {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return WallTime{now.tv_sec * 1000 + now.tv_nsec / 1'000'000};
}

}  // namespace lockstep::server
