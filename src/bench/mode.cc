#include "bench/mode.h"

#include <cstdlib>
#include <thread>
#include <vector>

namespace lockstep::bench {

std::unique_ptr<Mode> MakeMode(const std::string& name, const Options& options) {
  if (name == BaseOf(name)) return MakePlain(options, IsLarge(name));
  if (name == "managed") return MakeManaged(options);
  if (name == "execute") return MakeExecute(options);
  if (name == "stream") return MakeStream(options);
  if (name == "enlisted") return MakeEnlisted(options);
  if (name == "large") return MakeLarge(options);
  if (name == "call") return MakeCall(options);
  std::abort();  // The command line has checked it.
}

void RunThreads(int threads, Tickets& tickets, const std::function<void(int, TimePoint)>& run_one) {
  std::vector<std::thread> workers;
  for (int number = 0; number < threads; ++number) {
    workers.emplace_back([&, number] {
      while (const auto due = tickets.Take()) {
        std::this_thread::sleep_until(*due);
        run_one(number, *due);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace lockstep::bench
