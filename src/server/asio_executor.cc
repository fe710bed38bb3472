#include "server/asio_executor.h"

#include <time.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace lockstep::server {

AsioExecutor::AsioExecutor()
    : work_(boost::asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}

AsioExecutor::~AsioExecutor() { Stop(); }

void AsioExecutor::Post(std::function<void()> task) { boost::asio::post(io_, std::move(task)); }

AsioExecutor::TimerId AsioExecutor::PostAfter(Duration delay, std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  const TimerId id = next_timer_++;
  auto& timer = timers_.emplace(id, io_).first->second;
  timer.expires_after(delay);
  // Whether it still stands in timers_ decides, not the error code: a timer that has expired may be
  // queued already when it is cancelled.
  timer.async_wait([this, id, task = std::move(task)](const boost::system::error_code&) {
    {
      const std::lock_guard relock(mutex_);
      if (timers_.erase(id) == 0) return;
    }
    task();
  });
  return id;
}

void AsioExecutor::Cancel(TimerId timer) {
  const std::lock_guard lock(mutex_);
  timers_.erase(timer);
}

void AsioExecutor::Stop() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
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
