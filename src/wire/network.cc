#include "wire/network.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lockstep::wire {
namespace {

/// A broker works off one connection's requests one by one, so more than this many waiting on one
/// are worth another connection.
constexpr std::size_t kSpillLoad = 4;
/// Far more ids and partitions than are in use at a time; beyond it, it is asked again.
constexpr std::size_t kMaxRemembered = 100'000;

template <typename Key>
void Remember(std::map<Key, std::int32_t>& known, const Key& key, std::int32_t node) {
  if (known.size() >= kMaxRemembered) known.clear();
  known[key] = node;
}

Error NotNow(std::string message) { return MakeError(Code::kUnavailable, std::move(message)); }

}  // namespace

Network::Network(Io& io, ClientOptions options)
    : io_(io),
      options_(std::move(options)),
      security_(options_.security),
      env_{io_, options_, security_, pinned_, [this](const auto& metadata) { Learn(metadata); }} {
  for (const std::string& text : options_.bootstrap) {
    Result<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) {
      bootstrap_problem_ = endpoint.error();
    } else {
      bootstrap_.push_back(std::move(*endpoint));
    }
  }
  if (options_.bootstrap.empty()) {
    bootstrap_problem_ = MakeError(Code::kInvalidArgument, "there is no bootstrap address");
  }
}

void Network::Pin(KafkaClusterId id) {
  if (pinned_ == id) return;
  pinned_ = std::move(id);
  nodes_.clear();
  coordinators_.clear();
  leaders_.clear();
}

// ---- Attempts ---------------------------------------------------------------------------------

Task<std::optional<Error>> Network::Carry(Call& call, LinkPtr link,
                                          std::shared_ptr<Exchange> exchange) {
  link->Submit(exchange);
  const Wake wake = co_await exchange->done.Until(call.deadline);
  std::optional<Error> error = exchange->error;
  if (wake != Wake::kSignalled) {
    exchange->abandoned = true;
    std::string message = "broker " + ToString(link->endpoint()) + ": no answer to ";
    message += exchange->api.name;
    if (!exchange->sent) message += ", which could not be sent yet";
    const std::string& before = link->problem().empty() ? call.last.message : link->problem();
    if (!before.empty()) message += " (before: " + before + ")";
    call.last = NotNow(std::move(message));
    error = GiveUp(call);
  }
  if (error && exchange->sent && exchange->api.changes) {
    call.unanswered = true;
    call.may_have_applied = true;
  }
  if (error) error->effect = EffectOf(call);
  co_return error;
}

bool Network::NoteAnswer(Call& call, const Route& route, ErrorCode code, const protocol::Api& api) {
  if (code == ErrorCode::kNone) return false;
  const ErrorInfo info = Info(code);
  if (api.changes && info.effect != Effect::kNone) call.may_have_applied = true;
  if (!info.retriable) return false;
  call.last = ToError(code, api.name);
  // These come from the right one, who cannot do it yet.
  const bool right_one =
      code == ErrorCode::kConcurrentTransactions || code == ErrorCode::kCoordinatorLoadInProgress;
  if (!right_one) Forget(route);
  return true;
}

void Network::NoteFailure(Call& call, const Route& route, Error error) {
  call.last = std::move(error);
  Forget(route);
}

Task<bool> Network::Pause(Call& call) {
  Signal never(io_, waits_);
  const Deadline until = std::chrono::steady_clock::now() +
                         Backoff(options_.backoff_min, options_.backoff_max, ++call.retries);
  const Wake wake = co_await never.Until(std::min(until, call.deadline));
  const bool time_is_left = until < call.deadline;
  co_return time_is_left&& wake == Wake::kDeadline;
}

Error Network::GiveUp(const Call& call) const {
  if (waits_.closed()) {
    return MakeError(Code::kUnavailable, "the client was closed", EffectOf(call));
  }
  return MakeError(Code::kDeadlineExceeded, "gave up at the deadline: " + call.last.message,
                   EffectOf(call));
}

// ---- Whom to ask ------------------------------------------------------------------------------

Task<Result<LinkPtr>> Network::Find(Call& call, const Route& route) {
  if (std::holds_alternative<AnyBroker>(route)) {
    if (bootstrap_problem_) co_return *bootstrap_problem_;
    co_return ToAny();
  }
  if (const auto* node = std::get_if<NodeId>(&route)) co_return ToNode(node->id);

  if (const auto* what = std::get_if<CoordinatorOf>(&route)) {
    const auto known = coordinators_.find(*what);
    if (known != coordinators_.end()) co_return ToNode(known->second);
    Result<BrokerAddress> found = co_await FindCoordinator(call, *what);
    if (!found.ok()) co_return found.error();
    co_return ToNode(found->node_id);
  }

  const txn::TopicPartition& partition = std::get<LeaderOf>(route).partition;
  if (const auto leader = KnownLeader(partition)) co_return ToNode(*leader);
  std::vector<std::string> topics = {partition.topic};
  Result<protocol::Metadata::Response> metadata = co_await Refresh(call, std::move(topics));
  if (!metadata.ok()) co_return metadata.error();
  if (const auto leader = KnownLeader(partition)) co_return ToNode(*leader);
  for (const auto& topic : metadata->topics) {
    // A topic that brokers do not know is gone; any other reason passes.
    if (topic.error == ErrorCode::kNone || topic.error == ErrorCode::kLeaderNotAvailable) continue;
    co_return Refusal<protocol::Metadata>(topic.error, "topic " + topic.name);
  }
  co_return NotNow("partition " + ToString(partition) + " has no leader");
}

