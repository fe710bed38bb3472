// Commits per second of transactions whose producers are the clients' own, on two fake clusters
// over sockets: what lockstepd itself can do, with its clients and brokers on the same cores. The
// brokers answer at once and keep nothing on a disk; lockstepd's log is a real one. Beside it, in
// turn, what one client of librdkafka's does on two real clusters without any atomicity.
//
//   enlist_bench [--a HOST:PORT --b HOST:PORT] [--runs 7] [--commits 20000] [--producers 64]
//
// Each producer is a pair of transactional.ids, one a cluster, and runs one transaction at a time:
// BeginGlobalTxn, which enlists it on both clusters, and Commit. Also tells what a commit costs:
// requests to a broker, CPU time of lockstepd, and syncs of its log.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/mode.h"
#include "bench/process.h"
#include "call_context.h"
#include "fake_broker.h"
#include "figures.h"
#include "lockstepd.h"
#include "wire/protocol/codec.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using wire::ErrorCode;
using wire::FakeBroker;
using wire::FakeRequest;
using wire::protocol::ApiKey;
using wire::protocol::Writer;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string a;
  std::string b;
  int plain = 200;
  int runs = 7;
  int commits = 20'000;
  int producers = 64;
};

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "enlist_bench: " << what << "\n";
  std::_Exit(1);  // Calls under way are left where they are.
}

struct Producer {
  std::int64_t id = 0;
  std::int16_t epoch = 0;
};

/// A cluster of one broker that speaks TV2 and cannot lose markers: it knows each
/// transactional.id's transaction, and nothing else.
class FakeCluster {
 public:
  explicit FakeCluster(const std::string& name) {
    broker_.keeps_requests = false;
    broker_.metadata_version_max = 29;
    broker_.versions[ApiKey::kEndTxn] = {0, 5};
    broker_.SetClusterId("cluster-of-" + name);
    broker_.SetLeaders("t", {1});
    broker_.SetLeaders("__transaction_state", {1});
    broker_.Handle(ApiKey::kFindCoordinator, [this](const FakeRequest&, Writer& w) {
      wire::WriteCoordinator(w, broker_);
      return true;
    });
    broker_.Handle(ApiKey::kDescribeConfigs, [](const FakeRequest&, Writer& w) {
      wire::WriteMaxTimeout(w, "900000");
      return true;
    });
    broker_.Handle(ApiKey::kListTransactions,
                   [](const FakeRequest&, Writer& w) { return ListTransactions(w); });
    broker_.Handle(ApiKey::kInitProducerId,
                   [](const FakeRequest&, Writer& w) { return InitProducerId(w); });
    broker_.Handle(ApiKey::kDescribeTransactions, [this](const FakeRequest& request, Writer& w) {
      return DescribeTransactions(request, w);
    });
    broker_.Handle(ApiKey::kEndTxn,
                   [this](const FakeRequest& request, Writer& w) { return EndTxn(request, w); });
  }

  std::string address() const { return broker_.address(); }
  /// Describe and EndTxn, answered so far.
  std::int64_t requests() const { return requests_; }

  /// As if the id's producer had written to t-0 in a new transaction.
  Producer Write(const std::string& id) {
    const std::lock_guard lock(mutex_);
    Known& known = ids_[id];
    if (known.producer.id == 0) known.producer.id = static_cast<std::int64_t>(ids_.size());
    known.ongoing = true;
    ++known.start_time_ms;
    return known.producer;
  }

 private:
  struct Known {
    Producer producer;
    bool ongoing = false;
    bool ended = false;  // At least one.
    std::int64_t start_time_ms = 1'700'000'000'000;
  };

  static bool ListTransactions(Writer& w) {
    w.Int32(0);
    w.Error(ErrorCode::kNone);
    w.ArrayCount(0);
    w.ArrayCount(0);
    w.NoTags();
    return true;
  }

