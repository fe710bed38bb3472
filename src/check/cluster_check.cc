#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "base/secret.h"
#include "base/units.h"
#include "check/check.h"
#include "kafka/compatibility.h"
#include "kafka/settings.h"
#include "kafka/token.h"
#include "server/kafka_config.h"
#include "wire/client.h"
#include "wire/tls.h"

namespace lockstep::check {
namespace {

using std::chrono::milliseconds;
using wire::Operation;

constexpr const char* kIdPrefix = "lockstep-";
constexpr const char* kTryId = "lockstep-check";
constexpr const char* kOffsetsTopic = "__consumer_offsets";
constexpr const char* kTxnTopic = "__transaction_state";
constexpr milliseconds kLongestByDefault = std::chrono::minutes(15);
constexpr auto kGoodClock = std::chrono::seconds(5);

/// Starts a call of the wire client and waits for its answer.
template <typename T, typename Start>
Result<T> Await(Start start) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future();
  start([promise](Result<T> answer) { promise->set_value(std::move(answer)); });
  return future.get();
}

/// Who the brokers take us for. A certificate's name by Kafka's default
/// ssl.principal.mapping.rules.
std::string PrincipalOf(const wire::SecurityConfig& security) {
  if (security.sasl && security.sasl->mechanism != wire::SaslMechanism::kOauthbearer) {
    return "User:" + security.sasl->username;
  }
  if (security.sasl) {
    const auto token = ReadSecret({security.sasl->token_file, ""}, "sasl.token_file");
    const auto now = std::chrono::system_clock::now();
    return "User:" + kafka::FactsOfToken(token.ok() ? *token : "", now).subject;
  }
  const std::string subject =
      security.tls ? wire::CertificateSubject(security.tls->certificate_file) : "";
  return "User:" + (subject.empty() ? "ANONYMOUS" : subject);
}

/// One look at one cluster.
class Look {
 public:
  Look(const server::ClusterConfig& cluster, const server::Config& config, const Wanted& wanted,
       Duration timeout)
      : cluster_(server::ToKafka(cluster)),
        config_(config),
        wanted_(wanted),
        timeout_(timeout),
        principal_(PrincipalOf(cluster_.security)),
        client_(io_, Options()) {
    section_.name = cluster_.name.get();
  }

  Section Run() {
    const auto facts =
        Await<wire::ClusterFacts>([&](auto done) { client_.GetFacts(timeout_, done); });
    if (!facts.ok()) {
      Unreached(facts.error());
      return std::move(section_);
    }
    Reached(*facts);
    Timeout();
    IdRights();
    TopicRights();
    for (const std::string& group : wanted_.groups) GroupRights(group);
    Clock();
    return std::move(section_);
  }

 private:
  wire::ClientOptions Options() const {
    wire::ClientOptions options;
    options.bootstrap = cluster_.bootstrap_servers;
    options.security = cluster_.security;
    return options;
  }

  void Add(Level level, std::string what, std::string found, std::string fix = "") {
    section_.findings.push_back({level, std::move(what), std::move(found), std::move(fix)});
  }

  /// The line to paste; `resource` as kafka-acls names it.
  std::string Grant(const std::string& resource, const std::vector<std::string>& operations) const {
    std::string line = "kafka-acls --bootstrap-server " + cluster_.bootstrap_servers.front() +
                       " --add --allow-principal '" + principal_ + "' " + resource;
    for (const std::string& operation : operations) line += " --operation " + operation;
    return line;
  }

  // ---- The cluster ----

  void Unreached(const Error& error) {
    const bool refused =
        error.code == Code::kPermissionDenied || error.code == Code::kFailedPrecondition;
    if (refused) Add(Level::kGreen, "reachability", "a broker answers");
    Add(Level::kRed, refused ? "authentication" : "reachability", error.message,
        refused ? "see docs/security.md; the message has the way out"
                : "start the brokers, or correct bootstrap_servers; then the network between");
  }

  void Reached(const wire::ClusterFacts& facts) {
    std::string away;
    std::string releases;
    for (const wire::BrokerFacts& broker : facts.brokers) {
      if (!broker.reachable) {
        away += (away.empty() ? "" : ", ") + broker.host + ":" + std::to_string(broker.port);
      } else if (releases.find(broker.release) == std::string::npos) {
        releases += (releases.empty() ? "" : ", ") + broker.release;
      }
    }
    if (away.empty()) {
      Add(Level::kGreen, "reachability",
          "all brokers (" + std::to_string(facts.brokers.size()) + ") answer; cluster id " +
              facts.cluster_id.get());
    } else {
      Add(Level::kYellow, "reachability", "not reached: " + away,
          "start them; or their advertised.listeners must name an address that is reached from "
          "here, with the certificate for it");
    }
    Add(Level::kGreen, "authentication", principal_);
    Add(facts.may_lose_markers ? Level::kYellow : Level::kGreen, "Kafka version", releases,
        facts.may_lose_markers ? "a broker of 4.3 or 4.4 that crashes may lose markers "
                                 "(KAFKA-20734): each is checked, "
                                 "which costs a request; 4.2 has no such need"
                               : "");
    if (const auto problem = kafka::ScramProblem(cluster_, facts)) {
      Add(Level::kRed, "librdkafka", *problem, "set sasl.mechanism to one that works");
    }
    Add(Level::kGreen, "transaction.version", std::to_string(facts.transaction_version));
  }

