#include <algorithm>
#include <charconv>
#include <utility>

#include "wire/calls.h"
#include "wire/protocol/cluster_messages.h"

namespace lockstep::wire {
namespace {

Task<Result<BrokerSettings>> AskSettings(Network& network, Call call, std::int32_t node,
                                         std::vector<std::string> names) {
  protocol::DescribeConfigs request;
  request.node_id = node;
  request.names = std::move(names);
  const Route route = NodeId{node};
  auto response = co_await network.Ask(call, route, std::move(request));
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeConfigs>(
        response->error, "DescribeConfigs of broker " + std::to_string(node),
        response->error_message);
  }
  BrokerSettings settings{node, {}};
  for (const auto& config : response->configs) {
    if (config.value) settings.values[config.name] = *config.value;
  }
  co_return settings;
}

}  // namespace

std::optional<std::int64_t> LeastSetting(const std::vector<BrokerSettings>& brokers,
                                         const std::string& name) {
  std::optional<std::int64_t> least;
  for (const BrokerSettings& broker : brokers) {
    const auto found = broker.values.find(name);
    if (found == broker.values.end()) continue;
    std::int64_t value = 0;
    const char* end = found->second.data() + found->second.size();
    if (std::from_chars(found->second.data(), end, value).ptr != end) continue;
    least = std::min(least.value_or(value), value);
  }
  return least;
}

Task<Result<Rights>> GetRights(Network& network, Call& call, std::vector<std::string> topics) {
  protocol::Metadata request;
  request.topics = std::move(topics);
  request.operations = true;
  auto response = co_await network.Ask(call, AnyBroker{}, std::move(request));
  if (!response.ok()) co_return response.error();
  Rights rights;
  rights.cluster = Operations(response->operations);
  for (const auto& topic : response->topics) {
    TopicRights& one = rights.topics.emplace_back();
    one.topic = topic.name;
    one.error = topic.error;
    one.operations = Operations(topic.operations);
    one.partitions = topic.partitions.size();
    for (const auto& partition : topic.partitions) {
      one.replicas_least = one.replicas_least == 0
                               ? partition.replicas
                               : std::min(one.replicas_least, partition.replicas);
    }
  }
  co_return rights;
}

Task<Result<Operations>> GetGroupRights(Network& network, Call& call, std::string group_id) {
  protocol::DescribeGroups request;
  request.group_id = group_id;
  request.operations = true;
  const Route route = CoordinatorOf{CoordinatorType::kGroup, group_id};
  auto response = co_await network.Ask(call, route, std::move(request));
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeGroups>(response->error, "DescribeGroups of " + group_id);
  }
  co_return Operations(response->operations);
}

Task<Result<Operations>> TryTransactionalId(Network& network, Call& call, TransactionalId id) {
  // Describe is asked for before anything else; Write, by the coordinator, before it looks for the
  // transaction.
  const CoordinatorOf coordinator{CoordinatorType::kTransaction, id.get()};
  const auto found = co_await network.FindCoordinator(call, coordinator);
  if (!found.ok()) co_return found.error();
  EndTxnRequest nothing;
  nothing.transactional_id = std::move(id);
  auto answer = co_await EndTxn(network, call, std::move(nothing), Attempts::kUntilDeadline);
  if (!answer.ok()) co_return answer.error();
  const std::int32_t describe = 1 << static_cast<int>(Operation::kDescribe);
  const std::int32_t write = 1 << static_cast<int>(Operation::kWrite);
  const bool refused = answer->error == ErrorCode::kTransactionalIdAuthorizationFailed;
  co_return Operations(refused ? describe : describe | write);
}

Task<Result<std::vector<BrokerSettings>>> GetBrokerSettings(Network& network, Call& call,
                                                            std::vector<std::string> names) {
  std::vector<std::string> no_topics;
  auto metadata = co_await network.Refresh(call, std::move(no_topics));
  if (!metadata.ok()) co_return metadata.error();
  std::vector<Task<Result<BrokerSettings>>> asked;
  for (const auto& broker : metadata->brokers) {
    asked.push_back(AskSettings(network, call, broker.node_id, names));
  }
  auto answers = co_await All(std::move(asked));
  std::vector<BrokerSettings> settings;
  for (auto& answer : answers) {
    if (answer.ok()) settings.push_back(std::move(*answer));
  }
  if (!settings.empty()) co_return settings;
  if (!answers.empty()) co_return answers.front().error();
  co_return MakeError(Code::kUnavailable, "the cluster names no brokers");
}

Task<Result<ControllerTime>> GetControllerTime(Network& network, Call& call) {
  ControllerTime time;
  time.asked = std::chrono::system_clock::now();
  auto response = co_await network.Ask(call, AnyBroker{}, protocol::DescribeQuorum());
  time.answered = std::chrono::system_clock::now();
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeQuorum>(response->error, "DescribeQuorum");
  }
  if (response->leader_time_ms < 0) {
    co_return MakeError(Code::kUnimplemented, "DescribeQuorum: the controller tells no time");
  }
  time.theirs =
      std::chrono::system_clock::time_point(std::chrono::milliseconds(response->leader_time_ms));
  co_return time;
}

}  // namespace lockstep::wire
