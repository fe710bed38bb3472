#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "wire/calls.h"
#include "wire/protocol/cluster_messages.h"

namespace lockstep::wire {
namespace {

/// The upper end of metadata.version in Kafka 4.3: from there on, KAFKA-20734.
constexpr std::int16_t kMetadataVersionOf43 = 30;

/// Asks one broker for its versions, once; none if it does not answer.
Task<std::optional<BrokerSelf>> AskVersions(Network& network, Call call, BrokerFacts broker) {
  LinkPtr link = network.ToEndpoint({broker.host, static_cast<std::uint16_t>(broker.port)});
  Versions versions = AllVersions<protocol::ApiVersions>();
  versions.any_cluster = true;
  const protocol::ApiVersions request;
  auto response = co_await network.AskLink(call, link, request, versions);
  if (!response.ok() || response->error != ErrorCode::kNone) co_return std::nullopt;
  // Features may have been upgraded since the connection was opened.
  link->self().Learn(*response);
  co_return link->self();
}

Task<Result<std::int64_t>> AskMaxTimeout(Network& network, Call call, std::int32_t node) {
  constexpr const char* kName = "transaction.max.timeout.ms";
  protocol::DescribeConfigs request;
  request.node_id = node;
  request.names = {kName};
  const Route route = NodeId{node};
  auto response = co_await network.Ask(call, route, std::move(request));
  if (!response.ok()) co_return response.error();
  const std::string what = "DescribeConfigs of broker " + std::to_string(node);
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeConfigs>(response->error, what, response->error_message);
  }
  for (const auto& config : response->configs) {
    if (config.name != kName || !config.value) continue;
    std::int64_t ms = 0;
    const char* end = config.value->data() + config.value->size();
    if (std::from_chars(config.value->data(), end, ms).ptr == end) co_return ms;
  }
  co_return MakeError(Code::kCorrupt, what + ": it names no " + kName);
}

}  // namespace

Task<Result<ClusterFacts>> GetFacts(Network& network, Call& call) {
  std::vector<std::string> no_topics;
  auto metadata = co_await network.Refresh(call, std::move(no_topics), true);
  if (!metadata.ok()) co_return metadata.error();
  ClusterFacts facts;
  facts.cluster_id = KafkaClusterId(metadata->cluster_id);
  std::vector<Task<std::optional<BrokerSelf>>> asked;
  for (const auto& broker : metadata->brokers) {
    facts.brokers.push_back({broker.node_id, broker.host, broker.port, false, 0});
    asked.push_back(AskVersions(network, call, facts.brokers.back()));
  }
  const auto answers = co_await All(std::move(asked));
  bool somebody = false;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    BrokerFacts& broker = facts.brokers[i];
    broker.reachable = answers[i].has_value();
    if (broker.reachable) {
      somebody = true;
      broker.metadata_version_max = answers[i]->metadata_version_max;
      facts.transaction_version = answers[i]->transaction_version;
      facts.metadata_version = answers[i]->metadata_version;
    }
    facts.may_lose_markers |=
        !broker.reachable || broker.metadata_version_max >= kMetadataVersionOf43;
  }
  if (!somebody) {
    co_return MakeError(Code::kUnavailable,
                        "none of the addresses that the cluster's brokers advertise answers");
  }
  co_return facts;
}

Task<Result<std::vector<TopicFacts>>> GetTopics(Network& network, Call& call,
                                                std::vector<std::string> topics) {
  auto metadata = co_await network.Refresh(call, std::move(topics));
  if (!metadata.ok()) co_return metadata.error();
  std::vector<TopicFacts> facts;
  for (const auto& topic : metadata->topics) {
    TopicFacts& fact = facts.emplace_back(TopicFacts{topic.name, topic.error, {}});
    for (const auto& partition : topic.partitions) {
      fact.partitions.push_back(
          {{topic.name, partition.partition}, partition.error, partition.leader});
    }
  }
  co_return facts;
}

Task<Result<GroupFacts>> DescribeGroup(Network& network, Call& call, std::string group_id) {
  const Route route = CoordinatorOf{CoordinatorType::kGroup, group_id};
  const auto to_member = [](const protocol::GroupMember& member) {
    return GroupMember{member.member_id, member.instance_id, member.epoch};
  };
  GroupFacts facts;
  protocol::DescribeGroups classic;
  classic.group_id = group_id;
  auto described = co_await network.Ask(call, route, std::move(classic));
  if (!described.ok()) co_return described.error();
  if (described->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeGroups>(described->error, "DescribeGroups of " + group_id);
  }
  facts.state = described->state;
  if (facts.state != "Dead") {
    facts.exists = true;
    for (const auto& member : described->members) facts.members.push_back(to_member(member));
    co_return facts;
  }

  protocol::ConsumerGroupDescribe modern;
  modern.group_id = group_id;
  auto response = co_await network.Ask(call, route, std::move(modern));
  // A broker without KIP-848, by its age or its configuration, has no such groups.
  const bool no_such_thing = response.ok() ? response->error == ErrorCode::kGroupIdNotFound ||
                                                 response->error == ErrorCode::kUnsupportedVersion
                                           : response.error().code == Code::kUnimplemented;
  if (no_such_thing) co_return facts;
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::ConsumerGroupDescribe>(
        response->error, "ConsumerGroupDescribe of " + group_id, response->error_message);
  }
  facts.exists = true;
  facts.consumer_protocol = true;
  facts.state = response->state;
  facts.group_epoch = response->group_epoch;
  for (const auto& member : response->members) facts.members.push_back(to_member(member));
  co_return facts;
}

Task<Result<std::chrono::milliseconds>> GetTransactionMaxTimeout(Network& network, Call& call) {
  std::vector<std::string> no_topics;
  auto metadata = co_await network.Refresh(call, std::move(no_topics));
  if (!metadata.ok()) co_return metadata.error();
  std::vector<Task<Result<std::int64_t>>> asked;
  for (const auto& broker : metadata->brokers) {
    asked.push_back(AskMaxTimeout(network, call, broker.node_id));
  }
  const auto answers = co_await All(std::move(asked));
  std::optional<std::int64_t> least;
  for (const auto& answer : answers) {
    if (answer.ok()) least = std::min(least.value_or(*answer), *answer);
  }
  if (least) co_return std::chrono::milliseconds(*least);
  if (!answers.empty()) co_return answers.front().error();
  co_return MakeError(Code::kUnavailable, "the cluster names no brokers");
}

}  // namespace lockstep::wire