  void Timeout() {
    constexpr const char* kMax = "transaction.max.timeout.ms";
    constexpr const char* kMinIsr = "transaction.state.log.min.isr";
    const auto settings = Await<std::vector<wire::BrokerSettings>>([&](auto done) {
      client_.GetBrokerSettings({kMax, kMinIsr}, timeout_, done);
    });
    if (!settings.ok()) {
      return Denied(settings.error(), Level::kYellow, kMax, "may not be asked for: 15m is assumed",
                    "--cluster", {"DescribeConfigs"});
    }
    const auto limit = wire::LeastSetting(*settings, kMax);
    if (limit) CompareTimeout(milliseconds(*limit));
    if (const auto in_sync = wire::LeastSetting(*settings, kMinIsr)) min_isr_ = *in_sync;
  }

  void CompareTimeout(milliseconds limit) {
    const milliseconds wanted =
        cluster_.transaction_timeout.value_or(std::min(limit, kLongestByDefault));
    const std::string both = FormatDuration(limit) + "; transaction_timeout is " +
                             FormatDuration(wanted) +
                             (cluster_.transaction_timeout ? "" : " (auto)");
    constexpr const char* kWhat = "transaction.max.timeout.ms";
    if (wanted > limit) {
      Add(Level::kRed, kWhat, both,
          "lower transaction_timeout to " + FormatDuration(limit) +
              ", or raise transaction.max.timeout.ms on every broker and restart it");
    } else if (wanted < 2 * config_.deadline_margin) {
      Add(Level::kRed, kWhat, both,
          "raise it to at least twice timeouts.deadline_margin (" +
              FormatDuration(config_.deadline_margin) + ")");
    } else {
      Add(Level::kGreen, kWhat, both);
    }
  }

  void TransactionLog(const wire::TopicRights& topic) {
    const std::string what = kTxnTopic;
    if (topic.error == wire::ErrorCode::kUnknownTopicOrPartition) {
      return Add(Level::kGreen, what, "not there yet: made by the first transaction");
    }
    if (topic.error != wire::ErrorCode::kNone) {
      return Add(Level::kYellow, what, "its replication cannot be seen",
                 Grant("--topic " + what, {"Describe"}));
    }
    const std::string in_sync = min_isr_ ? std::to_string(*min_isr_) : "not known";
    const bool safe = topic.replicas_least >= 3 && min_isr_.value_or(2) >= 2;
    Add(safe ? Level::kGreen : Level::kYellow, what,
        "replication " + std::to_string(topic.replicas_least) + ", transaction.state.log.min.isr " +
            in_sync,
        safe ? ""
             : "a broker's loss may take transactions along that are decided: 3 replicas "
               "(kafka-reassign-partitions), transaction.state.log.min.isr 2");
  }

  // ---- Rights ----

  void Denied(const Error& error, Level level, const std::string& what, const std::string& then,
              const std::string& resource, const std::vector<std::string>& operations) {
    if (error.code == Code::kPermissionDenied) {
      return Add(level, what, then, Grant(resource, operations));
    }
    Add(level, what, error.message, "see the message");
  }

  void IdRights() {
    const std::string resource =
        std::string("--transactional-id ") + kIdPrefix + " --resource-pattern-type prefixed";
    const auto rights = Await<wire::Operations>(
        [&](auto done) { client_.TryTransactionalId(TransactionalId(kTryId), timeout_, done); });
    const std::string what = std::string("ACL TransactionalId ") + kIdPrefix + "*";
    if (!rights.ok()) {
      return Denied(rights.error(), Level::kRed, what, "missing: nothing works without it",
                    resource, {"Write", "Describe"});
    }
    Need(what, *rights, {Operation::kWrite, Operation::kDescribe}, resource, Level::kRed);
  }

  static std::string OperationName(Operation operation) {
    switch (operation) {
      case Operation::kRead:
        return "Read";
      case Operation::kWrite:
        return "Write";
      case Operation::kAlter:
        return "Alter";
      case Operation::kDescribe:
        return "Describe";
      case Operation::kClusterAction:
        return "ClusterAction";
      case Operation::kDescribeConfigs:
        return "DescribeConfigs";
    }
    return "?";
  }

