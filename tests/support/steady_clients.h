#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstepd.h"

namespace lockstep::testing {

/// Clients that do one thing after another, whoever serves at the moment, and wait while nobody
/// does.
class SteadyClients {
 public:
  /// Does it, on the client's thread; `name` is its own. Throws std::runtime_error, as TestTxn
  /// does, where nobody serves: then nothing was begun.
  using One = std::function<void(const std::string& name, int n)>;

  SteadyClients(Lockstepd& daemon, int clients, One one) : daemon_(daemon), one_(std::move(one)) {
    for (int i = 0; i < clients; ++i) clients_.emplace_back([this, i] { Run(i); });
  }
  ~SteadyClients() { Finish(); }  // A start that fails throws, and is to be told.
  SteadyClients(const SteadyClients&) = delete;
  SteadyClients& operator=(const SteadyClients&) = delete;

  void Finish() {
    // First, for clients that go on would keep the lock: it prefers those who share it. Then the
    // lock, for who has not seen it yet is about to wait.
    stopping_ = true;
    { const std::unique_lock lock(server_changes_); }
    restarted_.notify_all();
    for (std::thread& client : clients_) {
      if (client.joinable()) client.join();
    }
  }

  /// Starts the server again, while no client is in a call; to them it is another one.
  void Restart() {
    const std::unique_lock lock(server_changes_);
    daemon_.Start();
    ++starts_;
    restarted_.notify_all();
  }

 private:
  void Run(int client) {
    for (int n = 0; !stopping_; ++n) {
      // Held for the whole call: a kill does not wait for it, only the next start does.
      std::shared_lock lock(server_changes_);
      const int start = starts_;
      try {
        one_(std::to_string(client) + "/" + std::to_string(n), n);
      } catch (const std::runtime_error&) {
        restarted_.wait(lock, [&] { return starts_ != start || stopping_; });
      }
    }
  }

  Lockstepd& daemon_;
  const One one_;
  std::shared_mutex server_changes_;
  std::condition_variable_any restarted_;
  int starts_ = 0;  // Guarded by server_changes_.
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> clients_;
};

}  // namespace lockstep::testing
