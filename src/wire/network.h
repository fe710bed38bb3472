#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "txn/types.h"
#include "wire/link.h"
#include "wire/signal.h"
#include "wire/task.h"
#include "wire/types.h"

namespace lockstep::wire {

/// One call of Client's, over all its attempts.
struct Call {
  Deadline deadline;
  int retries = 0;
  bool unanswered = false;        ///< An attempt that changes something got no answer.
  bool may_have_applied = false;  ///< An attempt may have had its effect, or may yet have it.
  Error last;                     ///< Why the last attempt failed.
};

/// What its attempts, all together, leave open.
inline Effect EffectOf(const Call& call) {
  return call.may_have_applied ? Effect::kUnknown : Effect::kNone;
}

/// Which versions an attempt may use; once one was sent, no later attempt uses another.
struct Versions {
  std::int16_t min = 0;
  std::int16_t max = 0;
  bool needs_txn_version2 = false;  ///< See Exchange.
  bool any_cluster = false;         ///< See Exchange.
};
template <typename Request>
Versions AllVersions() {
  return {Request::kApi.min_version, Request::kApi.max_version};
}

/// Whom to ask.
struct AnyBroker {};
struct NodeId {
  std::int32_t id = -1;
};
struct CoordinatorOf {
  CoordinatorType type = CoordinatorType::kTransaction;
  std::string key;
  friend auto operator<=>(const CoordinatorOf&, const CoordinatorOf&) = default;
};
struct LeaderOf {
  txn::TopicPartition partition;
};
using Route = std::variant<AnyBroker, NodeId, CoordinatorOf, LeaderOf>;

using LinkPtr = std::shared_ptr<Link>;

/// One cluster's brokers, how to reach them, and who does what there: node addresses, coordinators
/// and leaders, each learned when first needed and again when an answer shows that it is wrong.
/// Loop thread only. Outlives every task that it returned.
class Network {
 public:
  Network(Io& io, ClientOptions options);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Ends all waits; tasks then end soon, with kUnavailable.
  void Close() { waits_.Close(); }
  /// Forgets what another cluster may have said.
  void Pin(KafkaClusterId id);
  const ClientOptions& options() const { return options_; }

  /// Asks whoever `route` leads to until an answer settles it or the call's deadline, with one
  /// version and the same arguments throughout. An answer with an error code that is not retriable
  /// settles it and is returned; with kOnce the first answer does. `request` and `versions` must
  /// outlive the task.
  template <typename Request>
  Task<Result<typename Request::Response>> Ask(Call& call, const Route& route,
                                               const Request& request, Versions& versions,
                                               Attempts attempts);
  template <typename Request>
  Task<Result<typename Request::Response>> Ask(Call& call, Route route, Request request) {
    Versions versions = AllVersions<Request>();
    co_return co_await Ask(call, route, request, versions, Attempts::kUntilDeadline);
  }

  /// One attempt over one link.
  template <typename Request>
  Task<Result<typename Request::Response>> AskLink(Call& call, LinkPtr link, const Request& request,
                                                   Versions& versions);

  /// The least busy connection to a broker; transient errors while its address is not known.
  Result<LinkPtr> ToNode(std::int32_t node);
  /// The least busy connection to an address.
  LinkPtr ToEndpoint(const Endpoint& endpoint);
  /// Learns the nodes (anew), and of these topics who leads their partitions.
  Task<Result<protocol::Metadata::Response>> Refresh(Call& call, std::vector<std::string> topics,
                                                     bool any_cluster = false);
  /// Asks for the coordinator, whatever was known, and remembers it.
  Task<Result<BrokerAddress>> FindCoordinator(Call& call, CoordinatorOf what);

  std::optional<std::int32_t> KnownLeader(const txn::TopicPartition& partition) const;
  void ForgetLeader(const txn::TopicPartition& partition) { leaders_.erase(partition); }

  /// Waits before the next attempt; false: the deadline or the end of the client came first.
  Task<bool> Pause(Call& call);
  /// The error that a call ends with: of its deadline, unless the client is closing.
  Error GiveUp(const Call& call) const;

