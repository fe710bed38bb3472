#include "kafka/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::kafka {
namespace {

using Done = std::function<void(Result<int>)>;

TEST(InterruptTest, AwaitReturnsTheAnswerOfAnotherThread) {
  const auto interrupt = std::make_shared<Interrupt>();
  std::thread other;
  const auto answer =
      interrupt->Await<int>([&](const Done& done) { other = std::thread([done] { done(7); }); });
  other.join();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, 7);
}

TEST(InterruptTest, RaiseEndsAWaitAndTheLateAnswerIsDropped) {
  auto interrupt = std::make_shared<Interrupt>();
  Done late;
  std::thread raiser;
  const auto answer = interrupt->Await<int>([&](Done done) {
    late = std::move(done);
    raiser = std::thread([&] { interrupt->Raise(); });
  });
  raiser.join();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kAborted);
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
  interrupt.reset();
  late(7);  // Nobody is left, and nothing breaks.
}

TEST(InterruptTest, SleepTellsWhetherItWasRaised) {
  const auto interrupt = std::make_shared<Interrupt>();
  EXPECT_FALSE(interrupt->Sleep(std::chrono::milliseconds(1)));
  interrupt->Raise();
  EXPECT_TRUE(interrupt->Sleep(std::chrono::hours(1)));
  interrupt->Clear();
  EXPECT_FALSE(interrupt->raised());
}

}  // namespace
}  // namespace lockstep::kafka
