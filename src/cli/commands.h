#pragma once

#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/client.h"

namespace lockstep::cli {

/// How lockstepctl ends. Stable: scripts read them.
enum ExitCode : int {
  kExitOk = 0,  ///< Done; of commit, txn and resolve: COMMITTED.
  /// Wrong usage, or the call failed and nothing was decided by it; of check: something is red.
  kExitFailed = 1,
  kExitAborted = 2,    ///< commit, txn: ABORTED.
  kExitHeuristic = 3,  ///< HEURISTIC.
  kExitUnknown = 4,    ///< Decided and under way, or not known. Ask again.
  kExitTooLate = 5,    ///< abort: COMMIT was decided.
};

struct WorkOptions {
  std::string txn_id;
  std::string cluster;
  std::uint64_t sequence = 0;
};
struct ProduceOptions : WorkOptions {
  std::string topic;
  std::optional<std::string> value;  ///< None or "-": from the input.
  std::optional<std::string> key;
  std::optional<std::int32_t> partition;
  std::vector<std::string> headers;
  bool null = false;   ///< A null value (a tombstone).
  bool lines = false;  ///< Each line of the input is a record.
};
struct OffsetsOptions : WorkOptions {
  std::string group;
  std::optional<std::int32_t> generation;
  std::string member;
  std::optional<std::string> instance;
  bool standalone = false;
  std::string kafka_cluster_id;
  std::vector<std::string> offsets;
};
struct BeginOptions {
  std::string timeout = "1m";
  std::string label;
};
struct CommitOptions {
  std::string wait = "complete";
  std::string max_wait;  ///< Empty: none.
};

struct ListOptions {
  std::vector<std::string> states;  ///< "active", "heuristic", ...; none: all.
  std::string label_prefix;
};
struct ResolveOptions {
  std::string txn_id;
  std::string cluster;
  std::string resolution;  ///< "commit", "declare-unknown", ...: v1::Resolution's names.
  bool force = false;
  std::string who;
  std::string why;
};
struct EndOrphanOptions {
  std::string cluster;
  std::string transactional_id;
  std::string direction;  ///< "abort" or "commit".
  std::string started;    ///< As listed: another transaction of the id is not ended.
  bool force = false;
  std::string who;
  std::string why;
};

struct CheckOptions {
  std::string config = "/etc/lockstep/lockstepd.yaml";
  std::vector<std::string> topics;  ///< "CLUSTER:TOPIC".
  std::vector<std::string> groups;  ///< "CLUSTER:GROUP".
  std::string timeout = "10s";
};

/// What lockstepctl does, one function a command. Answers go to `out`, everything else to `err`.
/// Each returns an ExitCode. Blocking.
class Commands {
 public:
  Commands(Client& client, bool json, std::istream& in, std::ostream& out, std::ostream& err)
      : client_(client), json_(json), in_(in), out_(out), err_(err) {}

  int Status();
  int Begin(const BeginOptions& options);
  int Produce(const ProduceOptions& options);
  int Offsets(const OffsetsOptions& options);
  int Commit(const std::string& txn_id, const CommitOptions& options);
  int Abort(const std::string& txn_id);
  int Show(const std::string& txn_id);
  int InDoubt();
  int RepairMarkers(const std::string& txn_id, const std::string& cluster);
  int Acknowledge(const std::string& txn_id);
  int Txns(const ListOptions& options);
  /// Prints the transaction whenever it changes, until its outcome is final: whose exit code it is.
  int Watch(const std::string& txn_id);
  int Clusters();
  int Resolve(const ResolveOptions& options);
  int ListOrphans(const std::string& cluster);
  int EndOrphan(const EndOrphanOptions& options);
  /// `wait`: until nothing is open any more.
  int Drain(bool wait);
  int Undrain();
  int LogLevel(const std::string& level);
  int LogInfo();
  /// Offline: prints what the decision log in a data folder holds.
  int LogDump(const std::string& folder);
  /// Into a file that does not exist, or into a folder, under a name of its own. The file is there
  /// only once it is whole and durable.
  int Backup(const std::string& target);
  /// Offline: makes a decision log of a backup, in a folder that is empty or does not exist.
  int Restore(const std::string& file, const std::string& folder);
  /// Offline: looks at what a lockstepd with this configuration would meet. kExitFailed: something
  /// is red.
  int Check(const CheckOptions& options);
  /// A whole transaction: begin, the records (see ParseRecordSpec), then commit or `abort`.
  int Txn(const BeginOptions& begin, const std::vector<std::string>& records, bool abort,
          const CommitOptions& commit);

 private:
  int Failed(const CallError& error);
  /// Of a call that changes something: kExitUnknown if it may have.
  int FailedChange(const CallError& error);
  int WrongUsage(const std::string& message);
  /// Begins, and leaves the id in `txn_id`.
  std::optional<int> BeginTxn(const BeginOptions& options, v1::BeginGlobalTxnResponse& response);
  /// Lists, and tells what could not be asked.
  std::optional<int> Orphans(const std::string& cluster, v1::ListOrphansResponse& found);
  std::optional<int> SendAll(const std::string& txn_id, const std::vector<std::string>& records);

  Client& client_;
  const bool json_;
  std::istream& in_;
  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace lockstep::cli
