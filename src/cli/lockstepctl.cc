#include "cli/lockstepctl.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/record_spec.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0  done; of commit, txn, resolve and watch: COMMITTED\n"
    "  1  wrong usage, or the call failed and decided nothing; of check: something is red\n"
    "  2  commit, txn, watch: ABORTED\n"
    "  3  commit, txn, resolve, watch: HEURISTIC, see 'show'\n"
    "  4  commit, txn, abort, resolve, watch, orphans end: under way or unknown; ask again\n"
    "  5  abort: too late, COMMIT is decided\n"
    "Examples:\n"
    "  lockstepctl txn --record east:orders=hello --record west:orders:0:key=hello\n"
    "  id=$(lockstepctl begin --timeout 5m)\n"
    "  lockstepctl produce $id east orders hello --sequence 0\n"
    "  lockstepctl commit $id\n"
    "  lockstepctl resolve $id west declare-committed --why 'decommissioned; records checked'\n"
    "  lockstepctl backup /var/backups/lockstep/\n"
    "  lockstepctl restore /var/backups/lockstep/FILE /var/lib/lockstep\n"
    "  eval \"$(lockstepctl completion bash)\"\n";

/// Everything that the command line can say. Options that CLI11 fills must stay where they are.
struct Arguments {
  std::string server = "127.0.0.1:7420";
  client::Security security;
  std::string output = "table";
  std::string deadline = "30s";
  std::string txn_id;
  std::string cluster;
  BeginOptions begin;
  ProduceOptions produce;
  OffsetsOptions offsets;
  CommitOptions commit;
  std::vector<std::string> records;
  bool abort = false;
  ResolveOptions resolve;
  EndOrphanOptions end_orphan;
  CheckOptions check;
  bool drain_wait = false;
  ListOptions list;
  std::string level;
  std::string folder;
  std::string file;
  std::string shell;
  std::function<int(Commands&)> command;
};

CLI::App* Subcommand(CLI::App& app, Arguments& arguments, const char* name, const char* help,
                     std::function<int(Commands&)> run) {
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([command, &arguments, run = std::move(run)] {
    // Called after those of its own subcommands.
    if (command->get_subcommands().empty()) arguments.command = run;
  });
  return command;
}

void AddTxnId(CLI::App* command, std::string& txn_id) {
  command->add_option("ID", txn_id, "The transaction's id")->required();
}

void AddWork(CLI::App* command, WorkOptions& work) {
  AddTxnId(command, work.txn_id);
  command->add_option("CLUSTER", work.cluster, "The cluster's configured name")->required();
  command
      ->add_option("--sequence", work.sequence,
                   "Counts this transaction's produce and send-offsets commands from 0; a repeated "
                   "number changes nothing")
      ->required();
}

void AddBegin(CLI::App* command, BeginOptions& begin) {
  command->add_option("--timeout", begin.timeout, "It aborts if not decided by then")
      ->capture_default_str();
  command->add_option("--label", begin.label, "For people");
}

void AddCommit(CLI::App* command, CommitOptions& commit) {
  command->add_option("--wait", commit.wait, "complete or decided")
      ->check(CLI::IsMember({"complete", "decided"}))
      ->capture_default_str();
  command->add_option("--max-wait", commit.max_wait,
                      "Once decided, wait this long for complete (500ms, 30s, 5m, 1h)");
}

