#include "lockstepd.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "call_context.h"

namespace lockstep::testing {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPoll{5};

std::string MakeFolder() {
  // Not on tmpfs, where a sync costs nothing and proves nothing.
  std::string path = "/var/tmp/lockstepd-test.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string ConfigText(const Lockstepd::Options& options) {
  std::ostringstream yaml;
  yaml << "listen: 127.0.0.1:0\ndata_dir: " << options.data_dir << "\n" << options.extra_yaml;
  yaml << "clusters:\n";
  for (const auto& [name, bootstrap] : options.clusters) {
    yaml << "  - name: " << name << "\n    bootstrap_servers: " << bootstrap << "\n"
         << options.cluster_yaml;
    const auto own = options.yaml_of.find(name);
    if (own != options.yaml_of.end()) yaml << own->second;
  }
  return yaml.str();
}

/// This process's environment, with `changes` ("NAME=value").
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto replaces = [name](const std::string& change) { return change.starts_with(name); };
    if (std::none_of(changes.begin(), changes.end(), replaces)) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Lockstepd::Lockstepd(Options options) : options_(std::move(options)), folder_(MakeFolder()) {
  if (options_.data_dir.empty()) options_.data_dir = folder_ + "/data";
  std::ofstream(folder_ + "/lockstepd.yaml") << ConfigText(options_);
}

Lockstepd::~Lockstepd() {
  Kill();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Lockstepd::Spawn(const std::vector<std::string>& failpoints) {
  fs::remove(folder_ + "/port");
  std::vector<std::string> words = {LOCKSTEPD_BINARY, "--config", folder_ + "/lockstepd.yaml",
                                    "--port-file", folder_ + "/port"};
  if (!failpoints.empty()) words.emplace_back("--enable-failpoints");
  for (const std::string& failpoint : failpoints) {
    words.emplace_back("--failpoint");
    words.push_back(failpoint);
  }
  const std::vector<char*> argv = Pointers(words);
  std::vector<std::string> variables = EnvironmentWith(options_.environment);
  const std::vector<char*> envp = Pointers(variables);
  const std::string log = folder_ + "/log";
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    // Root passes over permissions by these; others do not have them to drop.
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
}

void Lockstepd::Start(const std::vector<std::string>& failpoints) {
  Spawn(failpoints);
  Await("lockstepd to serve", std::chrono::seconds(60), [this] {
    if (!running()) throw std::runtime_error("lockstepd ended at its start:\n" + Log());
    return fs::exists(folder_ + "/port");
  });
  Connect();
}

void Lockstepd::Connect() {
  std::string port = ReadFile(folder_ + "/port");
  port.erase(port.find_last_not_of(" \n") + 1);
  address_ = "127.0.0.1:" + port;
  grpc::ChannelArguments arguments;
  // Each start has a channel of its own: nothing of the last one's back-off.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // As our clients: nothing is repeated unseen.
  const auto channel =
      grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  coordinator_ = v1::Coordinator::NewStub(channel);
  admin_ = v1::Admin::NewStub(channel);
}

void Lockstepd::AwaitReady(std::chrono::milliseconds limit) {
  Await("every cluster to be READY", limit, [this] {
    CallContext context(std::chrono::seconds(5));
    v1::GetStatusResponse status;
    if (!admin_->GetStatus(&context, {}, &status).ok()) return false;
    for (const v1::ClusterStatus& cluster : status.clusters()) {
      if (cluster.state() != v1::CLUSTER_STATE_READY) return false;
    }
    return true;
  });
}

void Lockstepd::AwaitNothingInDoubt(std::chrono::milliseconds limit) {
  Await("nothing to be in doubt", limit, [this] {
    v1::ListInDoubtResponse response;
    return ListInDoubt(response).ok() && response.in_doubt().empty();
  });
}

grpc::Status Lockstepd::ListInDoubt(v1::ListInDoubtResponse& response) {
  CallContext context(std::chrono::seconds(5));
  return admin_->ListInDoubt(&context, {}, &response);
}

std::string Lockstepd::InDoubt() {
  if (!running() || !admin_) return "it does not run; ";
  v1::ListInDoubtResponse response;
  if (const grpc::Status status = ListInDoubt(response); !status.ok()) {
    return "ListInDoubt: " + status.error_message() + "; ";
  }
  return "in doubt: " + response.ShortDebugString() + "; ";
}

void Lockstepd::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int Lockstepd::Stop(std::chrono::milliseconds limit) {
  ::kill(pid_, SIGTERM);
  const auto status = AwaitEnd(limit);
  if (!status) throw std::runtime_error("lockstepd did not stop on SIGTERM:\n" + Log());
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

std::optional<int> Lockstepd::AwaitEnd(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  for (;;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return status;
    }
    if (Clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
}

int Lockstepd::FailedStart(const std::vector<std::string>& failpoints) {
  Spawn(failpoints);
  const auto status = AwaitEnd(std::chrono::minutes(1));
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

bool Lockstepd::running() {
  siginfo_t info{};
  // Left to be waited for: AwaitEnd wants the status.
  return pid_ > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

std::string Lockstepd::Log() const { return ReadFile(folder_ + "/log"); }

void Lockstepd::Await(const std::string& what, std::chrono::milliseconds limit,
                      const std::function<bool()>& condition) {
  const auto until = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() >= until) {
      const std::string log = Log();
      throw std::runtime_error("waited too long for " + what + "; " + InDoubt() +
                               "lockstepd's log ends:\n" +
                               log.substr(log.size() - std::min<std::size_t>(log.size(), 4000)));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

TestTxn::TestTxn(v1::Coordinator::Stub& stub, std::chrono::seconds timeout) : stub_(stub) {
  CallContext context(std::chrono::seconds(10));
  v1::BeginGlobalTxnRequest request;
  request.mutable_timeout()->set_seconds(timeout.count());
  v1::BeginGlobalTxnResponse response;
  const grpc::Status status = stub_.BeginGlobalTxn(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("BeginGlobalTxn: " + status.error_message());
  id_ = response.txn_id();
}

grpc::Status TestTxn::Produce(const std::string& cluster, const std::string& topic,
                              const std::string& value, std::optional<std::int32_t> partition) {
  CallContext context(std::chrono::seconds(10));
  v1::ProduceRequest request;
  request.set_txn_id(id_);
  request.set_cluster(cluster);
  request.set_sequence(sequence_);
  v1::Record* record = request.add_records();
  record->set_topic(topic);
  record->set_value(value);
  if (partition) record->set_partition(*partition);
  v1::ProduceResponse response;
  const grpc::Status status = stub_.Produce(&context, request, &response);
  if (status.ok()) ++sequence_;
  return status;
}

grpc::Status TestTxn::Commit(v1::CommitResponse* response, std::chrono::milliseconds deadline) {
  CallContext context(deadline);
  v1::CommitRequest request;
  request.set_txn_id(id_);
  return stub_.Commit(&context, request, response);
}

grpc::Status TestTxn::Abort(v1::AbortResponse* response) {
  CallContext context;
  v1::AbortRequest request;
  request.set_txn_id(id_);
  return stub_.Abort(&context, request, response);
}

Ran RunProgram(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += "'" + word + "' ";
  std::FILE* pipe = ::popen((command + "2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen " + command);
  Ran ran;
  std::array<char, 4096> buffer;
  while (const auto size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    ran.out.append(buffer.data(), size);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) ran.exit_code = WEXITSTATUS(status);
  return ran;
}

v1::Transaction GetTxn(v1::Coordinator::Stub& stub, const std::string& id) {
  CallContext context(std::chrono::seconds(10));
  v1::GetTxnRequest request;
  request.set_txn_id(id);
  v1::GetTxnResponse response;
  const grpc::Status status = stub.GetTxn(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("GetTxn " + id + ": " + status.error_message());
  return response.txn();
}

}  // namespace lockstep::testing
