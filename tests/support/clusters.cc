#include "clusters.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace lockstep::testing {
namespace {

constexpr const char* kScript = LOCKSTEP_SOURCE_DIR "/scripts/clusters";
constexpr const char* kName = "kafka";

[[noreturn]] void Fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

/// Starts a program with its standard input or output joined to a pipe; returns our end of it.
/// Close-on-exec throughout, so that no other child keeps the pipe open.
struct Child {
  pid_t pid = -1;
  int pipe = -1;
};
Child Spawn(std::vector<std::string> words, int joined_fd, short flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) Fail("pipe2", errno);
  const bool child_reads = joined_fd == STDIN_FILENO;
  const int theirs = child_reads ? ends[0] : ends[1];
  const int ours = child_reads ? ends[1] : ends[0];

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, joined_fd);
  if (!child_reads) posix_spawn_file_actions_adddup2(&actions, theirs, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, flags);

  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Child child{-1, ours};
  const int error = posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(theirs);
  if (error != 0) {
    close(ours);
    Fail(words[0], error);
  }
  return child;
}

int Await(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string MakeFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "lockstep-kafka.XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) Fail("mkdtemp " + path, errno);
  return path;
}

std::vector<std::string> NodeArguments(int node) {
  if (node == 0) return {};
  return {"--node", std::to_string(node)};
}

}  // namespace

KafkaCluster::KafkaCluster(const KafkaClusterOptions& options) : folder_(MakeFolder()) {
  // Whatever becomes of this process, its end of the pipe closes, and then the guard stops the
  // brokers. A session of its own, for Ctrl-C must not reach it.
  const Child guard = Spawn(
      {"sh", "-c", R"(read -r _; "$0" stop --dir "$1" --remove; rm -rf "$1")", kScript, folder_},
      STDIN_FILENO, POSIX_SPAWN_SETSID);
  guard_ = guard.pid;
  guard_input_ = guard.pipe;

  std::vector<std::string> arguments = {"--kafka", options.kafka, "--nodes",
                                        std::to_string(options.nodes)};
  const auto add = [&](const std::string& name, const std::string& value) {
    arguments.insert(arguments.end(), {"--" + name, value});
  };
  if (options.transaction_version) {
    add("transaction-version", std::to_string(*options.transaction_version));
  }
  if (options.coordinators_on) add("coordinators-on", std::to_string(*options.coordinators_on));
  if (options.secure) arguments.emplace_back("--secure");
  for (const auto& [key, value] : options.properties) add("property", key + "=" + value);
  for (const std::string& topic : options.topics) add("topic", topic);
  try {
    Script("start", std::move(arguments));
    ReadDescription();
  } catch (...) {
    close(guard_input_);
    Await(guard_);
    throw;
  }
}

KafkaCluster::~KafkaCluster() {
  close(guard_input_);
  Await(guard_);
}

void KafkaCluster::Kill(int node) { Script("kill", NodeArguments(node)); }
void KafkaCluster::Pause(int node) { Script("pause", NodeArguments(node)); }
void KafkaCluster::Resume(int node) { Script("resume", NodeArguments(node)); }
void KafkaCluster::Restart(int node) { Script("restart", NodeArguments(node)); }
void KafkaCluster::CreateTopic(const std::string& topic) { Script("topic", {"--topic", topic}); }

void KafkaCluster::Wipe() {
  Script("wipe", {});
  ReadDescription();
}

std::string KafkaCluster::Tool(const std::string& java_class, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--", java_class});
  return Script("tool", std::move(arguments));
}

std::string KafkaCluster::Script(const std::string& command,
                                 std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {kScript, command, "--dir", folder_, "--name", kName});
  const Child child = Spawn(std::move(arguments), STDOUT_FILENO, 0);
  std::string output;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(child.pipe, buffer, sizeof buffer)) != 0;) {
    if (size > 0) output.append(buffer, static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) break;
  }
  close(child.pipe);
  if (Await(child.pid) != 0)
    throw std::runtime_error("scripts/clusters " + command + ": " + output);
  return output;
}

void KafkaCluster::ReadDescription() {
  const std::string path = folder_ + "/" + kName + "/cluster.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  const auto description = nlohmann::json::parse(file);
  bootstrap_ = description.at("bootstrap").get<std::string>();
  cluster_id_ = description.at("cluster_id").get<std::string>();
  const auto security = description.find("security");
  if (security == description.end()) return;
  security->at("bootstrap").get_to(listeners_);
  security->at("users").get_to(passwords_);
  security->at("key_password").get_to(key_password_);
  security->at("folder").get_to(security_folder_);
}

const std::string& KafkaCluster::bootstrap(const std::string& listener) const {
  return listeners_.at(listener);
}

std::string KafkaCluster::BrokerLog(int node) const {
  std::ifstream file(folder_ + "/" + kName + "/node-" + std::to_string(node) + ".log");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::unique_ptr<KafkaCluster>> StartKafkaClusters(
    const std::vector<KafkaClusterOptions>& options) {
  std::vector<std::future<std::unique_ptr<KafkaCluster>>> starting;
  for (const KafkaClusterOptions& each : options) {
    starting.push_back(
        std::async(std::launch::async, [each] { return std::make_unique<KafkaCluster>(each); }));
  }
  std::vector<std::unique_ptr<KafkaCluster>> clusters;
  clusters.reserve(starting.size());
  for (auto& each : starting) clusters.push_back(each.get());
  return clusters;
}

}  // namespace lockstep::testing
