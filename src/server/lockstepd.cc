#include "server/lockstepd.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "kafka/cluster.h"
#include "log/rocks_decision_log.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/data_folder.h"
#include "server/kafka_config.h"
#include "server/logging.h"
#include "server/monitor.h"
#include "server/policy.h"
#include "server/thread_executor.h"
#include "server/tls.h"
#include "server/version.h"

namespace lockstep::server {
namespace {

// What ends in order gets this long; then the process goes without. Nothing is lost either way: the
// log is made for kill -9.
constexpr Duration kGrace = std::chrono::seconds(1);
constexpr Duration kLastResort = std::chrono::seconds(10);
// How often certificates and the policy are looked at: one stat each.
constexpr auto kReread = std::chrono::seconds(1);

Status ArmFailpoints(const std::vector<std::string>& specs) {
  for (const std::string& spec : specs) {
    if (Status status = ArmFailpoint(spec); !status.ok()) return status;
    spdlog::warn("FAILPOINT armed: {}. This server is made to fail: never run it for real", spec);
  }
  return {};
}

Result<std::unique_ptr<log::RocksDecisionLog>> OpenLog(const Config& config,
                                                       const SystemClock& clock) {
  log::OpenOptions options;
  options.path = config.data_dir;
  options.clock = &clock;
  options.retention.time =
      std::chrono::duration_cast<std::chrono::milliseconds>(config.retention_time);
  options.retention.bytes = config.retention_bytes;
  return log::Open(options);
}

/// In words that a look at the log cannot miss.
void WarnOfOpenDoors(const Config& config, const ListenAddress& address) {
  if (StaysOnMachine(address)) return;
  if (config.tls.certificate_file.empty()) {
    spdlog::warn(
        "{} is served IN PLAIN TEXT (plaintext_on: any): whoever is on the way reads and "
        "changes all of it, tokens too",
        ToString(address));
  }
  if (config.policy_file.empty()) {
    spdlog::warn(
        "{} is served WITHOUT AUTHENTICATION (no policy_file): whoever can reach it{} may "
        "do everything",
        ToString(address),
        config.tls.client_ca_file.empty() ? "" : " with a certificate of tls.client_ca_file");
  }
}

/// Whoever reads the file never sees half of it.
Status WritePortFile(const std::string& path, std::uint16_t port) {
  const std::string fresh = path + ".new";
  std::ofstream(fresh) << port << "\n";
  std::error_code failed;
  std::filesystem::rename(fresh, path, failed);
  if (!failed) return {};
  return MakeError(Code::kUnavailable, "--port-file " + path + ": " + failed.message());
}

/// Ends the process even if something hangs on the way out.
void EndWithin(Duration limit, int exit_code) {
  std::thread([limit, exit_code] {
    std::this_thread::sleep_for(limit);
    std::_Exit(exit_code);
  }).detach();
}

/// From serving to the exit code, on the main thread's event loop.
class Lifecycle {
 public:
  /// Makes a cluster that lasts as long as those of the start. On the executor, and waits for it.
  using MakeCluster = std::function<coordinator::Cluster*(const ClusterConfig&)>;

  Lifecycle(const Config& config, std::string file) : running_(config), file_(std::move(file)) {}

  /// For Daemon: the log failed. Any thread.
  void OnFatal(const Error& error) {
    boost::asio::post(io_, [this, error] { Fail(error); });
  }

  /// Returns once the process is to end.
  int Run(Daemon& daemon, MakeCluster make_cluster) {
    daemon_ = &daemon;
    make_cluster_ = std::move(make_cluster);
    AwaitSignal();
    RereadSoon();
    io_.run();
    return exit_code_;
  }

