#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/v1/admin.grpc.pb.h"
#include "lockstep/v1/coordinator.grpc.pb.h"

namespace lockstep::testing {

/// A lockstepd of this test's own, as a child process: what a user runs. Its data folder lives as
/// long as this object, over any number of kills and starts. Dies with the test. File permissions
/// hold for it also where the tests run as root. Everything blocks, and throws std::runtime_error,
/// with the end of the server's log, where it takes too long.
class Lockstepd {
 public:
  struct Options {
    std::vector<std::pair<std::string, std::string>> clusters;  ///< Name, bootstrap servers.
    std::string data_dir;      ///< Empty: a new one, removed at the end.
    std::string extra_yaml;    ///< Top-level keys, as text.
    std::string cluster_yaml;  ///< Keys for every cluster, indented by four blanks.
    std::map<std::string, std::string> yaml_of;  ///< The same for single ones, by name.
    /// "NAME=value", instead of this process's own or beside them.
    std::vector<std::string> environment;
  };

  explicit Lockstepd(Options options);
  ~Lockstepd();  ///< kill -9.
  Lockstepd(const Lockstepd&) = delete;
  Lockstepd& operator=(const Lockstepd&) = delete;

  /// Starts it, with these failpoints armed, and returns once it serves.
  void Start(const std::vector<std::string>& failpoints = {});
  /// Starts it and does not wait: for starts that are to fail, or to crash on the way.
  void Spawn(const std::vector<std::string>& failpoints = {});
  /// Returns once every cluster is READY.
  void AwaitReady(std::chrono::milliseconds limit = std::chrono::seconds(60));
  /// Returns once no transaction is in doubt.
  void AwaitNothingInDoubt(std::chrono::milliseconds limit = std::chrono::seconds(60));

  void Kill();  ///< kill -9, and waits until it is gone.
  /// SIGTERM, and waits. The exit code.
  int Stop(std::chrono::milliseconds limit = std::chrono::seconds(30));
  /// Waits until it has ended by itself: its wait status (see waitpid), or none if it still runs.
  std::optional<int> AwaitEnd(std::chrono::milliseconds limit);
  /// A start that is to fail: its exit code, or -1 if it still runs after a minute or was killed.
  int FailedStart(const std::vector<std::string>& failpoints = {});
  bool running();
  pid_t pid() const { return pid_; }

  v1::Coordinator::Stub& coordinator() { return *coordinator_; }
  v1::Admin::Stub& admin() { return *admin_; }
  const std::string& address() const { return address_; }
  const std::string& data_dir() const { return options_.data_dir; }
  const std::string& folder() const { return folder_; }
  std::string Log() const;  ///< All that it wrote to stderr so far, over all its starts.

  /// Polls until `condition` holds; throws, naming `what` and all that is in doubt, if that takes
  /// longer than `limit`.
  void Await(const std::string& what, std::chrono::milliseconds limit,
             const std::function<bool()>& condition);

 private:
  void Connect();
  grpc::Status ListInDoubt(v1::ListInDoubtResponse& response);
  std::string InDoubt();  ///< For people.

  Options options_;
  std::string folder_;  ///< Configuration, log, port file.
  pid_t pid_ = -1;
  std::string address_;
  std::unique_ptr<v1::Coordinator::Stub> coordinator_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

/// One transaction by a client that retries nothing.
class TestTxn {
 public:
  /// Throws if Begin fails.
  explicit TestTxn(v1::Coordinator::Stub& stub,
                   std::chrono::seconds timeout = std::chrono::seconds(60));

  grpc::Status Produce(const std::string& cluster, const std::string& topic,
                       const std::string& value, std::optional<std::int32_t> partition = {});
  grpc::Status Commit(v1::CommitResponse* response,
                      std::chrono::milliseconds deadline = std::chrono::seconds(60));
  grpc::Status Abort(v1::AbortResponse* response);
  const std::string& id() const { return id_; }

 private:
  v1::Coordinator::Stub& stub_;
  std::string id_;
  std::uint64_t sequence_ = 0;
};

struct Ran {
  int exit_code = -1;
  std::string out;  ///< Both outputs.
};

/// Runs a program until it ends by itself.
Ran RunProgram(const std::vector<std::string>& words);

/// GetTxn; throws if the call fails.
v1::Transaction GetTxn(v1::Coordinator::Stub& stub, const std::string& id);

}  // namespace lockstep::testing
