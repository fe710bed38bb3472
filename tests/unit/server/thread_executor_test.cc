#include "server/thread_executor.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <vector>

namespace lockstep::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

/// Everything posted before has run.
void Settle(ThreadExecutor& executor) {
  std::promise<void> done;
  executor.Post([&] { done.set_value(); });
  done.get_future().wait();
}

TEST(ThreadExecutor, RunsTasksInOrderOnOneThread) {
  ThreadExecutor executor;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    executor.Post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  Settle(executor);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(threads[static_cast<std::size_t>(i)], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(ThreadExecutor, ATimerRunsOnceItsTimeHasCome) {
  ThreadExecutor executor;
  const SystemClock clock;
  const MonoTime start = clock.Now();
  std::promise<MonoTime> ran;
  executor.PostAfter(milliseconds(20), [&] { ran.set_value(clock.Now()); });
  EXPECT_GE(ran.get_future().get() - start, milliseconds(20));
}

TEST(ThreadExecutor, AnEarlierTimerDoesNotWaitForALaterOne) {
  ThreadExecutor executor;
  executor.PostAfter(hours(1), [] { ADD_FAILURE(); });
  Settle(executor);
  std::promise<void> ran;
  executor.PostAfter(milliseconds(1), [&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(ThreadExecutor, WhatIsPostedGoesOnBesideATimerThatStartsItselfAgain) {
  ThreadExecutor executor;
  std::function<void()> again = [&] { executor.PostAfter(Duration::zero(), [&] { again(); }); };
  executor.Post([&] { again(); });
  Settle(executor);
  Settle(executor);
  executor.Stop();
}

TEST(ThreadExecutor, ACancelledTimerNeverRuns) {
  ThreadExecutor executor;
  bool ran = false;
  std::promise<void> later;
  executor.Post([&] {
    const auto timer = executor.PostAfter(milliseconds(1), [&] { ran = true; });
    // Its time passes while this task runs: it is due, but it has not run.
    const SystemClock clock;
    for (const MonoTime due = clock.Now() + milliseconds(5); clock.Now() < due;) {
    }
    executor.Cancel(timer);
    executor.Cancel(timer);  // Unknown by now: ignored.
    executor.PostAfter(milliseconds(10), [&] { later.set_value(); });
  });
  later.get_future().wait();
  EXPECT_FALSE(ran);
}

TEST(ThreadExecutor, StopDropsWhatWaits) {
  auto alive = std::make_shared<int>(0);
  {
    ThreadExecutor executor;
    executor.PostAfter(hours(1), [alive] { ADD_FAILURE(); });
    executor.Stop();
    executor.Post([alive] { ADD_FAILURE(); });
    executor.PostAfter(milliseconds(0), [alive] { ADD_FAILURE(); });
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(SystemClock, DoesNotStepBack) {
  const SystemClock clock;
  MonoTime last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const MonoTime now = clock.Now();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(clock.WallNow().ms, 1'600'000'000'000);
}

}  // namespace
}  // namespace lockstep::server