void AddWorkCommands(CLI::App& app, Arguments& a) {
  auto* begin = Subcommand(app, a, "begin", "Begin a transaction and print its id",
                           [&a](Commands& c) { return c.Begin(a.begin); });
  AddBegin(begin, a.begin);

  auto* produce = Subcommand(app, a, "produce", "Add records",
                             [&a](Commands& c) { return c.Produce(a.produce); });
  AddWork(produce, a.produce);
  produce->add_option("TOPIC", a.produce.topic, "The topic")->required();
  produce->add_option("VALUE", a.produce.value, "The value; '-' or none: all of standard input");
  produce->add_option("--key", a.produce.key, "The key; none is a null key");
  produce->add_option("--partition", a.produce.partition, "Else the key decides");
  produce->add_option("--header", a.produce.headers, "name=value; may be repeated")
      ->expected(1)
      ->take_all();
  produce->add_flag("--null", a.produce.null, "A null value (a tombstone)");
  produce->add_flag("--lines", a.produce.lines, "Each line of standard input is a record");

  auto* offsets = Subcommand(app, a, "send-offsets", "Add a consumer group's offsets",
                             [&a](Commands& c) { return c.Offsets(a.offsets); });
  AddWork(offsets, a.offsets);
  offsets->add_option("--group", a.offsets.group, "The consumer group")->required();
  offsets->add_option("--offset", a.offsets.offsets, "topic:partition=offset; may be repeated")
      ->required()
      ->expected(1)
      ->take_all();
  offsets->add_option("--generation", a.offsets.generation, "The member's generation");
  offsets->add_option("--member", a.offsets.member, "The member's id");
  offsets->add_option("--instance", a.offsets.instance, "The member's group.instance.id");
  offsets->add_flag("--standalone", a.offsets.standalone, "Nobody else commits for this group");
  offsets->add_option("--kafka-cluster-id", a.offsets.kafka_cluster_id,
                      "The Kafka cluster id that the consumer saw");
}

void AddEndCommands(CLI::App& app, Arguments& a) {
  auto* commit = Subcommand(app, a, "commit", "Commit, and print the outcome",
                            [&a](Commands& c) { return c.Commit(a.txn_id, a.commit); });
  AddTxnId(commit, a.txn_id);
  AddCommit(commit, a.commit);

  auto* abort = Subcommand(app, a, "abort", "Abort, and print the outcome",
                           [&a](Commands& c) { return c.Abort(a.txn_id); });
  AddTxnId(abort, a.txn_id);

  auto* txn =
      Subcommand(app, a, "txn", "A whole transaction: begin, produce, commit",
                 [&a](Commands& c) { return c.Txn(a.begin, a.records, a.abort, a.commit); });
  AddBegin(txn, a.begin);
  txn->add_option("--record", a.records,
                  "cluster:topic[:partition[:key]]=value; without '=' the value is null; may be "
                  "repeated")
      ->required()
      ->expected(1)
      ->take_all();
  txn->add_flag("--abort", a.abort, "Abort instead of commit");
  AddCommit(txn, a.commit);
}

void AddOperatorCommands(CLI::App& app, Arguments& a) {
  Subcommand(app, a, "status", "The server and its clusters",
             [](Commands& c) { return c.Status(); });
  auto* show = Subcommand(app, a, "show", "What is known of a transaction",
                          [&a](Commands& c) { return c.Show(a.txn_id); });
  AddTxnId(show, a.txn_id);
  Subcommand(app, a, "in-doubt", "Decided and not complete, or HEURISTIC and not acknowledged",
             [](Commands& c) { return c.InDoubt(); });
  auto* repair =
      Subcommand(app, a, "repair-markers", "Write the markers that a broker lost (KAFKA-20734)",
                 [&a](Commands& c) { return c.RepairMarkers(a.txn_id, a.cluster); });
  AddTxnId(repair, a.txn_id);
  repair->add_option("CLUSTER", a.cluster, "The cluster's configured name")->required();
  auto* acknowledge = Subcommand(app, a, "acknowledge", "A HEURISTIC outcome has been seen",
                                 [&a](Commands& c) { return c.Acknowledge(a.txn_id); });
  AddTxnId(acknowledge, a.txn_id);
  auto* txns = Subcommand(app, a, "txns", "Transactions that are open, or ended lately",
                          [&a](Commands& c) { return c.Txns(a.list); });
  txns->add_option("--state", a.list.states, "Only in this state; may be repeated")
      ->check(CLI::IsMember(
          {"active", "preparing", "committing", "committed", "aborting", "aborted", "heuristic"}))
      ->expected(1)
      ->take_all();
  txns->add_option("--label", a.list.label_prefix, "Only with labels that begin so");
  auto* watch = Subcommand(app, a, "watch", "Print a transaction whenever it changes, to its end",
                           [&a](Commands& c) { return c.Watch(a.txn_id); });
  AddTxnId(watch, a.txn_id);
  Subcommand(app, a, "clusters", "The clusters, and how the server gets on with them",
             [](Commands& c) { return c.Clusters(); });
}

