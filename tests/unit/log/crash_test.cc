#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>

#include <rocksdb/db.h>

#include "faulty_fs.h"
#include "log/restore.h"
#include "log_test_support.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;
using testing::FaultyFs;
using txn::ParticipantOutcome;

// ---- Random histories ---------------------------------------------------------------------------

/// What a test appended, and what it was told. An append that was answered OK must be there after
/// every crash; one that was not may be there; nothing else may.
struct Expected {
  struct Outcome {
    ParticipantOutcome outcome = ParticipantOutcome::kPending;  // As appended.
    bool durable = false;
  };
  txn::Decision decision;
  bool durable = false;
  std::vector<Outcome> outcomes;
  bool acknowledged = false;  // Appended.
  bool acknowledged_durable = false;
};

/// One history: some incarnations of one log, each ended by a loss of power at a random change of
/// the disk, with everything checked at each start.
class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed), fs_(std::make_shared<FaultyFs>(dir_.path(), seed)) {
    options_.path = dir_.data();
    options_.clock = &clock_;
    options_.file_system = fs_;
    options_.lazy_sync_interval = std::chrono::milliseconds(1);
    forgets_ = Chance(2);
    large_ = Chance(4);
    if (forgets_) {
      options_.retention.time = std::chrono::milliseconds(50);
      options_.forget_interval = std::chrono::milliseconds(2);
    }
  }

  /// What went wrong; empty if nothing did.
  std::string Run() {
    for (int start = 0; start < 4 && problem_.empty(); ++start) {
      fs_->KillAt(static_cast<int>(1 + random_() % 250));
      auto log = Open(options_);
      if (log.ok()) {
        Check(**log);
        if (problem_.empty()) AppendUntilKilled(**log);
      } else if (!fs_->killed()) {
        Problem("does not open: " + ToString(log.error()));
      }
      fs_->Kill();
      if (log.ok()) log->reset();
      TakeAnswers();
      fs_->Restart(Chance(2) ? FaultyFs::Left::kRandom : FaultyFs::Left::kOnlySynced);
    }
    if (!problem_.empty()) return problem_;
    const auto log = Open(options_);
    if (!log.ok()) return "does not open at the end: " + ToString(log.error());
    Check(**log);
    return problem_;
  }

 private:
  bool Chance(int one_in) { return random_() % static_cast<unsigned>(one_in) == 0; }
  void Problem(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  // -- Appending

  void AppendUntilKilled(RocksDecisionLog& log) {
    for (int i = 0; i < 120 && !fs_->killed(); ++i) {
      if (Chance(3)) {
        AppendDecision(log);
      } else if (Chance(2)) {
        Enlist(log);
      } else {
        AppendMore(log);
      }
      if (Chance(3)) answers_->Wait(sent_);
      clock_.now_ms += static_cast<int>(random_() % 20);
    }
    if (!fs_->killed() && Chance(2)) answers_->Wait(sent_);
  }

  coordinator::Callback<Status> Expect(std::function<void()> when_durable) {
    effects_.push_back(std::move(when_durable));
    return answers_->Expect(sent_++);
  }

  void AppendDecision(RocksDecisionLog& log) {
    const std::uint64_t batch = next_batch_++;
    Expected& expected = expected_[batch];
    expected.decision = DecisionOf(batch, static_cast<int>(random_() % 4), clock_.now_ms.load());
    for (std::uint64_t i = 0; i < random_() % 3; ++i) {
      expected.decision.members.push_back(TxnOf(batch * 1000 + i));
    }
    if (large_ && Chance(5) && !expected.decision.participants.empty()) {
      // A few of them are more than RocksDB keeps in memory: table files are written.
      expected.decision.participants[0].prepared.evidence[0].partition.topic.assign(2 << 20, 'x');
    }
    expected.outcomes.resize(expected.decision.participants.size());
    // What was enlisted before the decision is in front of it in the log.
    const auto durable = [this, &expected, enlisted = enlisted_.size()] {
      expected.durable = true;
      enlisted_durable_ = std::max(enlisted_durable_, enlisted);
    };
    log.StoreDecision(expected.decision, Expect(durable));
  }

  /// Nobody is told when an enlistment is durable, and none ends: each is another producer's.
  void Enlist(RocksDecisionLog& log) {
    enlisted_.push_back(EnlistmentOf(next_enlisted_, "app-" + std::to_string(next_enlisted_)));
    ++next_enlisted_;
    log.StoreEnlistment(enlisted_.back());
  }

  /// A completion of what is decided durably and pending, or an acknowledgement.
  void AppendMore(RocksDecisionLog& log) {
    TakeAnswers();
    for (auto& [batch, expected] : expected_) {
      if (!expected.durable || !Chance(3)) continue;
      for (std::uint32_t i = 0; i < expected.outcomes.size(); ++i) {
        Expected::Outcome& outcome = expected.outcomes[i];
        if (outcome.outcome != ParticipantOutcome::kPending) continue;
        outcome.outcome = Chance(10)  ? ParticipantOutcome::kUnknown
                          : Chance(9) ? ParticipantOutcome::kAborted
                                      : ParticipantOutcome::kCommitted;
        return log.StoreCompletion({BatchId(batch), i, outcome.outcome}, false,
                                   Expect([&outcome] { outcome.durable = true; }));
      }
      if (IsHeuristic(expected) && !expected.acknowledged) {
        expected.acknowledged = true;
        return log.StoreAcknowledgement(
            BatchId(batch), Expect([&expected] { expected.acknowledged_durable = true; }));
      }
    }
  }

  static bool IsHeuristic(const Expected& expected) {
    return std::ranges::all_of(expected.outcomes, [](const auto& o) { return o.durable; }) &&
           std::ranges::any_of(expected.outcomes, [](const auto& o) {
             return o.outcome != ParticipantOutcome::kCommitted;
           });
  }

  /// What was answered OK by now is promised.
  void TakeAnswers() {
    for (std::size_t i = 0; i < effects_.size(); ++i) {
      const auto answer = answers_->Of(i);
      if (!answer || effects_[i] == nullptr) continue;
      if (answer->ok()) {
        effects_[i]();
      } else if (answer->error().effect != Effect::kUnknown) {
        Problem("an append was refused: " + ToString(answer->error()));
      }
      effects_[i] = nullptr;
    }
  }

  // -- Checking

  void Check(RocksDecisionLog& log) {
    answers_ = std::make_unique<Answers>();
    effects_.clear();
    sent_ = 0;
    CheckIdentity(log);
    for (auto it = expected_.begin(); it != expected_.end() && problem_.empty();) {
      const auto found = log.Find(it->second.decision.members[0]);
      // A log that forgets may meet the kill in the background, while we look.
      if (!found.ok() && fs_->killed()) return;
      if (!found.ok()) return Problem("finding failed: " + ToString(found.error()));
      if (found->has_value()) {
        CheckFound(**found, it->second);
        ++it;
        continue;
      }
      // Its number may be given again, and with it, in this test, its members' ids.
      CheckMissing(log, it->second);
      it = expected_.erase(it);
    }
    CheckLists(log.recovered());
    CheckEnlisted(log.recovered());
  }

  /// A crash takes the last of them only, and none from before what it left.
  void CheckEnlisted(const coordinator::RecoveredLog& recovered) {
    std::vector<txn::Enlistment> found = recovered.enlisted;
    std::ranges::sort(found, {}, [](const auto& e) { return e.name.producer_epoch; });
    if (found.size() < enlisted_durable_) return Problem("an enlistment is lost");
    if (found.size() > enlisted_.size()) return Problem("an enlistment came from nowhere");
    enlisted_.resize(found.size());
    if (found != enlisted_) return Problem("an enlistment is lost, and not the latest");
    enlisted_durable_ = enlisted_.size();
  }

  void CheckIdentity(const RocksDecisionLog& log) {
    const auto& recovered = log.recovered();
    if (log_id_ && *log_id_ != recovered.log_id) Problem("another log id");
    if (recovered.incarnation <= incarnation_) Problem("an incarnation came twice");
    for (const auto& [batch, expected] : expected_) {
      if (expected.durable && recovered.next_batch.get() <= batch) Problem("a batch number again");
    }
    log_id_ = recovered.log_id;
    incarnation_ = recovered.incarnation;
    next_batch_ = recovered.next_batch.get();
  }

  void CheckFound(const txn::Decision& found, Expected& expected) {
    const std::string batch = "batch " + std::to_string(found.batch.get());
    expected.durable = true;  // Seen: it must not vanish any more.
    if (found.members != expected.decision.members) return Problem(batch + ": other members");
    for (std::size_t i = 0; i < expected.outcomes.size(); ++i) {
      const txn::DecidedParticipant& participant = found.participants[i];
      Expected::Outcome& outcome = expected.outcomes[i];
      if (participant.prepared != expected.decision.participants[i].prepared) {
        return Problem(batch + ": another participant");
      }
      if (participant.outcome == ParticipantOutcome::kPending) {
        if (outcome.durable) return Problem(batch + ": a completion is lost");
        outcome.outcome = ParticipantOutcome::kPending;
        continue;
      }
      if (participant.outcome != outcome.outcome) return Problem(batch + ": another outcome");
      outcome.durable = true;
    }
    if (!found.acknowledged && expected.acknowledged_durable) {
      return Problem(batch + ": an acknowledgement is lost");
    }
    if (found.acknowledged && !expected.acknowledged) {
      return Problem(batch + ": an acknowledgement came from nowhere");
    }
    expected.acknowledged = expected.acknowledged_durable = found.acknowledged;
  }

  void CheckMissing(const RocksDecisionLog& log, const Expected& expected) {
    if (!expected.durable) return;
    const std::string batch = "batch " + std::to_string(expected.decision.batch.get());
    if (!forgets_) return Problem(batch + " is lost");
    // It may have been forgotten, if it was settled; then the horizon says so.
    bool settled = true;
    bool heuristic = false;
    for (const auto& outcome : expected.outcomes) {
      settled = settled && outcome.outcome != ParticipantOutcome::kPending;
      heuristic = heuristic || outcome.outcome != ParticipantOutcome::kCommitted;
    }
    if (!settled || (heuristic && !expected.acknowledged)) {
      return Problem(batch + " is lost, or was forgotten while open");
    }
    if (expected.decision.decided_at > log.Horizon()) {
      return Problem(batch + " is lost, or was forgotten behind the horizon's back");
    }
  }

  void CheckLists(const coordinator::RecoveredLog& recovered) {
    std::vector<BatchId> incomplete;
    std::vector<BatchId> heuristic;
    for (const auto& [batch, expected] : expected_) {
      const bool pending = std::ranges::any_of(expected.outcomes, [](const auto& o) {
        return o.outcome == ParticipantOutcome::kPending;
      });
      if (pending) {
        incomplete.emplace_back(batch);
      } else if (IsHeuristic(expected) && !expected.acknowledged) {
        heuristic.emplace_back(batch);
      }
    }
    const auto batches = [](const std::vector<txn::Decision>& decisions) {
      std::vector<BatchId> out;
      for (const auto& decision : decisions) out.push_back(decision.batch);
      return out;
    };
    if (batches(recovered.incomplete) != incomplete) Problem("other incomplete batches");
    if (batches(recovered.heuristic) != heuristic) Problem("other heuristic batches");
  }

  std::mt19937_64 random_;
  TempDir dir_;
  FakeClock clock_;
  std::shared_ptr<FaultyFs> fs_;
  OpenOptions options_;
  bool forgets_ = false;
  bool large_ = false;

  std::map<std::uint64_t, Expected> expected_;
  std::unique_ptr<Answers> answers_ = std::make_unique<Answers>();
  std::vector<std::function<void()>> effects_;  // Of each append of this start, once answered OK.
  std::size_t sent_ = 0;

  std::vector<txn::Enlistment> enlisted_;  // In the order of the appends.
  std::size_t enlisted_durable_ = 0;       // So many of them.
  std::uint64_t next_enlisted_ = 1'000'000;

  std::optional<LogId> log_id_;
  Incarnation incarnation_;
  std::uint64_t next_batch_ = 1;
  std::string problem_;
};