  void Need(const std::string& what, const wire::Operations& have,
            const std::vector<Operation>& needed, const std::string& resource, Level level) {
    std::vector<std::string> missing;
    std::string all;
    for (const Operation operation : needed) {
      const std::string name = OperationName(operation);
      all += (all.empty() ? "" : ", ") + name;
      if (!have.Has(operation)) missing.push_back(name);
    }
    if (missing.empty()) return Add(Level::kGreen, what, all);
    std::string text = "missing: ";
    for (const std::string& name : missing) text += (&name == &missing[0] ? "" : ", ") + name;
    Add(level, what, text, Grant(resource, missing));
  }

  void TopicRights() {
    std::vector<std::string> topics = wanted_.topics;
    const bool offsets = !wanted_.groups.empty();
    topics.emplace_back(kTxnTopic);
    if (offsets) topics.emplace_back(kOffsetsTopic);
    const auto rights = Await<wire::Rights>(
        [&](auto done) { client_.GetRights(std::move(topics), timeout_, done); });
    if (!rights.ok()) return Add(Level::kRed, "ACLs", rights.error().message, "see the message");
    for (const wire::TopicRights& topic : rights->topics) {
      if (topic.topic == kTxnTopic) {
        TransactionLog(topic);
      } else {
        OneTopic(topic);
      }
    }
    if (wanted_.topics.empty()) {
      Add(Level::kYellow, "ACL Topic", "not looked at: the configuration names no topics",
          "name some: --topic " + section_.name + ":TOPIC");
    }
  }

  void OneTopic(const wire::TopicRights& topic) {
    const std::string what = "ACL Topic " + topic.topic;
    const std::string resource = "--topic '" + topic.topic + "'";
    const bool ours = topic.topic == kOffsetsTopic;
    if (topic.error == wire::ErrorCode::kUnknownTopicOrPartition) {
      return Add(ours ? Level::kGreen : Level::kRed, what, "there is no such topic",
                 ours ? "" : "create it: Lockstep never does");
    }
    const bool hidden = topic.error == wire::ErrorCode::kTopicAuthorizationFailed;
    if (topic.error != wire::ErrorCode::kNone && !hidden) {
      return Add(Level::kYellow, what, wire::Name(topic.error), "look at the broker");
    }
    std::vector<Operation> needed = {Operation::kDescribe, Operation::kRead};
    if (!ours) needed.insert(needed.begin(), Operation::kWrite);
    Need(what, hidden ? wire::Operations() : topic.operations, needed, resource, Level::kRed);
  }

  void GroupRights(const std::string& group) {
    const std::string what = "ACL Group " + group;
    const std::string resource = "--group '" + group + "'";
    const auto rights =
        Await<wire::Operations>([&](auto done) { client_.GetGroupRights(group, timeout_, done); });
    if (!rights.ok()) {
      return Denied(rights.error(), Level::kRed, what, "missing: its offsets cannot be sent",
                    resource, {"Read"});
    }
    Need(what, *rights, {Operation::kRead}, resource, Level::kRed);
  }

  // ---- Time ----

  void Clock() {
    const auto time =
        Await<wire::ControllerTime>([&](auto done) { client_.GetControllerTime(timeout_, done); });
    if (!time.ok()) {
      return Denied(time.error(), Level::kYellow, "clock",
                    "may not be asked for: the difference is not known", "--cluster", {"Describe"});
    }
    // Somewhere between the question and the answer.
    const auto ours = time->asked + (time->answered - time->asked) / 2;
    const auto difference = std::chrono::duration_cast<milliseconds>(time->theirs - ours);
    const bool good = std::chrono::abs(difference) <= kGoodClock;
    Add(good ? Level::kGreen : Level::kYellow, "clock",
        "the controller's is " + std::to_string(std::chrono::abs(difference).count()) + " ms " +
            (difference.count() < 0 ? "behind" : "ahead"),
        good ? "" : "synchronise both (NTP): tokens, certificates and logs go by it");
  }

  const kafka::ClusterConfig cluster_;
  const server::Config& config_;
  const Wanted& wanted_;
  const Duration timeout_;
  const std::string principal_;
  wire::IoThread io_;
  wire::Client client_;
  std::optional<std::int64_t> min_isr_;
  Section section_;
};

}  // namespace

Section CheckCluster(const server::ClusterConfig& cluster, const server::Config& config,
                     const Wanted& wanted, Duration timeout) {
  return Look(cluster, config, wanted, timeout).Run();
}

}  // namespace lockstep::check
