#include "bench/open_transactions.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/process.h"
#include "lockstep/client.h"

namespace lockstep::bench {
namespace {

using Memory = std::map<std::string, double>;

constexpr std::chrono::milliseconds kPoll(100);
constexpr std::chrono::minutes kOpenFor(5);

Memory Now(const Options& options) {
  Memory memory;
  for (const auto& [name, pid] : options.pids) memory[name] = ResidentMiB(pid).value_or(0);
  return memory;
}

Memory Settled(const Options& options) {
  // A server that is also used by others never settles: ten times as long is enough.
  const auto limit = std::chrono::steady_clock::now() + 10 * options.settle;
  Memory last = Now(options);
  auto calm_since = std::chrono::steady_clock::now();
  for (;;) {
    std::this_thread::sleep_for(kPoll);
    const auto time = std::chrono::steady_clock::now();
    Memory now = Now(options);
    if (now != last) calm_since = time;
    if (time - calm_since >= options.settle || time >= limit) return now;
    last = std::move(now);
  }
}

/// Runs `each` for every number below `count`, side by side. Throws the first failure.
void ForEach(int threads, std::size_t count,
             const std::function<client::Status(std::size_t)>& each) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::string failure;  // Guarded by mutex.
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      for (std::size_t number = next++; number < count; number = next++) {
        const client::Status status = each(number);
        if (status.ok()) continue;
        const std::lock_guard lock(mutex);
        failure = client::ToString(status.error());
        next = count;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  if (!failure.empty()) throw std::runtime_error("open transactions: " + failure);
}

}  // namespace

nlohmann::json MeasureOpenTransactions(const Options& options) {
  client::Client client(
      {.server = options.server, .security = options.security, .call_timeout = options.timeout});
  const client::Record record{
      .topic = options.work.topic, .value = std::string(options.work.bytes, 'x'), .partition = 0};
  std::vector<std::optional<client::Transaction>> open(
      static_cast<std::size_t>(options.open_transactions));
  const Memory before = Settled(options);
  ForEach(options.threads, open.size(), [&](std::size_t number) -> client::Status {
    auto txn = client.Begin({.txn_timeout = kOpenFor});
    if (!txn.ok()) return txn.error();
    open[number] = *std::move(txn);
    return open[number]->Produce(options.work.clusters.front().name, record);
  });
  const Memory with = Now(options);
  ForEach(options.threads, open.size(), [&](std::size_t number) -> client::Status {
    const auto aborted = open[number]->Abort();
    return aborted.ok() ? client::Status() : aborted.error();
  });
  return {{"count", open.size()},
          {"bytes", options.work.bytes},
          {"rss_mib", {{"before", before}, {"open", with}, {"after", Settled(options)}}}};
}

}  // namespace lockstep::bench
