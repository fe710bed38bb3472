#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What tests on real brokers share.
namespace lockstep::testing {

struct KafkaClusterOptions {
  std::string kafka = "4.4.0";             ///< Kafka's version.
  std::optional<int> transaction_version;  ///< 0, 1 or 2. None: the version's highest.
  int nodes = 1;
  bool secure =
      false;  ///< Listeners with TLS and log-in, and ACLs: scripts/clusters start --secure.
  std::optional<int> coordinators_on;  ///< The node that gets all coordinators. None: spread.
  std::vector<std::pair<std::string, std::string>> properties;  ///< For every broker.
  std::vector<std::string> topics;                              ///< "name:partitions@node,node".
};

/// A real Kafka cluster of this test's own, started by scripts/clusters in a temporary folder and
/// on free ports. The constructor returns once it serves (about 4 s); the destructor kills the
/// brokers and removes the folder, and so does the death of this process, however it dies.
/// Everything blocks, and throws std::runtime_error with the script's own words where it fails. One
/// thread.
///
/// Brokers take about 350 MB and some seconds: share one among the tests of a program.
class KafkaCluster {
 public:
  explicit KafkaCluster(const KafkaClusterOptions& options);
  ~KafkaCluster();
  KafkaCluster(const KafkaCluster&) = delete;
  KafkaCluster& operator=(const KafkaCluster&) = delete;

  const std::string& bootstrap() const { return bootstrap_; }    ///< "127.0.0.1:1234", one a node.
  const std::string& cluster_id() const { return cluster_id_; }  ///< Kafka's; changed by Wipe.

  // Of a secure cluster (scripts/lib/local_kafka/secure.py).

  /// The addresses of a listener: "SASL_SSL", "SSL_EXPIRED".
  const std::string& bootstrap(const std::string& listener) const;
  /// A file of its certificates: "ca.crt", "client.key".
  std::string SecurityFile(const std::string& name) const { return security_folder_ + "/" + name; }
  /// Of PLAIN and SCRAM. Users are `lockstep`, which needs ACLs, and `admin`, which does not.
  const std::string& password(const std::string& user) const { return passwords_.at(user); }
  const std::string& key_password() const { return key_password_; }  ///< Of client-locked.key.
  /// What the broker printed so far.
  std::string BrokerLog(int node = 1) const;

  // Node 1 is broker and controller; node 0 stands for all nodes.

  void Kill(int node = 0);     ///< kill -9.
  void Pause(int node = 0);    ///< SIGSTOP: connections stay open, nobody answers.
  void Resume(int node = 0);   ///< After Pause.
  void Restart(int node = 0);  ///< Same data, same address. Returns once it serves.
  void Wipe();                 ///< Comes back empty, with another cluster id, at the same address.
  void CreateTopic(const std::string& topic);  ///< As in KafkaClusterOptions::topics.

  /// Runs one of Kafka's command-line tools by its class, and returns what it printed;
  /// "{bootstrap}" in an argument is replaced. A second or two of JVM start.
  std::string Tool(const std::string& java_class, std::vector<std::string> arguments);

 private:
  std::string Script(const std::string& command, std::vector<std::string> arguments) const;
  void ReadDescription();

  std::string folder_;
  int guard_input_ = -1;  ///< Closed by us, or by our death: the guard stops the cluster.
  int guard_ = -1;        ///< Its process id.
  std::string bootstrap_;
  std::string cluster_id_;
  std::map<std::string, std::string> listeners_;
  std::map<std::string, std::string> passwords_;
  std::string key_password_;
  std::string security_folder_;
};

/// Starts several side by side: not slower than one.
std::vector<std::unique_ptr<KafkaCluster>> StartKafkaClusters(
    const std::vector<KafkaClusterOptions>& options);

}  // namespace lockstep::testing
