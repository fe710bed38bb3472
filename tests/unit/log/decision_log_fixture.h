#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/failpoint.h"
#include "faulty_fs.h"
#include "log_test_support.h"

namespace lockstep::log {

using testing::FaultyFs;
using Op = FaultyFs::Op;
using Batches = std::vector<std::uint64_t>;

inline constexpr std::string_view kWal = ".log";
inline constexpr auto kNever = std::chrono::hours(1);

/// One log on a file system that fails as it is told.
class DecisionLogTest : public ::testing::Test {
 protected:
  DecisionLogTest() : fs_(std::make_shared<FaultyFs>(dir_.path(), 1)) {
    options_.path = dir_.data();
    options_.clock = &clock_;
    options_.file_system = fs_;
  }
  ~DecisionLogTest() override { DisarmFailpoints(); }

  void Open() { log_ = MustOpen(options_); }
  void Reopen() {
    log_.reset();
    Open();
  }
  /// The power goes, and comes back; nothing that was not synced is left.
  void Crash() {
    fs_->Kill();
    log_.reset();
    fs_->Restart(FaultyFs::Left::kOnlySynced);
  }
  int WalSyncs() const { return fs_->Count(Op::kSync, kWal); }

  static std::vector<std::uint64_t> BatchesOf(const std::vector<txn::Decision>& decisions) {
    std::vector<std::uint64_t> batches;
    for (const auto& decision : decisions) batches.push_back(decision.batch.get());
    return batches;
  }

  TempDir dir_;
  FakeClock clock_;
  std::shared_ptr<FaultyFs> fs_;
  OpenOptions options_;
  std::unique_ptr<RocksDecisionLog> log_;
};

}  // namespace lockstep::log
