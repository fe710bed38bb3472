#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/load.h"
#include "bench/options.h"

namespace lockstep::bench {

/// One way of running the transactions of Options::work. Made once, with its connections, and then
/// run in turn with others.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Runs transactions for as long as there are tickets. Blocks until all have ended, well or not.
  virtual void Run(Tickets& tickets, Recorder& recorder) = 0;

  /// Kafka requests that this process sent so far for its transactions; 0 where another process
  /// sends them.
  virtual std::uint64_t KafkaRequests() const { return 0; }
};

/// `name` is one of ModeNames(). Connects where the mode has producers of its own. Throws
/// std::runtime_error, for people, where that fails.
std::unique_ptr<Mode> MakeMode(const std::string& name, const Options& options);

/// `threads` threads, each with one transaction at a time: `run_one` is called with the thread's
/// number and the moment that the transaction was due.
void RunThreads(int threads, Tickets& tickets, const std::function<void(int, TimePoint)>& run_one);

// Each mode is made in the file that is named after what carries it.
std::unique_ptr<Mode> MakePlain(const Options& options, bool large);
std::unique_ptr<Mode> MakeManaged(const Options& options);
std::unique_ptr<Mode> MakeLarge(const Options& options);
std::unique_ptr<Mode> MakeEnlisted(const Options& options);
std::unique_ptr<Mode> MakeExecute(const Options& options);
std::unique_ptr<Mode> MakeCall(const Options& options);
std::unique_ptr<Mode> MakeStream(const Options& options);

}  // namespace lockstep::bench
