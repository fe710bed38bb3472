#include "server/in_doubt_watch.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <sstream>
#include <thread>

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
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  std::string text() {
    const std::lock_guard lock(buffer_->mutex);
    return buffer_->text;
  }
  void Await(const std::string& line) {
    while (text().find(line) == std::string::npos) std::this_thread::yield();
  }
  int CountOf(const std::string& line) {
    int count = 0;
    const std::string all = text();
    for (auto at = all.find(line); at != std::string::npos; at = all.find(line, at + 1)) ++count;
    return count;
  }

 private:
  struct Buffer : std::streambuf {
    int overflow(int c) override {
      const std::lock_guard lock(mutex);
      text.push_back(static_cast<char>(c));
      return c;
    }
    std::mutex mutex;
    std::string text;
  };

  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<Buffer> buffer_ = std::make_shared<Buffer>();
  std::shared_ptr<std::ostream> stream_ = std::make_shared<std::ostream>(buffer_.get());
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ostream_sink_mt>(*stream_, true);
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
  captured_.Await(first + " HEURISTIC");
  EXPECT_THAT(captured_.text(), HasSubstr("east COMMITTED, west ABORTED"));
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
  captured_.Await("0123456789abcdef-1-1-1 in doubt for 6");
  EXPECT_THAT(captured_.text(), HasSubstr("1 such decisions in all: east PENDING (no broker"));
  east_.Set({});
  captured_.Await("nothing is in doubt any more");
  EXPECT_EQ(captured_.CountOf("in doubt for"), 1);
}

}  // namespace
}  // namespace lockstep::server
