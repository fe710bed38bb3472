#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "log/rocks_decision_log.h"
#include "temp_dir.h"

namespace lockstep::log {

class TempDir : public testing_support::TempDir {
 public:
  std::filesystem::path data() const { return path() / "data"; }
};

/// Wall time as the test sets it.
class FakeClock : public coordinator::Clock {
 public:
  MonoTime Now() const override { return {}; }
  WallTime WallNow() const override { return WallTime{now_ms.load()}; }
  std::atomic<std::int64_t> now_ms{1'700'000'000'000};
};

/// Collects what `done` was told, in the order in which it was told.
class Answers {
 public:
  /// The `done` of one append. `id` names it in the test.
  coordinator::Callback<Status> Expect(std::uint64_t id);
  /// Blocks until `count` appends in all were answered.
  void Wait(std::size_t count);
  std::vector<std::uint64_t> order() const;
  /// The answer; none yet.
  std::optional<Status> Of(std::uint64_t id) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> order_;
  std::map<std::uint64_t, Status> answers_;
};

/// A decision over `participants` clusters ("c0", "c1", ...) with one member, TxnOf(batch).
txn::Decision DecisionOf(std::uint64_t batch, int participants = 2, std::int64_t decided_at_ms = 0);
GlobalTxnId TxnOf(std::uint64_t batch);

/// Of the producer "app" on "c0", in TxnOf(txn).
txn::Enlistment EnlistmentOf(std::uint64_t txn, const std::string& id = "app");

/// Blocks until the append is answered.
Status StoreNow(RocksDecisionLog& log, const txn::Decision& decision);
Status CompleteNow(RocksDecisionLog& log, std::uint64_t batch, std::uint32_t participant,
                   txn::ParticipantOutcome outcome = txn::ParticipantOutcome::kCommitted);
Status AcknowledgeNow(RocksDecisionLog& log, std::uint64_t batch);

/// Opens, or aborts the test program with the error.
std::unique_ptr<RocksDecisionLog> MustOpen(const OpenOptions& options);

/// The bytes of a file.
std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, const std::string& bytes);
/// The files of a folder whose names end so, in order.
std::vector<std::filesystem::path> FilesIn(const std::filesystem::path& folder,
                                           const std::string& name_end);

}  // namespace lockstep::log
