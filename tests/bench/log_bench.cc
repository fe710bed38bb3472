// What the decision log costs: a sync, a decision for one caller and for 64 at once, opening a log
// with a past, memory, and forgetting. Everything on the disk of FOLDER, which must not exist.
//
//   log_bench FOLDER

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "log/rocks_decision_log.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
namespace stdfs = std::filesystem;
using Steady = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "log_bench: %s\n", what.c_str());
  std::exit(1);
}

double Since(Steady::time_point start) { return Milliseconds(Steady::now() - start).count(); }

class Clock : public coordinator::Clock {
 public:
  MonoTime Now() const override { return {}; }
  WallTime WallNow() const override { return WallTime{now_ms.load()}; }
  std::atomic<std::int64_t> now_ms{1'700'000'000'000};
};

/// Waits for many answers.
class Latch {
 public:
  explicit Latch(int count) : left_(count) {}
  coordinator::Callback<Status> Done() {
    return [this](Status status) {
      if (!status.ok()) Die(ToString(status.error()));
      const std::lock_guard lock(mutex_);
      if (--left_ == 0) changed_.notify_all();
    };
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_;
};

txn::Decision DecisionOf(std::uint64_t batch) {
  txn::Decision decision;
  decision.batch = BatchId(batch);
  decision.decided_at = WallTime{1'700'000'000'000};
  decision.members = {GlobalTxnId("0123456789abcdef-1-18bcfe56800-" + std::to_string(batch))};
  for (const char* cluster : {"a", "b"}) {
    txn::DecidedParticipant participant;
    participant.prepared.name = {
        .cluster = ClusterName(cluster),
        .kafka_cluster_id = KafkaClusterId("AAAAAAAAAAAAAAAAAAAAAA"),
        .transactional_id = TransactionalId(std::string("lockstep-0123456789abcdef-1-") + cluster),
        .producer_id = ProducerId(4000),
        .producer_epoch = ProducerEpoch(3),
        .start_time_ms = 1'700'000'000'000};
    participant.prepared.evidence = {{{"orders", 3}, static_cast<std::int64_t>(batch)}};
    decision.participants.push_back(participant);
  }
  return decision;
}

void PrintPercentiles(const char* what, std::vector<double> ms) {
  std::ranges::sort(ms);
  std::printf("%-44s p50 %7.3f ms  p99 %7.3f ms\n", what, ms[ms.size() / 2],
              ms[ms.size() * 99 / 100]);
}

double RssMiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

std::unique_ptr<log::RocksDecisionLog> MustOpen(const log::OpenOptions& options) {
  auto opened = log::Open(options);
  if (!opened.ok()) Die(ToString(opened.error()));
  return *std::move(opened);
}

/// The floor: the same bytes appended to a plain file.
void MeasureSync(const stdfs::path& folder) {
  const int fd = ::open((folder / "plain").c_str(), O_WRONLY | O_CREAT, 0600);
  const std::string bytes(350, 'x');
  std::vector<double> ms;
  for (int i = 0; i < 1000; ++i) {
    const auto start = Steady::now();
    if (::write(fd, bytes.data(), bytes.size()) < 0 || ::fdatasync(fd) != 0) Die("plain file");
    ms.push_back(Since(start));
  }
  ::close(fd);
  PrintPercentiles("write and fdatasync of a plain file", ms);
}

std::uint64_t MeasureCallers(log::RocksDecisionLog& log, int callers, std::uint64_t next) {
  constexpr int kEach = 1000;
  std::atomic<std::uint64_t> batch{next};
  std::vector<double> ms;
  std::mutex mutex;
  std::vector<std::thread> threads;
  const auto start = Steady::now();
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        Latch latch(1);
        const auto one = Steady::now();
        log.StoreDecision(DecisionOf(batch++), latch.Done());
        latch.Wait();
        const std::lock_guard lock(mutex);
        ms.push_back(Since(one));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const double seconds = Since(start) / 1000;
  PrintPercentiles((std::to_string(callers) + " callers: a decision").c_str(), ms);
  std::printf("%-44s %.0f/s\n", (std::to_string(callers) + " callers: decisions").c_str(),
              callers * kEach / seconds);
  return batch;
}

/// 100,000 complete decisions and 1,000 that are not.
void MeasureOpening(log::OpenOptions options, Clock& clock) {
  constexpr int kComplete = 100'000;
  constexpr int kOpen = 1'000;
  {
    const auto log = MustOpen(options);
    const auto start = Steady::now();
    for (int from = 1; from < kComplete; from += 1000) {
      Latch latch(3 * 1000);
      for (int batch = from; batch < from + 1000; ++batch) {
        log->StoreDecision(DecisionOf(static_cast<std::uint64_t>(batch)), latch.Done());
        for (std::uint32_t participant : {0u, 1u}) {
          log->StoreCompletion({BatchId(static_cast<std::uint64_t>(batch)), participant,
                                txn::ParticipantOutcome::kCommitted},
                               false, latch.Done());
        }
      }
      latch.Wait();
    }
    Latch latch(kOpen);
    for (int batch = kComplete + 1; batch <= kComplete + kOpen; ++batch) {
      log->StoreDecision(DecisionOf(static_cast<std::uint64_t>(batch)), latch.Done());
    }
    latch.Wait();
    std::printf("%-44s %.1f s, %.1f MiB resident\n", "101,000 decisions stored in",
                Since(start) / 1000, RssMiB());
  }
  std::vector<double> ms;
  for (int i = 0; i < 5; ++i) {
    const auto start = Steady::now();
    const auto log = MustOpen(options);
    ms.push_back(Since(start));
    if (log->recovered().incomplete.size() != kOpen) Die("not 1,000 incomplete");
  }
  PrintPercentiles("opening it", ms);

  clock.now_ms += std::chrono::milliseconds(std::chrono::days(8)).count();
  options.forget_interval = std::chrono::milliseconds(1);
  const auto log = MustOpen(options);
  std::printf("%-44s %.1f MiB resident\n", "open again, idle", RssMiB());
  const auto start = Steady::now();
  const GlobalTxnId last = DecisionOf(kComplete).members[0];
  while (log->Find(last)->has_value()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::printf("%-44s %.1f s, %.1f MiB resident\n", "100,000 decisions forgotten in",
              Since(start) / 1000, RssMiB());
}

std::uintmax_t SizeOf(const stdfs::path& folder) {
  std::uintmax_t size = 0;
  for (const auto& entry : stdfs::directory_iterator(folder)) size += entry.file_size();
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !stdfs::create_directory(argv[1])) Die("usage: log_bench FOLDER (a new one)");
  const stdfs::path folder = argv[1];
  MeasureSync(folder);
  Clock clock;
  log::OpenOptions options;
  options.path = folder / "log";
  options.clock = &clock;
  std::printf("%-44s %.1f MiB resident\n", "before the log", RssMiB());
  const auto start = Steady::now();
  {
    const auto log = MustOpen(options);
    std::printf("%-44s %.0f ms\n", "a new log made in", Since(start));
    std::printf("%-44s %.1f MiB resident\n", "new log, idle", RssMiB());
    const std::uint64_t next = MeasureCallers(*log, 1, 1);
    MeasureCallers(*log, 64, next);
  }
  options.path = folder / "past";
  MeasureOpening(options, clock);
  std::printf("%-44s %.1f MiB\n", "on disk after forgetting",
              static_cast<double>(SizeOf(options.path)) / (1 << 20));
  stdfs::remove_all(folder);
  return 0;
}
