// What atomicity costs one client: the latency of a transaction of one record on each of two
// clusters, through Lockstep and as the plain pair, two independent librdkafka transactions side by
// side with nothing that ties them together. Both in one run, round about, so that a machine whose
// speed drifts drifts for both. The plain pair gets the best that is known: warmed producers,
// delivery reports as events, and as many producers in turn as Lockstep has lanes, so that neither
// waits for the markers of the transaction before.
//
//   commit_bench --a HOST:PORT --b HOST:PORT --server HOST:PORT [--rounds 7] [--count 200] ...

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "call_context.h"
#include "figures.h"
#include "lockstep/v1/coordinator.grpc.pb.h"
#include "plain_pair.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using bench::Percentile;
using bench::PlainPair;
using bench::PrintRow;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Settings {
  std::string a;
  std::string b;
  std::string server;
  std::string topic = "bench";
  std::string cluster_a = "a";
  std::string cluster_b = "b";
  int rounds = 7;
  int count = 200;
  int warmup = 50;
  int producers = 4;
  std::size_t size = 100;
};

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "commit_bench: " << what << "\n";
  std::exit(1);
}

class Lockstep {
 public:
  explicit Lockstep(const Settings& settings)
      : settings_(settings),
        stub_(v1::Coordinator::NewStub(
            grpc::CreateChannel(settings.server, grpc::InsecureChannelCredentials()))) {}

  /// Returns how long Commit alone took.
  Milliseconds RunOne() {
    v1::BeginGlobalTxnRequest begin;
    begin.mutable_timeout()->set_seconds(60);
    v1::BeginGlobalTxnResponse begun;
    Call([&](auto* context) { return stub_->BeginGlobalTxn(context, begin, &begun); });
    Produce(begun.txn_id(), settings_.cluster_a, 0);
    Produce(begun.txn_id(), settings_.cluster_b, 1);
    const auto start = Clock::now();
    v1::CommitRequest commit;
    commit.set_txn_id(begun.txn_id());
    v1::CommitResponse response;
    Call([&](auto* context) { return stub_->Commit(context, commit, &response); });
    if (response.outcome() != v1::OUTCOME_COMMITTED) Die(response.ShortDebugString());
    return Clock::now() - start;
  }

 private:
  void Produce(const std::string& txn, const std::string& cluster, std::uint64_t sequence) {
    v1::ProduceRequest request;
    request.set_txn_id(txn);
    request.set_cluster(cluster);
    request.set_sequence(sequence);
    v1::Record* record = request.add_records();
    record->set_topic(settings_.topic);
    record->set_partition(0);
    record->set_value(std::string(settings_.size, 'x'));
    v1::ProduceResponse response;
    Call([&](auto* context) { return stub_->Produce(context, request, &response); });
  }

  template <typename F>
  void Call(F f) {
    CallContext context;
    if (const grpc::Status status = f(&context); !status.ok()) Die(status.error_message());
  }

  const Settings& settings_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

Settings Parse(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Latency of a transaction over two clusters, Lockstep against the plain pair."};
  app.add_option("--a", settings.a, "bootstrap servers of the first cluster")->required();
  app.add_option("--b", settings.b, "bootstrap servers of the second cluster")->required();
  app.add_option("--server", settings.server, "lockstepd's address")->required();
  app.add_option("--topic", settings.topic, "a topic on both")->capture_default_str();
  app.add_option("--rounds", settings.rounds)->capture_default_str();
  app.add_option("--count", settings.count, "transactions a round")->capture_default_str();
  app.add_option("--producers", settings.producers, "plain ones a cluster, in turn")
      ->capture_default_str();
  app.add_option("--size", settings.size, "bytes a record")->capture_default_str();
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
  PlainPair plain({.a = settings.a,
                   .b = settings.b,
                   .topic = settings.topic,
                   .producers = settings.producers,
                   .size = settings.size});
  Lockstep lockstep(settings);
  for (int i = 0; i < settings.warmup; ++i) {
    plain.RunOne();
    lockstep.RunOne();
  }
  std::vector<double> plain_p50;
  std::vector<double> whole_p50;
  std::vector<double> commit_p50;
  std::vector<double> whole_ratio;
  std::vector<double> commit_ratio;
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<double> pair;
    std::vector<double> whole;
    std::vector<double> commit;
    for (int i = 0; i < settings.count; ++i) {
      auto start = Clock::now();
      plain.RunOne();
      pair.push_back(Milliseconds(Clock::now() - start).count());
      start = Clock::now();
      commit.push_back(lockstep.RunOne().count());
      whole.push_back(Milliseconds(Clock::now() - start).count());
    }
    plain_p50.push_back(Percentile(pair, 0.5));
    whole_p50.push_back(Percentile(whole, 0.5));
    commit_p50.push_back(Percentile(commit, 0.5));
    whole_ratio.push_back(whole_p50.back() / plain_p50.back());
    commit_ratio.push_back(commit_p50.back() / plain_p50.back());
  }
  std::printf(
      "%d rounds of %d transactions each, 2 clusters, 1 record of %zu bytes each; p50 of a "
      "round\n",
      settings.rounds, settings.count, settings.size);
  PrintRow("plain pair", plain_p50, "ms");
  PrintRow("Lockstep, Commit", commit_p50, "ms");
  PrintRow("Lockstep, Begin to Commit", whole_p50, "ms");
  PrintRow("ratio, Commit", commit_ratio, "x");
  PrintRow("ratio, Begin to Commit", whole_ratio, "x");
  return 0;
}
