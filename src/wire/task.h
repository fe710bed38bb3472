#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

/// Coroutines, so that "ask, wait, ask somebody else" reads from top to bottom. Loop thread only.
/// No exceptions: one that escapes a task ends the process.
namespace lockstep::wire {

/// A coroutine that yields a T. Starts when awaited; awaited exactly once.
template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept { return ResumeAwaiter{}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { std::terminate(); }

    std::coroutine_handle<> awaiter;
    std::optional<T> value;
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  struct ResumeAwaiter {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle done) noexcept { return done.promise().awaiter; }
    void await_resume() noexcept {}
  };

  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

/// A coroutine that nobody awaits: it runs at once, and cleans up after itself.
struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming)
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// Runs tasks side by side; yields their results, in their order, once all are done.
template <typename T>
class [[nodiscard]] All {
 public:
  explicit All(std::vector<Task<T>> tasks) : tasks_(std::move(tasks)), results_(tasks_.size()) {}

  bool await_ready() const noexcept { return tasks_.empty(); }
  bool await_suspend(std::coroutine_handle<> awaiter) {
    // One more than there are tasks, so that none of them can resume us while we start the others.
    left_ = tasks_.size() + 1;
    awaiter_ = awaiter;
    for (std::size_t i = 0; i < tasks_.size(); ++i) Run(i);
    return --left_ > 0;
  }
  std::vector<T> await_resume() {
    std::vector<T> results;
    results.reserve(results_.size());
    for (auto& result : results_) results.push_back(std::move(*result));
    return results;
  }

 private:
  Detached Run(std::size_t i) {
    results_[i] = co_await std::move(tasks_[i]);
    if (--left_ == 0) awaiter_.resume();
  }

  std::vector<Task<T>> tasks_;
  std::vector<std::optional<T>> results_;
  std::size_t left_ = 0;
  std::coroutine_handle<> awaiter_;
};

}  // namespace lockstep::wire
