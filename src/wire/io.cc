#include "wire/io.h"

#include <openssl/ssl.h>
#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "wire/io_thread.h"

namespace lockstep::wire {

namespace asio = boost::asio;

struct Io::KeepRunning {
  asio::executor_work_guard<asio::io_context::executor_type> guard;
};

struct Io::Alarm {
  explicit Alarm(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  Time rings = Time::max();
};

Io::Io()
    : context_(std::make_unique<asio::io_context>(1)),
      keep_running_(std::make_unique<KeepRunning>(KeepRunning{asio::make_work_guard(*context_)})),
      alarm_(std::make_unique<Alarm>(*context_)),
      thread_([this] {
        ::pthread_setname_np(::pthread_self(), "wire");
        context_->run();
      }) {}

Io::~Io() {
  context_->stop();
  thread_.join();
}

void Io::Post(std::function<void()> task) { asio::post(*context_, std::move(task)); }

Io::TimerKey Io::AddTimer(Time due, std::function<void()> task) {
  const TimerKey key{due, ++next_timer_};
  timers_.emplace(key, std::move(task));
  if (due < alarm_->rings) SetAlarm(due);
  return key;
}

void Io::SetAlarm(Time due) {
  alarm_->rings = due;
  alarm_->timer.expires_at(due);  // Another wait for it ends, with an error.
  alarm_->timer.async_wait([this](const auto& error) {
    if (!error) OnAlarm();
  });
}

void Io::OnAlarm() {
  alarm_->rings = Time::max();
  const Time now = std::chrono::steady_clock::now();
  // One by one, for each may cancel the next; those that are started meanwhile wait.
  const std::uint64_t last = next_timer_;
  for (auto due = timers_.begin(); due != timers_.end() && due->first.first <= now;) {
    if (due->first.second > last) {
      ++due;
      continue;
    }
    const auto timer = timers_.extract(due);
    timer.mapped()();
    due = timers_.begin();
  }
  if (!timers_.empty() && timers_.begin()->first.first < alarm_->rings) {
    SetAlarm(timers_.begin()->first.first);
  }
}

Timer::Timer(Io& io) : io_(io) {}

Timer::~Timer() { Cancel(); }

void Timer::Start(Duration delay, std::function<void()> task) {
  Cancel();
  key_ = io_.AddTimer(std::chrono::steady_clock::now() + delay, std::move(task));
}

void Timer::Cancel() {
  if (key_.second != 0) io_.timers_.erase(std::exchange(key_, {}));
}

IoThread::IoThread() {
  // Before the thread, and before whoever holds this is complete: at exit OpenSSL cleans up in the
  // opposite order, and by then the thread must be gone with what OpenSSL keeps for it.
  OPENSSL_init_ssl(0, nullptr);
  io_ = std::make_unique<Io>();
}
IoThread::~IoThread() = default;

}  // namespace lockstep::wire