constexpr std::uint64_t kHistories = 40;

/// LOCKSTEP_LOG_SEEDS=N runs N histories instead, for the long runs.
std::uint64_t Histories() {
  const char* wanted = std::getenv("LOCKSTEP_LOG_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : kHistories;
}

TEST(LogCrashes, WhatWasAnsweredIsThereAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= Histories(); ++seed) {
    ASSERT_EQ(History(seed).Run(), "") << "seed " << seed;
  }
}

// ---- A crash while the log is made --------------------------------------------------------------

TEST(LogCrashes, ACrashAtAnyChangeWhileTheLogIsMadeLeavesNothingToMend) {
  bool finished = false;
  for (int change = 1; !finished; ++change) {
    ASSERT_LT(change, 500);
    for (const auto left : {FaultyFs::Left::kOnlySynced, FaultyFs::Left::kRandom}) {
      TempDir dir;
      FakeClock clock;
      const auto fs = std::make_shared<FaultyFs>(dir.path(), change);
      OpenOptions options;
      options.path = dir.data();
      options.clock = &clock;
      options.file_system = fs;
      fs->KillAt(change);
      std::optional<LogId> log_id;
      if (const auto log = Open(options); log.ok()) log_id = (*log)->recovered().log_id;
      finished = !fs->killed();
      fs->Kill();
      fs->Restart(left);

      const auto log = Open(options);
      ASSERT_TRUE(log.ok()) << "change " << change << ": " << ToString(log.error());
      ASSERT_TRUE(StoreNow(**log, DecisionOf(1)).ok());
      EXPECT_FALSE(stdfs::exists(dir.data() / "CREATING"));
      if (log_id) {
        EXPECT_EQ((*log)->recovered().log_id, *log_id);
        EXPECT_EQ((*log)->recovered().incarnation, Incarnation(2));
      }
    }
  }
}

