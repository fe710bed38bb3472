#include <algorithm>
#include <optional>
#include <utility>

#include "wire/calls.h"
#include "wire/protocol/cluster_messages.h"

namespace lockstep::wire {
namespace {

/// The upper end of metadata.version in Kafka 4.3: from there on, KAFKA-20734, and SCRAM's nonce.
constexpr std::int16_t kMetadataVersionOf43 = 30;

/// The releases by the upper ends of their metadata.version (MetadataVersion.java).
std::string ReleaseOf(std::int16_t metadata_version_max) {
  struct Release {
    std::int16_t upper_end;
    const char* name;
  };
  static constexpr Release kReleases[] = {{11, "Kafka 3.5"}, {14, "Kafka 3.6"}, {18, "Kafka 3.7"},
                                          {20, "Kafka 3.8"}, {21, "Kafka 3.9"}, {25, "Kafka 4.0"},
                                          {27, "Kafka 4.1"}, {29, "Kafka 4.2"}, {30, "Kafka 4.3"},
                                          {33, "Kafka 4.4"}};
  for (const Release& release : kReleases) {
    if (metadata_version_max <= release.upper_end) return release.name;
  }
  return "later than Kafka 4.4";
}

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

}  // namespace

Task<Result<ClusterFacts>> GetFacts(Network& network, Call& call) {
  std::vector<std::string> no_topics;
  auto metadata = co_await network.Refresh(call, std::move(no_topics), true);
  if (!metadata.ok()) co_return metadata.error();
  ClusterFacts facts;
  facts.cluster_id = KafkaClusterId(metadata->cluster_id);
  std::vector<Task<std::optional<BrokerSelf>>> asked;
  for (const auto& broker : metadata->brokers) {
    facts.brokers.push_back({broker.node_id, broker.host, broker.port, false, 0, ""});
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
      broker.release = ReleaseOf(broker.metadata_version_max);
      facts.transaction_version = answers[i]->transaction_version;
      facts.metadata_version = answers[i]->metadata_version;
    }
    const bool is_43 = broker.metadata_version_max >= kMetadataVersionOf43;
    facts.may_lose_markers |= !broker.reachable || is_43;
    facts.checks_scram_nonce |= is_43;
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
  constexpr const char* kName = "transaction.max.timeout.ms";
  std::vector<std::string> names = {kName};
  const auto brokers = co_await GetBrokerSettings(network, call, std::move(names));
  if (!brokers.ok()) co_return brokers.error();
  if (const auto least = LeastSetting(*brokers, kName)) {
    co_return std::chrono::milliseconds(*least);
  }
  co_return MakeError(Code::kCorrupt, std::string("no broker names its ") + kName);
}

}  // namespace lockstep::wire
