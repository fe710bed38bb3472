#include "bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace lockstep::bench {
namespace {

constexpr const char* kAbout =
    R"(Measures Lockstep beside the plain pair: librdkafka's transactional producers, one a cluster,
without atomicity between them, at their best known settings. All modes take turns, round after
round, on the same clusters in one run, so that a machine whose speed drifts drifts for all.

Modes:
  plain        the plain pair: one transaction on each cluster, side by side
  managed      Begin, Produce, Commit through the C++ client
  execute      one unary Execute a transaction
  stream       ExecuteStream: a message carries many transactions
  enlisted     producers of this program's own, ended by Lockstep
  plain-large  the plain pair with transactions of --large-records records
  large        the same through ProduceStream and Commit
  call         GetTxn, which does nothing: what unary calls cost by themselves)";

constexpr const char* kExamples =
    R"(Examples:
  # One client, an idle machine: what a commit takes.
  lockstep-bench --server 127.0.0.1:7420 --cluster a=127.0.0.1:9092 --cluster b=127.0.0.1:9192 \
      --modes plain,managed --threads 1
  # Open loop: 100 transactions a second; latency counts from when each was meant to begin.
  lockstep-bench ... --modes plain,managed,execute --rate 100 --seconds 10
  # The most that goes, and what it costs lockstepd and the brokers.
  lockstep-bench ... --modes plain,execute,stream --pid lockstepd=$(pidof lockstepd) \
      --pid broker-a=4711 --json run.json
  # Memory of 10,000 open transactions.
  lockstep-bench ... --modes execute --open 10000 --bytes 1024 --pid lockstepd=$(pidof lockstepd)

The topic must be there on every cluster, and grow: it is not emptied. Exit status: 0, 1 where
anything failed, 2 for a wrong command line.)";

/// "NAME=VALUE".
std::pair<std::string, std::string> SplitPair(const std::string& text, const char* option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw CLI::ValidationError(option, "'" + text + "' is not NAME=VALUE");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

struct Texts {
  std::vector<std::string> clusters;
  std::vector<std::string> pids;
  std::vector<std::string> librdkafka;
  double seconds = 5;
  double warmup = 2;
  double timeout = 60;
  double settle = 12;
};

std::chrono::milliseconds Seconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void AddWork(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--server", options.server, "lockstepd's address, HOST:PORT");
  app.add_option("--ca", options.security.ca_file, "Use TLS; whose server certificates to trust");
  app.add_option("--certificate", options.security.certificate_file, "The client's own, PEM");
  app.add_option("--private-key", options.security.key_file, "Its key, PEM");
  app.add_option("--token-file", options.security.token_file, "A file with the token to show");
  app.add_option("--cluster", texts.clusters,
                 "NAME=BOOTSTRAP, once a cluster: lockstepd's name for it, and where it is")
      ->required();
  app.add_option("--modes", options.modes, "which, by comma; all of them do what is named here")
      ->delimiter(',')
      ->check(CLI::IsMember(ModeNames()))
      ->capture_default_str();
  app.add_option("--topic", options.work.topic, "on every cluster")->capture_default_str();
  app.add_option("--partitions", options.work.partitions, "of it, to be written to in turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--records", options.work.records, "a transaction and cluster")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--large-records", options.work.large_records, "the same, of the large modes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bytes", options.work.bytes, "a record's value")->capture_default_str();
  app.add_option("--librdkafka", texts.librdkafka,
                 "KEY=VALUE, again for more: of the producers of plain and enlisted modes");
}

void AddLoad(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--rate", options.pace.per_second,
                 "open loop: transactions a second (default: closed loop); not for large modes")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", texts.seconds, "each mode in each round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--count", options.pace.count, "transactions each instead of --seconds");
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--warmup", texts.warmup, "seconds of each mode before the first round")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--timeout", texts.timeout, "seconds; of a transaction")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  const auto positive = [&](const char* name, int& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::PositiveNumber)->capture_default_str();
  };
  positive("--threads", options.threads, "of plain, managed, enlisted: one transaction each");
  positive("--large-threads", options.large_threads, "of plain-large, large");
  positive("--clients", options.clients, "of execute, call: calls under way");
  positive("--in-flight", options.in_flight, "of stream: transactions under way");
  positive("--message", options.message, "of stream: transactions a message, at most");
  positive("--plain-producers", options.plain_producers,
           "of plain: a thread and cluster, in turn, so that none waits for its own markers");
}