// ---- A torn tail --------------------------------------------------------------------------------

TEST(LogCrashes, ATornTailIsDroppedAndNothingBeforeIt) {
  TempDir dir;
  FakeClock clock;
  OpenOptions options;
  options.path = dir.data();
  options.clock = &clock;
  std::size_t whole = 0;
  std::size_t synced = 0;
  stdfs::path wal;
  {
    const auto log = MustOpen(options);
    ASSERT_TRUE(StoreNow(*log, DecisionOf(1)).ok());
    wal = FilesIn(dir.data(), ".log").back();
    synced = ReadFile(wal).size();
    ASSERT_TRUE(StoreNow(*log, DecisionOf(2)).ok());  // Its sync is what the crash takes away.
    whole = ReadFile(wal).size();
  }
  const stdfs::path original = dir.path() / "original";
  stdfs::rename(dir.data(), original);
  int torn = 0;
  for (std::size_t size = synced; size < whole; size += 1 + (whole - synced) / 40) {
    stdfs::remove_all(dir.data());
    stdfs::copy(original, dir.data());
    stdfs::resize_file(wal, size);
    {  // Torn indeed: RocksDB's strictest mode, which knows no tail, refuses it.
      rocksdb::Options strict;
      strict.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
      rocksdb::DB* db = nullptr;
      torn += rocksdb::DB::OpenForReadOnly(strict, dir.data(), &db).IsCorruption() ? 1 : 0;
      delete db;
    }
    const auto log = MustOpen(options);
    EXPECT_EQ(log->Find(TxnOf(1))->value(), DecisionOf(1)) << size;
    EXPECT_FALSE(log->Find(TxnOf(2))->has_value()) << size;
    EXPECT_EQ(log->recovered().incomplete.size(), 1u) << size;
    ASSERT_TRUE(StoreNow(*log, DecisionOf(2)).ok()) << size;
  }
  EXPECT_GT(torn, 30);
}