  /// Of lockstepd's own lanes, which are not used here.
  static bool InitProducerId(Writer& w) {
    w.Int32(0);
    w.Error(ErrorCode::kNone);
    w.Int64(1'000'000'000);
    w.Int16(0);
    w.NoTags();
    return true;
  }

  bool DescribeTransactions(const FakeRequest& request, Writer& w) {
    ++requests_;
    wire::protocol::Reader r = request.Read();
    const auto wanted = r.Array([&] { return r.String(); });
    const std::lock_guard lock(mutex_);
    w.Int32(0);
    w.Array(wanted, [&](const std::string& id) {
      const Known& known = ids_[id];
      w.Error(ErrorCode::kNone);
      w.String(id);
      w.String(known.ongoing ? "Ongoing" : known.ended ? "CompleteCommit" : "Empty");
      w.Int32(60'000);
      w.Int64(known.start_time_ms);
      w.Int64(known.producer.id);
      w.Int16(known.producer.epoch);
      w.ArrayCount(known.ongoing ? 1 : 0);
      if (known.ongoing) {
        w.String("t");
        w.ArrayCount(1);
        w.Int32(0);
        w.NoTags();
      }
      w.NoTags();
    });
    w.NoTags();
    return true;
  }

  bool EndTxn(const FakeRequest& request, Writer& w) {
    ++requests_;
    wire::protocol::Reader r = request.Read();
    const std::string id = r.String();
    const std::int64_t producer_id = r.Int64();
    const std::int16_t epoch = r.Int16();
    const bool commit = r.Bool();
    const std::lock_guard lock(mutex_);
    Known& known = ids_[id];
    if (!commit || !known.ongoing || producer_id != known.producer.id ||
        epoch != known.producer.epoch || request.version < 5) {
      Die("an EndTxn of '" + id + "' that a broker would have refused, or an abort");
    }
    known.ongoing = false;
    known.ended = true;
    if (++known.producer.epoch == 32'000) known.producer = {known.producer.id + 1'000'000, 0};
    w.Int32(0);
    w.Error(ErrorCode::kNone);
    w.Int64(known.producer.id);
    w.Int16(known.producer.epoch);
    w.NoTags();
    return true;
  }

  FakeBroker broker_;
  std::atomic<std::int64_t> requests_{0};
  std::mutex mutex_;
  std::map<std::string, Known> ids_;
};

/// An application with one producer on each cluster: its calls follow one another where gRPC calls
/// back.
class App {
 public:
  App(v1::Coordinator::Stub& stub, std::array<FakeCluster*, 2> clusters, int number)
      : stub_(stub), clusters_(clusters), name_("app-" + std::to_string(number)) {
    begin_.mutable_timeout()->set_seconds(60);
    for (std::size_t i = 0; i < clusters_.size(); ++i) {
      CallContext context;
      v1::RegisterProducerRequest request;
      request.set_cluster(kNames[i]);
      request.set_transactional_id(name_);
      request.set_protocol(v1::PRODUCER_PROTOCOL_TV2);
      v1::RegisterProducerResponse response;
      const auto status = stub_.RegisterProducer(&context, request, &response);
      if (!status.ok()) Die(status.error_message());
      auto& enlistment = *begin_.add_enlistments();
      enlistment.set_registration_id(response.registration_id());
    }
  }

  /// `next`: whether to run one more. `done`: there is none.
  void Run(std::function<bool()> next, std::function<void()> done) {
    next_ = std::move(next);
    done_ = std::move(done);
    Begin();
  }

  static constexpr std::array<const char*, 2> kNames = {"a", "b"};

 private:
  void Begin() {
    if (!next_()) return done_();
    for (std::size_t i = 0; i < clusters_.size(); ++i) {
      const Producer producer = clusters_[i]->Write(name_);
      auto& enlistment = *begin_.mutable_enlistments(static_cast<int>(i));
      enlistment.set_producer_id(producer.id);
      enlistment.set_producer_epoch(producer.epoch);
    }
    context_.emplace();
    stub_.async()->BeginGlobalTxn(&*context_, &begin_, &begun_, [this](const grpc::Status& status) {
      if (!status.ok()) Die(status.error_message());
      Commit();
    });
  }

  void Commit() {
    commit_.Clear();
    commit_.set_txn_id(begun_.txn_id());
    for (const auto& enlistment : begin_.enlistments()) {
      auto& work = *commit_.add_enlisted();
      work.set_registration_id(enlistment.registration_id());
      auto& written = *work.add_partitions();
      written.set_topic("t");
      written.set_offset(1);
    }
    context_.emplace();
    stub_.async()->Commit(&*context_, &commit_, &committed_, [this](const grpc::Status& status) {
      if (!status.ok()) Die(status.error_message());
      if (committed_.outcome() != v1::OUTCOME_COMMITTED) Die(committed_.ShortDebugString());
      Begin();
    });
  }

  v1::Coordinator::Stub& stub_;
  const std::array<FakeCluster*, 2> clusters_;
  const std::string name_;
  std::function<bool()> next_;
  std::function<void()> done_;
  std::optional<CallContext> context_;
  v1::BeginGlobalTxnRequest begin_;
  v1::BeginGlobalTxnResponse begun_;
  v1::CommitRequest commit_;
  v1::CommitResponse committed_;
};

/// Of a process or a thread, by its folder in /proc; 0 if it is gone.
double CpuSeconds(const std::filesystem::path& folder) {
  return std::chrono::duration<double>(bench::CpuTime(folder).value_or(std::chrono::seconds(0)))
      .count();
}

/// Of this process: the brokers' threads, and all others.
struct OwnCpu {
  double brokers = 0;
  double clients = 0;
};
OwnCpu OwnCpuSeconds() {
  OwnCpu cpu;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm") >> std::ws, name);
    (name == "fake-broker" ? cpu.brokers : cpu.clients) += CpuSeconds(thread.path());
  }
  return cpu;
}

double RunAll(std::vector<std::unique_ptr<App>>& apps, int commits) {
  std::atomic<int> left{commits};
  std::atomic<int> running{static_cast<int>(apps.size())};
  std::promise<void> done;
  const auto start = Clock::now();
  for (const auto& app : apps) {
    app->Run([&left] { return left-- > 0; },
             [&running, &done] {
               if (--running == 0) done.set_value();
             });
  }
  done.get_future().wait();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One client of the plain pair on real clusters.
std::unique_ptr<bench::Mode> MakePlain(const Settings& settings) {
  bench::Options options;
  options.work.clusters = {{"a", settings.a}, {"b", settings.b}};
  options.threads = 1;
  return bench::MakeMode("plain", options);
}

double RunPlain(bench::Mode& plain, int count) {
  const auto start = Clock::now();
  bench::Tickets tickets(
      {.length = std::chrono::hours(1), .count = static_cast<std::uint64_t>(count)});
  bench::Recorder recorder;
  plain.Run(tickets, recorder);
  if (recorder.failed() > 0) Die(recorder.FirstFailure());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Run(const Settings& settings) {
  FakeCluster a("a");
  FakeCluster b("b");
  testing::Lockstepd daemon({.clusters = {{"a", a.address()}, {"b", b.address()}}});
  daemon.Start();
  daemon.AwaitReady();
  std::vector<std::unique_ptr<App>> apps;
  for (int i = 0; i < settings.producers; ++i) {
    apps.push_back(std::make_unique<App>(daemon.coordinator(), std::array{&a, &b}, i));
  }
  std::unique_ptr<bench::Mode> plain;
  if (!settings.a.empty()) plain = MakePlain(settings);
  RunAll(apps, settings.commits / 4);  // Warm.
  if (plain) RunPlain(*plain, settings.plain / 4);

  const std::filesystem::path process = "/proc/" + std::to_string(daemon.pid());
  const auto each = [&settings](double seconds) { return seconds * 1e6 / settings.commits; };
  std::vector<double> plain_rates;
  std::vector<double> ratios;
  std::vector<double> rates;
  std::vector<double> cpu;
  std::vector<double> cpu_of_clients;
  std::vector<double> cpu_of_brokers;
  std::vector<double> requests;
  for (int run = 0; run < settings.runs; ++run) {
    const double cpu_before = CpuSeconds(process);
    const OwnCpu own_before = OwnCpuSeconds();
    const std::int64_t before = a.requests() + b.requests();
    const double seconds = RunAll(apps, settings.commits);
    rates.push_back(settings.commits / seconds);
    cpu.push_back(each(CpuSeconds(process) - cpu_before));
    const OwnCpu own = OwnCpuSeconds();
    cpu_of_clients.push_back(each(own.clients - own_before.clients));
    cpu_of_brokers.push_back(each(own.brokers - own_before.brokers));
    requests.push_back(static_cast<double>(a.requests() + b.requests() - before) /
                       (2.0 * settings.commits));
    if (!plain) continue;
    plain_rates.push_back(settings.plain / RunPlain(*plain, settings.plain));
    ratios.push_back(rates.back() / plain_rates.back());
  }
  std::printf("enlisted, 2 fake clusters, %d producers a cluster; %d runs of %d commits\n",
              settings.producers, settings.runs, settings.commits);
  bench::PrintRow("commits", rates, "/s", 0);
  if (plain) {
    bench::PrintRow("plain pair, one client, real brokers", plain_rates, "/s", 0);
    bench::PrintRow("ratio", ratios, "x", 1);
  }
  bench::PrintRow("CPU of lockstepd, each commit", cpu, "us", 0);
  bench::PrintRow("CPU of the clients, each commit", cpu_of_clients, "us", 0);
  bench::PrintRow("CPU of the brokers, each commit", cpu_of_brokers, "us", 0);
  bench::PrintRow("requests to each cluster, each", requests, "");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Commits per second of enlisted transactions, on fake clusters."};
  auto* a = app.add_option("--a", settings.a, "bootstrap servers of a real cluster; none: alone");
  auto* b = app.add_option("--b", settings.b, "bootstrap servers of another")->needs(a);
  a->needs(b);
  app.add_option("--plain", settings.plain, "transactions of the plain pair a run")
      ->capture_default_str();
  app.add_option("--runs", settings.runs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--commits", settings.commits, "a run")->capture_default_str();
  app.add_option("--producers", settings.producers, "on each cluster; transactions in flight")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Run(settings);
  return 0;
}
