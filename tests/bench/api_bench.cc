// What a lockstepd process does that needs neither Kafka nor the disk: calls per second of
// BeginGlobalTxn and GetTxn, with this client beside it on the same cores, and the memory that open
// transactions take and give back. Its clusters need not be there: work is buffered until Commit.
//
//   api_bench --server HOST:PORT --pid PID --cluster NAME [--runs 7] ...
//
// The server must take --transactions open ones, and as many as begin within --begin-timeout.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "call_context.h"
#include "figures.h"
#include "lockstep/v1/coordinator.grpc.pb.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Stub = v1::Coordinator::StubInterface::async_interface;

struct Settings {
  std::string server;
  int pid = 0;
  std::string cluster;
  int runs = 7;
  int calls = 20'000;
  int in_flight = 32;
  int begin_timeout = 1;
  int transactions = 10'000;
  int record_bytes = 1024;
  int rounds = 3;
  int open_seconds = 20;
};

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "api_bench: " << what << "\n";
  std::_Exit(1);  // Calls under way are left where they are.
}

/// `count` calls of one method, `in_flight` of them at any time. Thread-safe where gRPC calls back.
template <typename Request, typename Response>
class Load {
 public:
  using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Response*,
                                std::function<void(grpc::Status)>);
  /// `fill` makes the request of call number `i`, and `take` is told its answer. Both are called
  /// by several threads, for one number by one.
  Load(Stub& stub, Method method, std::function<void(int, Request&)> fill,
       std::function<void(int, const Response&)> take)
      : stub_(stub), method_(method), fill_(std::move(fill)), take_(std::move(take)) {}

  /// Blocks until all are answered. Returns how many a second.
  double Run(int count, int in_flight) {
    count_ = count;
    next_ = 0;
    std::vector<Slot> slots(static_cast<std::size_t>(in_flight));
    running_ = in_flight;
    std::promise<void> done;
    done_ = &done;
    const auto start = Clock::now();
    for (Slot& slot : slots) StartNext(slot);
    done.get_future().wait();
    return count / Seconds(Clock::now() - start).count();
  }

 private:
  struct Slot {
    std::optional<CallContext> context;
    Request request;
    Response response;
  };

  void StartNext(Slot& slot) {
    const int number = next_++;
    if (number >= count_) {
      if (--running_ == 0) done_->set_value();
      return;
    }
    slot.context.emplace();
    fill_(number, slot.request);
    (stub_.*method_)(&*slot.context, &slot.request, &slot.response,
                     [this, number, &slot](const grpc::Status& status) {
                       if (!status.ok()) Die(status.error_message());
                       take_(number, slot.response);
                       StartNext(slot);
                     });
  }

  Stub& stub_;
  const Method method_;
  const std::function<void(int, Request&)> fill_;
  const std::function<void(int, const Response&)> take_;
  int count_ = 0;
  std::atomic<int> next_{0};
  std::atomic<int> running_{0};
  std::promise<void>* done_ = nullptr;
};

using Begins = Load<v1::BeginGlobalTxnRequest, v1::BeginGlobalTxnResponse>;
using Gets = Load<v1::GetTxnRequest, v1::GetTxnResponse>;
using Produces = Load<v1::ProduceRequest, v1::ProduceResponse>;

class ApiBench {
 public:
  explicit ApiBench(const Settings& settings)
      : settings_(settings),
        stub_(v1::Coordinator::NewStub(
            grpc::CreateChannel(settings.server, grpc::InsecureChannelCredentials()))) {}

  /// The memory of open transactions: first, while the server has done nothing yet.
  void Memory() {
    std::vector<double> before;
    std::vector<double> with;
    std::vector<double> after;
    for (int round = 0; round < settings_.rounds; ++round) {
      before.push_back(SettledMiB());
      const auto ids = OpenWithWork(settings_.transactions, settings_.open_seconds);
      if (StateOf(ids.front()) != v1::TXN_STATE_ACTIVE) {
        Die("the first transactions expired before the last ones were there: --open-seconds");
      }
      with.push_back(MiB());
      for (const std::string& id : ids) {
        while (StateOf(id) == v1::TXN_STATE_ACTIVE) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
      }
      after.push_back(SettledMiB());
    }
    std::printf("%d open transactions of %d bytes each, %d rounds; resident memory of lockstepd\n",
                settings_.transactions, settings_.record_bytes, settings_.rounds);
    std::printf("%-36s     %9.1f MiB\n", "before the first call", before.front());
    bench::PrintRow("before a round", before, "MiB", 1);
    bench::PrintRow("with all of them open", with, "MiB", 1);
    bench::PrintRow("once they have expired", after, "MiB", 1);
  }

