#include "server/in_doubt_watch.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "api_fixture.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

/// What the process logs, for a while.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
  }
  ~CapturedLog() {
    // The server's threads may be inside the logger that they took a moment ago: it stays.
    static std::vector<std::shared_ptr<spdlog::logger>> retired;
    retired.push_back(spdlog::default_logger());
    spdlog::set_default_logger(before_);
  }

  /// Returns the first line with this in it.
  std::string Await(const std::string& part) { return sink_->Await(part); }
  /// How many lines so far have this in them.
  std::ptrdiff_t CountOf(const std::string& part) { return sink_->CountOf(part); }

 private:
  class Lines : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string Await(const std::string& part) {
      std::unique_lock lock(lines_mutex_);
      const auto has = [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      };
      auto found = lines_.end();
      more_.wait(lock, [&] {
        found = std::find_if(lines_.begin(), lines_.end(), has);
        return found != lines_.end();
      });
      return *found;
    }
    std::ptrdiff_t CountOf(const std::string& part) {
      const std::lock_guard lock(lines_mutex_);
      return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      });
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::lock_guard lock(lines_mutex_);
      lines_.emplace_back(message.payload.data(), message.payload.size());
      more_.notify_all();
    }
    void flush_() override {}

    std::mutex lines_mutex_;
    std::condition_variable more_;
    std::deque<std::string> lines_;
  };

  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<Lines> sink_ = std::make_shared<Lines>();
};

class InDoubtWatchTest : public ApiFixture {
 protected:
  CapturedLog captured_;
};

TEST_F(InDoubtWatchTest, AHeuristicOutcomeIsAnErrorInTheLogOnce) {
  west_.Set({.aborted_it = true});
  Serve();
  const std::string first = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(first, &response).ok());
  EXPECT_THAT(captured_.Await(first + " HEURISTIC"), HasSubstr("east COMMITTED, west ABORTED"));
  // Looked at again together with a second one: not said again.
  const std::string second = BeginWithWork();
  ASSERT_TRUE(Commit(second, &response).ok());
  captured_.Await(second + " HEURISTIC");
  EXPECT_EQ(captured_.CountOf(first + " HEURISTIC"), 1);
}

TEST_F(InDoubtWatchTest, WhatStaysInDoubtIsSaidAndSoIsItsEnd) {
  east_.Set({.commits = false});
  txn::Decision decision;
  decision.batch = BatchId(1);
  decision.decided_at = WallTime{clock_.WallNow().ms - 60'000};
  decision.members = {GlobalTxnId("0123456789abcdef-1-1-1")};
  decision.participants.resize(1);
  decision.participants[0].prepared.name.cluster = ClusterName("east");
  log_.Recover(decision);
  Serve();
  EXPECT_THAT(captured_.Await("0123456789abcdef-1-1-1 in doubt for 6"),
              HasSubstr("1 such decisions in all: east PENDING (no broker"));
  east_.Set({});
  captured_.Await("nothing is in doubt any more");
  EXPECT_EQ(captured_.CountOf("in doubt for"), 1);
}

}  // namespace
}  // namespace lockstep::server