 private:
  void AwaitSignal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      AwaitSignal();
      if (number == SIGHUP) {
        daemon_->ReopenAuditLog();
        daemon_->RereadFiles();
        return Reload();
      }
      if (!std::exchange(stopping_, true)) return Drain(number);
      spdlog::warn("a second signal: stopping at once");
      Finish();
    });
  }

  /// Certificates and the policy change without a signal: whoever renews them may have none to
  /// send.
  void RereadSoon() {
    reread_.expires_after(kReread);
    reread_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      daemon_->RereadFiles();
      RereadSoon();
    });
  }

  /// Takes up what can change while we run, and names what cannot. All or nothing: a file with a
  /// mistake in it changes nothing.
  void Reload() {
    const ConfigResult loaded = LoadConfig(file_);
    if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&loaded)) {
      for (const ConfigMistake& mistake : *mistakes) spdlog::error("{}", ToString(mistake, file_));
      spdlog::error("{} is not taken up: everything goes on as before", file_);
      return;
    }
    const auto& fresh = std::get<Config>(loaded);
    const ConfigChange change = Compare(running_, fresh);
    const std::string old_level = running_.log_level;
    running_ = TakeUp(running_, fresh);
    daemon_->Reconfigure(running_);
    for (const std::string& key : change.live) spdlog::info("{}: {} is taken up", file_, key);
    for (const ClusterConfig& cluster : change.added) {
      daemon_->AddCluster(make_cluster_(cluster));
      spdlog::info("{}: cluster {} is added", file_, cluster.name.get());
    }
    for (const std::string& key : change.restart) {
      spdlog::warn("{}: {} has changed, and needs a restart", file_, key);
    }
    for (const ClusterName& name : change.removed) {
      spdlog::warn(
          "{}: cluster {} is gone from it: it goes on until a restart, which needs nothing in "
          "doubt "
          "there",
          file_, name.get());
    }
    spdlog::info("{} is read again", file_);
    // Only if it changed there: an operator may have set another one since.
    if (running_.log_level != old_level) {
      spdlog::set_level(spdlog::level::from_str(running_.log_level));
    }
  }

  void Drain(int signal_number) {
    spdlog::info(
        "{}: no new transactions; up to {} s for those that are decided", strsignal(signal_number),
        std::chrono::duration_cast<std::chrono::seconds>(running_.shutdown_timeout).count());
    daemon_->Drain([this] { boost::asio::post(io_, [this] { Finish(); }); });
    limit_.expires_after(running_.shutdown_timeout);
    limit_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      spdlog::warn(
          "timeouts.shutdown passed: what is still in doubt is completed after the next start");
      Finish();
    });
  }

  void Fail(const Error& error) {
    exit_code_ = kExitLogFailed;
    spdlog::critical("{}", ToString(error));
    Finish();
  }

  void Finish() {
    if (std::exchange(finished_, true)) return;
    EndWithin(kLastResort, exit_code_);
    daemon_->Stop(kGrace);
    io_.stop();
  }

  Config running_;
  const std::string file_;
  Daemon* daemon_ = nullptr;
  MakeCluster make_cluster_;
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  boost::asio::steady_timer limit_{io_};
  boost::asio::steady_timer reread_{io_};
  bool stopping_ = false;
  bool finished_ = false;
  int exit_code_ = kExitOk;
};

/// Each connection of each client is a file descriptor, and gRPC 1.51 does not survive it when
/// there are none left (CVE-2023-4785).
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int Fatal(ExitCode code, const std::string& message) {
  spdlog::critical("{}", message);
  return code;
}

