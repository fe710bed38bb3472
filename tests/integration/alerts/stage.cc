// A lockstepd in which all goes well, or all that there is an alert for goes wrong: the real
// server, coordinator and metrics, over a log and clusters that do what this scene wants.
//
//   alerts_stage good|bad PORT INCARNATION     serves /metrics on PORT until stdin is closed

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fakes.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/logging.h"
#include "server/monitor.h"
#include "server/thread_executor.h"

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Small, so that they can be reached.
constexpr const char* kConfig =
    "data_dir: /nowhere\n"
    "listen: 127.0.0.1:0\n"
    "limits: {transaction_bytes: 64KiB, buffer_bytes: 1MiB, record_bytes: 64KiB}\n"
    "clusters: [{name: east, bootstrap_servers: 'h:1'}]\n";

/// Clients of the stage, each a thread that does the same again and again.
class Clients {
 public:
  explicit Clients(std::uint16_t port)
      : stub_(v1::Coordinator::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                           grpc::InsecureChannelCredentials()))) {}
  ~Clients() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void Commit(const std::vector<std::string>& clusters) {
    Repeat([this, clusters] {
      const std::string id = Begin();
      for (std::size_t i = 0; i < clusters.size(); ++i) Produce(id, clusters[i], i, 10);
      v1::CommitRequest request;
      request.set_txn_id(id);
      v1::CommitResponse response;
      grpc::ClientContext context;
      // It is not waited for where it takes longer than the stage lasts.
      context.set_deadline(std::chrono::system_clock::now() + seconds(8));
      stub_->Commit(&context, request, &response);
    });
  }
  /// Transactions that nobody ends, with about that much buffered together.
  void Leave(int count, std::size_t bytes) {
    for (int i = 0; i < count; ++i) Produce(Begin(), "east", 0, bytes);
  }
  void ProduceTooMuch() {
    Repeat([this] {
      const std::string id = Begin();
      for (std::uint64_t sequence : {0, 1}) Produce(id, "east", sequence, 60'000);
      Abort(id);
    });
  }

 private:
  template <typename Task>
  void Repeat(Task task) {
    threads_.emplace_back([this, task] {
      while (!stop_) {
        task();
        std::this_thread::sleep_for(
            milliseconds(200));  // The pace of the load, nothing is awaited.
      }
    });
  }

  std::string Begin() {
    v1::BeginGlobalTxnRequest request;
    request.mutable_timeout()->set_seconds(600);
    v1::BeginGlobalTxnResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(8));
    stub_->BeginGlobalTxn(&context, request, &response);
    return response.txn_id();
  }
  void Abort(const std::string& id) {
    v1::AbortRequest request;
    request.set_txn_id(id);
    v1::AbortResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(8));
    stub_->Abort(&context, request, &response);
  }
  void Produce(const std::string& id, const std::string& cluster, std::uint64_t sequence,
               std::size_t bytes) {
    v1::ProduceRequest request;
    request.set_txn_id(id);
    request.set_cluster(cluster);
    request.set_sequence(sequence);
    auto& record = *request.add_records();
    record.set_topic("orders");
    record.set_value(std::string(bytes, 'x'));
    v1::ProduceResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(8));
    stub_->Produce(&context, request, &response);
  }

  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

txn::Decision DecidedAgo(seconds age, const std::string& cluster, const SystemClock& clock) {
  txn::Decision decision;
  decision.batch = BatchId(1);
  decision.decided_at = WallTime{clock.WallNow().ms - age.count() * 1000};
  decision.members = {GlobalTxnId("0123456789abcdef-1-1-1")};
  decision.participants.resize(1);
  decision.participants[0].prepared.name.cluster = ClusterName(cluster);
  return decision;
}

class Stage {
 public:
  Stage(std::uint16_t port, std::uint64_t incarnation) : port_(port) {
    log_.SetIncarnation(incarnation);
  }

  int Play(bool bad) {
    if (bad) Spoil();
    auto monitor = Monitor::Listen({"127.0.0.1", port_}, clock_);
    if (!monitor.ok()) return std::cerr << ToString(monitor.error()) << "\n", 1;
    std::vector<coordinator::Cluster*> clusters;
    for (FakeCluster& cluster : clusters_) clusters.push_back(&cluster);
    Daemon daemon(config_, log_, clusters, executor_, clock_, [](const Error&) {});
    const Monitor::Watch watch(**monitor, daemon.api());
    if (!daemon.Listen().ok() || !daemon.Serve().ok()) return 1;
    {
      Clients clients(daemon.port());
      clients.Commit({"east", "west"});
      if (bad) Misbehave(clients);
      std::cout << "playing" << std::endl;
      for (std::string line; std::getline(std::cin, line);) {
      }
    }
    daemon.Stop(Duration::zero());
    return 0;
  }

 private:
  FakeCluster& At(const std::string& name) {
    for (FakeCluster& cluster : clusters_) {
      if (cluster.name().get() == name) return cluster;
    }
    std::abort();
  }

  void Spoil() {
    log_.SetSyncTime(milliseconds(400));
    log_.Recover(DecidedAgo(seconds(100), "doubtful", clock_));
    At("doubtful").Set({.commits = false});
    At("slow").Set({.vote_delay = milliseconds(3'000)});
    At("late").Set({.commit_delay = milliseconds(6'000)});
    At("forgetful").Set({.aborted_it = true});
    At("hanging").Set({.missing_markers = {{"orders", 0}}});
    At("refusing")
        .Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("refusing"), "no topic",
                          false}});
    At("away").Set({.state = coordinator::ClusterState::kUnreachable});
    At("other").Set({.state = coordinator::ClusterState::kMismatch});
    At("busy").Set({.lanes_idle = 0, .lanes_busy = 4});
  }
  static void Misbehave(Clients& clients) {
    for (const char* cluster : {"slow", "late", "forgetful", "hanging", "refusing"}) {
      clients.Commit({"east", cluster});
    }
    clients.Leave(14, 62'000);
    clients.ProduceTooMuch();
  }

  const std::uint16_t port_;
  Config config_ = std::get<Config>(ParseConfig(kConfig));
  SystemClock clock_;
  ThreadExecutor executor_;
  FakeLog log_{executor_};
  std::list<FakeCluster> clusters_ = Make({"east", "west", "doubtful", "slow", "late", "forgetful",
                                           "hanging", "refusing", "away", "other", "busy"});

  std::list<FakeCluster> Make(const std::vector<std::string>& names) {
    std::list<FakeCluster> made;
    for (const std::string& name : names) made.emplace_back(name, executor_);
    return made;
  }
};

}  // namespace
}  // namespace lockstep::server

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "alerts_stage good|bad PORT INCARNATION\n", 2;
  lockstep::server::SetUpLogging("off", "text");
  lockstep::server::Stage stage(static_cast<std::uint16_t>(std::stoi(argv[2])),
                                std::stoull(argv[3]));
  return stage.Play(std::string(argv[1]) == "bad");
}