 private:
  Task<Result<LinkPtr>> Find(Call& call, const Route& route);
  Task<std::optional<Error>> Carry(Call& call, LinkPtr link, std::shared_ptr<Exchange> exchange);
  /// True if the answer settles nothing: it is then worth asking again.
  bool NoteAnswer(Call& call, const Route& route, ErrorCode code, const protocol::Api& api);
  void NoteFailure(Call& call, const Route& route, Error error);
  void Forget(const Route& route);
  LinkPtr ToAny();
  void Learn(const protocol::Metadata::Response& metadata);
  void CloseUnused();

  Io& io_;
  const ClientOptions options_;
  Waits waits_;
  std::optional<KafkaClusterId> pinned_;
  Security security_;
  LinkEnv env_;
  std::vector<Endpoint> bootstrap_;
  std::optional<Error> bootstrap_problem_;
  std::map<std::int32_t, Endpoint> nodes_;
  std::map<CoordinatorOf, std::int32_t> coordinators_;
  std::map<txn::TopicPartition, std::int32_t> leaders_;
  std::map<Endpoint, std::vector<LinkPtr>> links_;
};

/// Whether another attempt may go better: a connection failed, or nobody is there to ask.
inline bool IsTransient(const Error& error) { return error.code == Code::kUnavailable; }

/// The Error for a broker's answer to `Request`, as ToError. What only asks has no effect, whatever
/// the code may leave open.
template <typename Request>
Error Refusal(ErrorCode code, std::string_view what, std::string_view broker_message = {}) {
  Error error = ToError(code, what, broker_message);
  if (!Request::kApi.changes) error.effect = Effect::kNone;
  return error;
}

template <typename Request>
Task<Result<typename Request::Response>> Network::AskLink(Call& call, LinkPtr link,
                                                          const Request& request,
                                                          Versions& versions) {
  auto exchange = std::make_shared<Exchange>(io_, waits_);
  exchange->api = Request::kApi;
  exchange->min_version = versions.min;
  exchange->max_version = versions.max;
  exchange->any_cluster = versions.any_cluster;
  exchange->needs_txn_version2 = versions.needs_txn_version2;
  exchange->encode = [request](protocol::Writer& w) { request.Encode(w); };
  std::optional<Error> error = co_await Carry(call, link, exchange);
  if (exchange->sent) versions.min = versions.max = exchange->version;
  if (error) co_return std::move(*error);

  protocol::Reader r(std::string_view(exchange->frame).substr(exchange->body_at), exchange->version,
                     exchange->version >= Request::kApi.flexible_from);
  typename Request::Response response = Request::Decode(r);
  if (const Status status = r.Finish(Request::kApi.name); !status.ok()) {
    link->Drop(status.error());
    call.may_have_applied |= Request::kApi.changes;
    co_return MakeError(Code::kCorrupt, status.error().message, EffectOf(call));
  }
  co_return std::move(response);
}

template <typename Request>
Task<Result<typename Request::Response>> Network::Ask(Call& call, const Route& route,
                                                      const Request& request, Versions& versions,
                                                      Attempts attempts) {
  const bool once = attempts == Attempts::kOnce;
  for (;;) {
    Result<LinkPtr> link = co_await Find(call, route);
    if (link.ok()) {
      Result<typename Request::Response> response =
          co_await AskLink(call, *link, request, versions);
      if (response.ok()) {
        ErrorCode code = ErrorCode::kNone;
        if constexpr (requires { response->error; }) code = response->error;
        const bool settled = !NoteAnswer(call, route, code, Request::kApi);
        if (settled || once) co_return response;
      } else {
        NoteFailure(call, route, response.error());
        if (once || !IsTransient(call.last)) break;
      }
    } else {
      NoteFailure(call, route, link.error());
      if (!IsTransient(call.last)) break;
    }
    const bool go_on = co_await Pause(call);
    if (!go_on) co_return GiveUp(call);
  }
  call.last.effect = EffectOf(call);
  co_return call.last;
}

}  // namespace lockstep::wire
