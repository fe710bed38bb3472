#include "wire/io.h"

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

Io::Io()
    : context_(std::make_unique<asio::io_context>(1)),
      keep_running_(std::make_unique<KeepRunning>(KeepRunning{asio::make_work_guard(*context_)})),
      thread_([this] { context_->run(); }) {}

Io::~Io() {
  context_->stop();
  thread_.join();
}

void Io::Post(std::function<void()> task) { asio::post(*context_, std::move(task)); }

struct Timer::State {
  explicit State(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  std::function<void()> task;
  std::uint64_t starts = 0;
};

Timer::Timer(Io& io) : state_(std::make_shared<State>(io.context())) {}

Timer::~Timer() { Cancel(); }

void Timer::Start(Duration delay, std::function<void()> task) {
  state_->task = std::move(task);
  state_->timer.expires_after(delay);
  // A handler may already be queued when its timer is cancelled or started anew: then it finds that
  // it is not the latest one.
  state_->timer.async_wait([state = state_, start = ++state_->starts](const auto& error) {
    if (error || start != state->starts) return;
    const std::function<void()> run = std::exchange(state->task, nullptr);
    run();
  });
}

void Timer::Cancel() {
  ++state_->starts;
  state_->task = nullptr;
  state_->timer.cancel();
}

IoThread::IoThread() : io_(std::make_unique<Io>()) {}
IoThread::~IoThread() = default;

}  // namespace lockstep::wire