void AddReport(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--pid", texts.pids,
                 "NAME=PID, again for more: whose CPU time and memory to tell, on this machine");
  app.add_option("--open", options.open_transactions,
                 "at the end: open so many transactions of one record, and tell the memory; wants "
                 "--pid")
      ->check(CLI::PositiveNumber);
  app.add_option("--settle", texts.settle,
                 "seconds; of --open: memory that has not moved for so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", options.json, "a file for all figures");
}

void Take(const Texts& texts, Options& options) {
  for (const std::string& text : texts.clusters) {
    // Without a bootstrap address too, where no mode needs it.
    const auto [name, bootstrap] = text.find('=') == std::string::npos
                                       ? std::pair(text, std::string())
                                       : SplitPair(text, "--cluster");
    options.work.clusters.push_back({name, bootstrap});
  }
  for (const std::string& text : texts.librdkafka) {
    options.librdkafka.insert(SplitPair(text, "--librdkafka"));
  }
  for (const std::string& text : texts.pids) {
    const auto [name, value] = SplitPair(text, "--pid");
    const std::int64_t pid = std::strtol(value.c_str(), nullptr, 10);
    if (pid <= 0) throw CLI::ValidationError("--pid", "'" + value + "' is no process id");
    options.pids[name] = static_cast<pid_t>(pid);
  }
  options.pace.length = options.pace.count != 0 ? std::chrono::hours(1) : Seconds(texts.seconds);
  options.warmup = Seconds(texts.warmup);
  options.timeout = Seconds(texts.timeout);
  options.settle = Seconds(texts.settle);
}

void Check(const Options& options) {
  const auto uses = [&](auto needs) {
    return std::find_if(options.modes.begin(), options.modes.end(), needs);
  };
  const auto server = uses(NeedsServer);
  if (options.server.empty() && (server != options.modes.end() || options.open_transactions > 0)) {
    throw CLI::ValidationError("--server", "is needed");
  }
  for (const Cluster& cluster : options.work.clusters) {
    const auto mode = uses(NeedsBootstrap);
    if (cluster.bootstrap.empty() && mode != options.modes.end()) {
      throw CLI::ValidationError("--cluster",
                                 "mode " + *mode + " needs " + cluster.name + "=BOOTSTRAP");
    }
  }
  if (options.open_transactions > 0 && options.pids.empty()) {
    throw CLI::ValidationError("--open", "needs --pid: whose memory?");
  }
}

}  // namespace

const std::vector<std::string>& ModeNames() {
  static const std::vector<std::string> names = {"plain",    "managed",     "execute", "stream",
                                                 "enlisted", "plain-large", "large",   "call"};
  return names;
}

bool IsLarge(const std::string& mode) { return mode == "plain-large" || mode == "large"; }

std::string BaseOf(const std::string& mode) { return IsLarge(mode) ? "plain-large" : "plain"; }

bool NeedsBootstrap(const std::string& mode) { return mode == BaseOf(mode) || mode == "enlisted"; }

bool NeedsServer(const std::string& mode) { return mode != BaseOf(mode); }

Parsed ParseCommandLine(int argc, const char* const* argv) {
  Options options;
  options.modes = {"plain", "managed", "execute", "stream"};
  Texts texts;
  CLI::App app{kAbout, "lockstep-bench"};
  app.footer(kExamples);
  AddWork(app, options, texts);
  AddLoad(app, options, texts);
  AddReport(app, options, texts);
  try {
    app.parse(argc, argv);
    Take(texts, options);
    Check(options);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error) == 0 ? 0 : 2};
  }
  return {std::move(options), 0};
}

}  // namespace lockstep::bench
