#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/load.h"
#include "lockstep/client.h"

namespace lockstep::bench {

struct Cluster {
  std::string name;       ///< In lockstepd's configuration.
  std::string bootstrap;  ///< For the modes whose producers are ours; may be empty otherwise.
};

/// What the transactions of all modes do.
struct Work {
  std::vector<Cluster> clusters;
  std::string topic = "bench";  ///< On every cluster.
  int partitions = 1;           ///< That the transactions take in turn, from 0.
  int records = 1;              ///< A cluster and transaction.
  int large_records = 10'000;   ///< The same, of plain-large and large.
  std::size_t bytes = 100;      ///< A record's value.
};

struct Options {
  std::string server;
  client::Security security;
  Work work;
  std::vector<std::string> modes;
  Pace pace;
  int rounds = 7;
  std::chrono::milliseconds warmup = std::chrono::seconds(2);
  int threads = 8;          ///< Of plain, managed and enlisted.
  int large_threads = 2;    ///< Of plain-large and large.
  int clients = 64;         ///< Of execute and call: calls under way.
  int in_flight = 1000;     ///< Of stream: transactions under way.
  int message = 100;        ///< Of stream: transactions a message, at most.
  int plain_producers = 4;  ///< Of plain: a thread and cluster, in turn.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);  ///< Of one transaction.
  std::map<std::string, std::string> librdkafka;                ///< Of producers that are ours.
  std::map<std::string, pid_t> pids;
  int open_transactions = 0;  ///< To be opened at the end, for the memory that they take.
  /// Memory that has not moved for so long has settled. By default longer than lockstepd takes to
  /// see that a peak has passed, and to give memory back.
  std::chrono::milliseconds settle = std::chrono::seconds(12);
  std::string json;  ///< Empty: none.
};

/// All modes, in the order in which they run.
const std::vector<std::string>& ModeNames();
/// The mode whose figures a mode's are divided by: of the plain pair, doing the same.
std::string BaseOf(const std::string& mode);
bool IsLarge(const std::string& mode);
/// Whether it talks to the clusters itself.
bool NeedsBootstrap(const std::string& mode);
bool NeedsServer(const std::string& mode);

/// Reads the command line. Prints help and mistakes itself; an int is then how the process is to
/// exit.
struct Parsed {
  std::optional<Options> options;
  int exit_code = 0;
};
Parsed ParseCommandLine(int argc, const char* const* argv);

}  // namespace lockstep::bench