int Serve(const Config& config, const CommandLine& options) {
  const SystemClock clock;
  ThreadExecutor executor;
  if (Status status = CheckDataFolder(config.data_dir, config.allow_data_dir_on); !status.ok()) {
    return Fatal(kExitLogOpen, status.error().message);
  }
  std::unique_ptr<Monitor> monitor;
  if (config.metrics_listen) {
    auto listening = Monitor::Listen(*config.metrics_listen, clock);
    if (!listening) return Fatal(kExitListen, "metrics.listen: " + listening.error().message);
    monitor = *std::move(listening);
    ListenAddress address = *config.metrics_listen;
    address.port = monitor->port();
    spdlog::info("metrics and health on http://{}", ToString(address));
  }
  auto log = OpenLog(config, clock);
  if (!log) return Fatal(kExitLogOpen, ToString(log.error()));
  const coordinator::RecoveredLog& recovered = (*log)->recovered();
  if (!recovered.origins.empty()) {
    spdlog::info(
        "log {} was restored from a backup of log {}: what that one decided later is unknown",
        recovered.log_id.get(), recovered.origins.back().get());
  }
  spdlog::info("log {} in {}, start {}: {} decisions to complete, {} heuristic to acknowledge",
               recovered.log_id.get(), config.data_dir, recovered.incarnation.get(),
               recovered.incomplete.size(), recovered.heuristic.size());

  wire::IoThread io;
  kafka::ClusterRegistry registry;
  Lifecycle lifecycle(config, options.config);
  const auto on_fatal = [&lifecycle](const Error& error) { lifecycle.OnFatal(error); };
  const kafka::KafkaCluster::Ports ports{executor, clock, **log, io, registry, on_fatal};
  std::vector<std::shared_ptr<kafka::KafkaCluster>> clusters;
  const auto make_cluster = [&](const ClusterConfig& cluster) -> coordinator::Cluster* {
    return clusters.emplace_back(kafka::KafkaCluster::Create(ToKafka(cluster), ports)).get();
  };
  std::vector<coordinator::Cluster*> cluster_ports;
  for (const ClusterConfig& cluster : config.clusters) {
    cluster_ports.push_back(make_cluster(cluster));
  }

  Daemon daemon(config, **log, cluster_ports, executor, clock, on_fatal);
  std::optional<Monitor::Watch> watch;
  if (monitor != nullptr) watch.emplace(*monitor, daemon.api());
  if (Status status = daemon.Listen(); !status.ok()) {
    executor.Stop();
    const bool mistake = status.error().code == Code::kInvalidArgument;
    return Fatal(mistake ? kExitUsage : kExitListen, status.error().message);
  }
  if (Status status = daemon.Serve(); !status.ok()) {
    daemon.Stop(Duration::zero());
    return Fatal(kExitUsage, status.error().message);
  }
  ListenAddress address = config.listen;
  address.port = daemon.port();
  if (!options.port_file.empty()) {
    if (Status status = WritePortFile(options.port_file, address.port); !status.ok()) {
      daemon.Stop(Duration::zero());
      return Fatal(kExitUsage, status.error().message);
    }
  }
  WarnOfOpenDoors(config, address);
  if (config.admin_listen) {
    ListenAddress admin = *config.admin_listen;
    admin.port = daemon.admin_port();
    WarnOfOpenDoors(config, admin);
    spdlog::info("operators are served on {}", ToString(admin));
  }
  spdlog::info("lockstepd {} serving on {}", kVersion, ToString(address));
  std::cout << "serving on " << ToString(address) << std::endl;
  return lifecycle.Run(daemon, [&](const ClusterConfig& cluster) {
    std::promise<coordinator::Cluster*> made;
    executor.Post([&] { made.set_value(make_cluster(cluster)); });
    return made.get_future().get();
  });
}

int PrintMistakes(const std::vector<ConfigMistake>& mistakes, const std::string& file) {
  for (const ConfigMistake& mistake : mistakes) std::cerr << ToString(mistake, file) << "\n";
  return kExitUsage;
}

/// What the configuration names is looked at, too.
int CheckFiles(const Config& config, const std::string& file) {
  if (!config.policy_file.empty()) {
    const PolicyResult policy = LoadPolicy(config.policy_file);
    if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&policy)) {
      return PrintMistakes(*mistakes, config.policy_file);
    }
    std::cout << config.policy_file << ": correct\n";
  }
  if (!config.tls.certificate_file.empty()) {
    const auto tls = TlsIdentity::Load(config.tls);
    if (!tls) return std::cerr << tls.error().message << "\n", kExitUsage;
    std::cout << config.tls.certificate_file << ": " << (*tls)->material()->summary << "\n";
  }
  std::cout << file << ": correct\n";
  return kExitOk;
}

}  // namespace

int RunLockstepd(const CommandLine& options) {
  if (options.print_defaults) return std::cout << DefaultConfigText(), kExitOk;
  if (options.list_failpoints) {
    for (const auto& info : AllFailpoints()) std::cout << info.name << "  " << info.what << "\n";
    return kExitOk;
  }
  const ConfigResult loaded = LoadConfig(options.config);
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&loaded)) {
    return PrintMistakes(*mistakes, options.config);
  }
  const auto& config = std::get<Config>(loaded);
  if (options.check_config) return CheckFiles(config, options.config);

  // Whoever reads our output may go away.
  std::signal(SIGPIPE, SIG_IGN);
  RaiseFileLimit();
  SetUpLogging(config.log_level, config.log_format);
  if (Status status = ArmFailpoints(options.failpoints); !status.ok()) {
    return Fatal(kExitUsage, status.error().message);
  }
  const int exit_code = Serve(config, options);
  for (const auto& [name, hits] : FailpointHits())
    spdlog::warn("failpoint {}: {} hits", name, hits);
  spdlog::info("stopped");
  return exit_code;
}

}  // namespace lockstep::server