void AddWhoAndWhy(CLI::App* command, std::string& who, std::string& why, bool& force) {
  command->add_option("--who", who, "Who says so; kept")->envname("USER")->required();
  command->add_option("--why", why, "Why; kept")->required();
  command->add_flag("--force", force, "Although it contradicts what is known");
}

/// What overrides the server's own ways.
void AddOrderCommands(CLI::App& app, Arguments& a) {
  auto* resolve = Subcommand(app, a, "resolve", "Say how one branch in doubt is to end, or ended",
                             [&a](Commands& c) { return c.Resolve(a.resolve); });
  AddTxnId(resolve, a.resolve.txn_id);
  resolve->add_option("CLUSTER", a.resolve.cluster, "The cluster's configured name")->required();
  resolve
      ->add_option("HOW", a.resolve.resolution,
                   "commit, abort: a broker is to do it. declare-committed, declare-aborted, "
                   "declare-unknown: no broker is left to ask, it counts as that")
      ->check(CLI::IsMember(
          {"commit", "abort", "declare-committed", "declare-aborted", "declare-unknown"}))
      ->required();
  AddWhoAndWhy(resolve, a.resolve.who, a.resolve.why, a.resolve.force);

  auto* orphans = Subcommand(app, a, "orphans",
                             "Open transactions of other decision logs: a lost one's, or a live "
                             "lockstepd's",
                             [&a](Commands& c) { return c.ListOrphans(a.cluster); });
  orphans->add_option("--cluster", a.cluster, "Only on this one");
  auto* end = Subcommand(*orphans, a, "end", "End one that 'orphans' shows",
                         [&a](Commands& c) { return c.EndOrphan(a.end_orphan); });
  end->add_option("CLUSTER", a.end_orphan.cluster, "The cluster's configured name")->required();
  end->add_option("TRANSACTIONAL_ID", a.end_orphan.transactional_id, "As listed")->required();
  end->add_option("HOW", a.end_orphan.direction, "abort, or commit (needs --force)")
      ->check(CLI::IsMember({"abort", "commit"}))
      ->required();
  end->add_option("--started", a.end_orphan.started, "As listed: a later one is not ended")
      ->required();
  AddWhoAndWhy(end, a.end_orphan.who, a.end_orphan.why, a.end_orphan.force);
}

void AddCheck(CLI::App& app, Arguments& a) {
  auto* check = Subcommand(app, a, "check",
                           "Look at what lockstepd would meet, by its configuration; needs no "
                           "server, and changes nothing. Each line with its fix",
                           [&a](Commands& c) { return c.Check(a.check); });
  check->add_option("--config", a.check.config, "lockstepd's configuration")->capture_default_str();
  const auto add_names = [check](const char* name, std::vector<std::string>& names,
                                 const char* help) {
    check->add_option(name, names, help)->expected(1)->take_all();
  };
  add_names("--topic", a.check.topics, "CLUSTER:TOPIC that will be written; may be repeated");
  add_names("--group", a.check.groups, "CLUSTER:GROUP whose offsets will be sent; may be repeated");
  check->add_option("--timeout", a.check.timeout, "The longest for one question to a cluster")
      ->capture_default_str();
}