// ---- A restore that does not end ----------------------------------------------------------------

std::string BackupOf(const OpenOptions& options, int decisions) {
  const auto log = MustOpen(options);
  for (int batch = 1; batch <= decisions; ++batch) {
    EXPECT_TRUE(StoreNow(*log, DecisionOf(static_cast<std::uint64_t>(batch))).ok());
  }
  const auto backup = log->Backup();
  std::string bytes;
  for (;;) {
    const Result<std::string> piece = (*backup)->Next();
    if (!piece.ok() || piece->empty()) return bytes;
    bytes += *piece;
  }
}

TEST(LogCrashes, WhereverARestoreIsCutOffTheFolderIsRefusedOrWholeOrWithoutALog) {
  constexpr int kDecisions = 20;
  const TempDir dir;
  FakeClock clock;
  OpenOptions original;
  original.path = dir.path() / "original";
  original.clock = &clock;
  const std::string bytes = BackupOf(original, kDecisions);
  int refused = 0;
  int whole = 0;
  for (int kill_at = 1; whole < 3; ++kill_at) {
    SCOPED_TRACE("killed at change " + std::to_string(kill_at) + " of the disk");
    const stdfs::path root = dir.path() / std::to_string(kill_at);
    stdfs::create_directory(root);
    const auto fs = std::make_shared<FaultyFs>(root, static_cast<std::uint64_t>(kill_at));
    OpenOptions options;
    options.path = root / "restored";
    options.clock = &clock;
    options.file_system = fs;
    const auto source = [&bytes] {
      return [&bytes, at = std::size_t{0}]() mutable -> Result<std::string> {
        std::string piece = bytes.substr(at, 1000);
        at += piece.size();
        return piece;
      };
    };
    fs->KillAt(kill_at);
    const bool ended = Restore(options, source()).ok();
    fs->Kill();
    fs->Restart(kill_at % 2 == 0 ? FaultyFs::Left::kRandom : FaultyFs::Left::kOnlySynced);

    options.create_if_missing = false;
    {
      const auto opened = Open(options);
      if (opened.ok()) {
        ++whole;
        EXPECT_EQ((*opened)->recovered().incomplete.size(), kDecisions);
        EXPECT_EQ((*opened)->recovered().origins.size(), 1u);
        continue;
      }
      ASSERT_FALSE(ended) << ToString(opened.error());
      if (opened.error().code == Code::kFailedPrecondition) {
        ++refused;
        EXPECT_NE(opened.error().message.find("did not end: restore again"), std::string::npos)
            << ToString(opened.error());
      } else {
        EXPECT_EQ(opened.error().code, Code::kNotFound) << ToString(opened.error());
      }
    }
    ASSERT_TRUE(Restore(options, source()).ok());
    EXPECT_EQ(MustOpen(options)->recovered().incomplete.size(), kDecisions);
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace lockstep::log