  void Rates() {
    const std::vector<std::string> ids = OpenWithWork(1000, 900);
    Begins begins(
        *stub_->async(), &Stub::BeginGlobalTxn,
        [this](int, auto& request) {
          request.mutable_timeout()->set_seconds(settings_.begin_timeout);
        },
        [](int, const auto&) {});
    Gets gets(
        *stub_->async(), &Stub::GetTxn,
        [&ids](int number, auto& request) {
          request.set_txn_id(ids[static_cast<std::size_t>(number) % ids.size()]);
        },
        [](int, const auto&) {});
    std::printf("calls per second, %d runs of %d calls each (a tenth of it with 1 in flight)\n",
                settings_.runs, settings_.calls);
    for (const int in_flight : {settings_.in_flight, 1}) {
      const int calls = in_flight == 1 ? settings_.calls / 10 : settings_.calls;
      std::vector<double> begun;
      std::vector<double> got;
      begins.Run(calls / 2, in_flight);  // Warm.
      gets.Run(calls / 2, in_flight);
      for (int run = 0; run < settings_.runs; ++run) {
        begun.push_back(begins.Run(calls, in_flight));
        got.push_back(gets.Run(calls, in_flight));
      }
      const std::string with = ", " + std::to_string(in_flight) + " in flight";
      bench::PrintRow(("BeginGlobalTxn" + with).c_str(), begun, "/s", 0);
      bench::PrintRow(("GetTxn" + with).c_str(), got, "/s", 0);
    }
  }

 private:
  /// Begins transactions with one record each.
  std::vector<std::string> OpenWithWork(int count, int seconds) {
    std::vector<std::string> ids(static_cast<std::size_t>(count));
    Begins begins(
        *stub_->async(), &Stub::BeginGlobalTxn,
        [seconds](int, auto& request) { request.mutable_timeout()->set_seconds(seconds); },
        [&ids](int number, const auto& response) {
          ids[static_cast<std::size_t>(number)] = response.txn_id();
        });
    begins.Run(count, settings_.in_flight);
    v1::ProduceRequest produce;
    produce.set_cluster(settings_.cluster);
    produce.set_sequence(0);
    auto& record = *produce.add_records();
    record.set_topic("bench");
    record.set_value(std::string(static_cast<std::size_t>(settings_.record_bytes), 'x'));
    Produces produces(
        *stub_->async(), &Stub::Produce,
        [&](int number, auto& request) {
          request = produce;
          request.set_txn_id(ids[static_cast<std::size_t>(number)]);
        },
        [](int, const auto&) {});
    produces.Run(count, settings_.in_flight);
    return ids;
  }

  v1::TxnState StateOf(const std::string& id) {
    CallContext context;
    v1::GetTxnRequest request;
    request.set_txn_id(id);
    v1::GetTxnResponse response;
    const grpc::Status status = stub_->GetTxn(&context, request, &response);
    if (!status.ok()) Die(status.error_message());
    return response.txn().state();
  }

  double MiB() const {
    std::ifstream file("/proc/" + std::to_string(settings_.pid) + "/status");
    for (std::string word; file >> word;) {
      double kib = 0;
      if (word == "VmRSS:" && file >> kib) return kib / 1024;
    }
    Die("no process " + std::to_string(settings_.pid));
  }

  /// Once it has not moved for longer than lockstepd takes to see that a peak has passed.
  double SettledMiB() const {
    double last = MiB();
    for (int calm = 0; calm < 120; ++calm) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const double now = MiB();
      if (now != last) calm = 0;
      last = now;
    }
    return last;
  }

  const Settings& settings_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

Settings Parse(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Calls per second of lockstepd's API, and the memory of open transactions."};
  app.add_option("--server", settings.server, "lockstepd's address")->required();
  app.add_option("--pid", settings.pid, "lockstepd's process")->required();
  app.add_option("--cluster", settings.cluster, "one that is configured")->required();
  app.add_option("--runs", settings.runs)->capture_default_str();
  app.add_option("--calls", settings.calls, "a run")->capture_default_str();
  app.add_option("--in-flight", settings.in_flight)->capture_default_str();
  app.add_option("--begin-timeout", settings.begin_timeout, "seconds; of what the runs begin")
      ->capture_default_str();
  app.add_option("--transactions", settings.transactions, "open ones")->capture_default_str();
  app.add_option("--record-bytes", settings.record_bytes, "each of them")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "of the memory figure")->capture_default_str();
  app.add_option("--open-seconds", settings.open_seconds, "until they expire")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  ApiBench bench(settings);
  bench.Memory();
  bench.Rates();
  return 0;
}