/// The next attempt asks again who it is.
void Network::Forget(const Route& route) {
  if (const auto* what = std::get_if<CoordinatorOf>(&route)) coordinators_.erase(*what);
  if (const auto* leader = std::get_if<LeaderOf>(&route)) ForgetLeader(leader->partition);
}

Task<Result<BrokerAddress>> Network::FindCoordinator(Call& call, CoordinatorOf what) {
  coordinators_.erase(what);
  protocol::FindCoordinator request;
  request.coordinator_key = what.key;
  request.type = static_cast<std::int8_t>(what.type);
  Result<protocol::FindCoordinator::Response> response =
      co_await Ask(call, AnyBroker{}, std::move(request));
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::FindCoordinator>(response->error, "FindCoordinator of " + what.key,
                                                 response->error_message);
  }
  const protocol::Metadata::Broker& broker = response->broker;
  nodes_[broker.node_id] = {broker.host, static_cast<std::uint16_t>(broker.port)};
  Remember(coordinators_, what, broker.node_id);
  co_return BrokerAddress{broker.node_id, broker.host, broker.port};
}

Task<Result<protocol::Metadata::Response>> Network::Refresh(Call& call,
                                                            std::vector<std::string> topics,
                                                            bool any_cluster) {
  protocol::Metadata request;
  request.topics = std::move(topics);
  Versions versions = AllVersions<protocol::Metadata>();
  versions.any_cluster = any_cluster;
  const Route route = AnyBroker{};
  Result<protocol::Metadata::Response> response =
      co_await Ask(call, route, request, versions, Attempts::kUntilDeadline);
  if (!response.ok()) co_return response;
  Learn(*response);
  CloseUnused();
  co_return response;
}

std::optional<std::int32_t> Network::KnownLeader(const txn::TopicPartition& partition) const {
  const auto found = leaders_.find(partition);
  return found == leaders_.end() ? std::nullopt : std::optional(found->second);
}

/// What metadata say counts only if they come from the right cluster.
void Network::Learn(const protocol::Metadata::Response& metadata) {
  if (pinned_ && pinned_->get() != metadata.cluster_id) return;
  if (!metadata.brokers.empty()) nodes_.clear();
  for (const protocol::Metadata::Broker& broker : metadata.brokers) {
    nodes_[broker.node_id] = {broker.host, static_cast<std::uint16_t>(broker.port)};
  }
  for (const protocol::Metadata::Topic& topic : metadata.topics) {
    for (const protocol::Metadata::Partition& partition : topic.partitions) {
      const txn::TopicPartition name{topic.name, partition.partition};
      if (partition.leader >= 0) {
        Remember(leaders_, name, partition.leader);
      } else {
        leaders_.erase(name);
      }
    }
  }
}

// ---- Links ------------------------------------------------------------------------------------

Result<LinkPtr> Network::ToNode(std::int32_t node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) {
    return NotNow("broker " + std::to_string(node) + " is not in the cluster now");
  }
  return ToEndpoint(found->second);
}

/// Of all addresses, known nodes and bootstrap, the one that is most likely to answer.
LinkPtr Network::ToAny() {
  std::vector<Endpoint> candidates = bootstrap_;
  for (const auto& [id, endpoint] : nodes_) candidates.push_back(endpoint);
  LinkPtr best;
  const auto rank = [](const Link& link) {
    return std::tuple(link.mismatch(), link.stalled(), !link.ready(), link.failures(), link.load());
  };
  for (const Endpoint& candidate : candidates) {
    LinkPtr link = ToEndpoint(candidate);
    if (!best || rank(*link) < rank(*best)) best = std::move(link);
  }
  return best;
}

LinkPtr Network::ToEndpoint(const Endpoint& endpoint) {
  std::vector<LinkPtr>& links = links_[endpoint];
  const auto least = std::min_element(links.begin(), links.end(), [](const auto& a, const auto& b) {
    return a->load() < b->load();
  });
  const bool busy = least != links.end() && (*least)->ready() && (*least)->load() >= kSpillLoad;
  if (least != links.end() && !(busy && links.size() < options_.max_connections)) return *least;
  return links.emplace_back(std::make_shared<Link>(env_, endpoint));
}

/// Addresses that brokers have left.
void Network::CloseUnused() {
  std::erase_if(links_, [this](const auto& entry) {
    const auto is_here = [&](const auto& node) { return node.second == entry.first; };
    const bool listed = std::any_of(nodes_.begin(), nodes_.end(), is_here) ||
                        std::count(bootstrap_.begin(), bootstrap_.end(), entry.first) > 0;
    const auto idle = [](const LinkPtr& link) { return link->load() == 0; };
    return !listed && std::all_of(entry.second.begin(), entry.second.end(), idle);
  });
}

}  // namespace lockstep::wire