void AddServerCommands(CLI::App& app, Arguments& a) {
  AddCheck(app, a);
  auto* drain = Subcommand(app, a, "drain", "Refuse new transactions until undrain or a restart",
                           [&a](Commands& c) { return c.Drain(a.drain_wait); });
  drain->add_flag("--wait", a.drain_wait, "Until nothing is open any more");
  Subcommand(app, a, "undrain", "Take new transactions again",
             [](Commands& c) { return c.Undrain(); });
  auto* level = Subcommand(app, a, "log-level", "How much the server logs, until it restarts",
                           [&a](Commands& c) { return c.LogLevel(a.level); });
  level->add_option("LEVEL", a.level, "trace, debug, info, warn or error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->required();

  CLI::App* log = app.add_subcommand("log", "The decision log");
  log->require_subcommand(1);
  Subcommand(*log, a, "info", "In numbers", [](Commands& c) { return c.LogInfo(); });
  auto* dump = Subcommand(*log, a, "dump",
                          "Print what the log in a data folder holds; needs no server, may run "
                          "beside it, and changes nothing",
                          [&a](Commands& c) { return c.LogDump(a.folder); });
  dump->add_option("FOLDER", a.folder, "The data folder")->required();

  auto* backup = Subcommand(app, a, "backup", "Copy a running server's decision log into a file",
                            [&a](Commands& c) { return c.Backup(a.file); });
  backup
      ->add_option("TARGET", a.file, "A file that does not exist yet, or a folder to put one into")
      ->required();
  auto* restore =
      Subcommand(app, a, "restore",
                 "Make a data folder of a backup; needs no server. It holds another log "
                 "than the one that was backed up, which must not run any more",
                 [&a](Commands& c) { return c.Restore(a.file, a.folder); });
  restore->add_option("FILE", a.file, "The backup")->required();
  restore->add_option("FOLDER", a.folder, "Empty, or not there yet")->required();

  auto* completion =
      app.add_subcommand("completion", "Print a script that completes commands and options");
  completion->add_option("SHELL", a.shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
}

void AddSecurity(CLI::App& app, client::Security& security) {
  app.add_option("--ca", security.ca_file, "Whose server certificates to trust, PEM: use TLS")
      ->envname("LOCKSTEP_CA");
  app.add_flag("--tls", security.tls, "Use TLS, and trust the system's authorities")
      ->envname("LOCKSTEP_TLS");
  app.add_option("--certificate", security.certificate_file, "This client's own, PEM")
      ->envname("LOCKSTEP_CERTIFICATE");
  app.add_option("--private-key", security.key_file, "Its key, PEM")
      ->envname("LOCKSTEP_PRIVATE_KEY");
  app.add_option("--token-file", security.token_file, "A file with the token to show")
      ->envname("LOCKSTEP_TOKEN_FILE");
  app.add_option("--server-name", security.server_name,
                 "What the server's certificate says, if it is not the host of --server")
      ->envname("LOCKSTEP_SERVER_NAME");
}

}  // namespace

int RunLockstepctl(int argc, const char* const* argv, std::istream& in, std::ostream& out,
                   std::ostream& err) {
  Arguments arguments;
  CLI::App app("lockstepctl: transactions over several Kafka clusters, by hand", "lockstepctl");
  app.set_version_flag("--version", std::string("lockstepctl ") + LOCKSTEP_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--server", arguments.server, "lockstepd's address")
      ->envname("LOCKSTEP_SERVER")
      ->capture_default_str();
  AddSecurity(app, arguments.security);
  app.add_option("--output", arguments.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_option("--deadline", arguments.deadline,
                 "The longest that one call may take (500ms, 30s, 5m)")
      ->capture_default_str();
  AddWorkCommands(app, arguments);
  AddEndCommands(app, arguments);
  AddOperatorCommands(app, arguments);
  AddOrderCommands(app, arguments);
  AddServerCommands(app, arguments);
  app.footer(kFooter);  // Last: commands made after it would repeat it.

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app.exit(end, out, err) == 0 ? kExitOk : kExitFailed;
  }
  if (!arguments.shell.empty()) return out << Completion(app, arguments.shell), kExitOk;
  // gRPC would take port 443.
  if (arguments.server.find(':') == std::string::npos) {
    err << "lockstepctl: --server: expected HOST:PORT, got '" << arguments.server << "'\n";
    return kExitFailed;
  }
  const auto deadline = ParseDurationSpec(arguments.deadline);
  if (!deadline) {
    err << "lockstepctl: --deadline: " << deadline.error().message << "\n";
    return kExitFailed;
  }
  Client client(arguments.server,
                std::chrono::seconds(deadline->seconds()) +
                    std::chrono::milliseconds(deadline->nanos() / 1'000'000),
                arguments.security);
  if (const auto& problem = client.problem()) {
    err << "lockstepctl: " << problem->message << "\n";
    return kExitFailed;
  }
  Commands commands(client, arguments.output == "json", in, out, err);
  return arguments.command(commands);
}

}  // namespace lockstep::cli
