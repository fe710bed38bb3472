#include "server/gate.h"

#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "coordinator/txn_id.h"
#include "server/tls.h"

namespace lockstep::server {
namespace {

// Of what is refused, the audit log gets this much a second: the rest is counted.
constexpr std::size_t kRefusalsNoted = 20;
// A header of more is refused by gRPC anyway.
constexpr std::size_t kMaxToken = 4096;
// The certificate's names in a message for people.
constexpr std::size_t kNamesShown = 10;

// A new RPC is nobody's until it has a row here; a test goes over the services' descriptors.
const std::map<std::string_view, Access>& AccessTable() {
  static const std::map<std::string_view, Access> table = {
      {"BeginGlobalTxn", Access::kClient},
      {"Produce", Access::kClient},
      {"ProduceStream", Access::kClient},
      {"SendOffsets", Access::kClient},
      {"Commit", Access::kClient},
      {"Abort", Access::kAnybody},
      {"Execute", Access::kClient},
      {"ExecuteStream", Access::kClient},
      {"GetTxn", Access::kAnybody},
      {"ListTxns", Access::kAnybody},
      {"WatchTxn", Access::kAnybody},
      {"GetServerInfo", Access::kAnybody},
      {"ListClusters", Access::kAnybody},
      {"RegisterProducer", Access::kClient},
      {"Enlist", Access::kClient},

      {"ListInDoubt", Access::kObserver},
      {"ListOrphans", Access::kObserver},
      {"LogInfo", Access::kObserver},
      {"GetStatus", Access::kObserver},
      {"RepairMarkers", Access::kOperator},
      {"ResolveTxn", Access::kOperator},
      {"AcknowledgeHeuristic", Access::kOperator},
      {"EndOrphan", Access::kOperator},
      {"Drain", Access::kOperator},
      {"Undrain", Access::kOperator},
      {"SetLogLevel", Access::kOperator},
      {"Backup", Access::kOperator},
  };
  return table;
}

Refused NotAuthenticated(const std::string& why) {
  return {MakeError(Code::kPermissionDenied, "not authenticated: " + why),
          v1::REASON_NOT_AUTHENTICATED, true};
}

/// A name of the caller's choice, as a message shows it.
std::string Shown(std::string_view name) {
  constexpr std::size_t kMost = 100;
  return "'" + std::string(name.substr(0, kMost)) + (name.size() > kMost ? "...'" : "'");
}

Refused NotAllowed(const Principal& principal, const std::string& what) {
  return {MakeError(Code::kPermissionDenied,
                    "the server's policy does not allow '" + principal.name + "' to " + what),
          {},
          true};
}

Refused TooMany(const std::string& what) {
  return {MakeError(Code::kResourceExhausted, what), {}, false};
}

std::optional<Refused> CheckAccess(const Principal& principal, std::string_view method) {
  const auto access = AccessOf(method);
  const std::string call = "call " + std::string(method);
  if (!access) return NotAllowed(principal, call);
  if (principal.unrestricted) return std::nullopt;
  switch (*access) {
    case Access::kAnybody:
      return std::nullopt;
    case Access::kClient:
      if (!principal.allow.empty()) return std::nullopt;
      return NotAllowed(principal, call + ": it has no allow rule");
    case Access::kObserver:
      if (principal.role != Role::kClient) return std::nullopt;
      return NotAllowed(principal, call + ": that takes the role observer");
    case Access::kOperator:
      if (principal.role == Role::kOperator) return std::nullopt;
      return NotAllowed(principal, call + ": that takes the role operator");
  }
  std::abort();
}

/// What a verified client certificate says of its holder, as a policy names it.
std::vector<std::string> NamesOf(const grpc::AuthContext& connection) {
  static constexpr std::pair<const char*, const char*> kKinds[] = {
      {GRPC_PEER_URI_PROPERTY_NAME, "uri:"},
      {GRPC_PEER_DNS_PROPERTY_NAME, "dns:"},
      {GRPC_X509_SUBJECT_PROPERTY_NAME, "subject:"},
  };
  std::vector<std::string> names;
  for (const auto& [property, kind] : kKinds) {
    for (const grpc::string_ref& value : connection.FindPropertyValues(property)) {
      names.push_back(kind + std::string(value.data(), value.size()));
    }
  }
  return names;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    list += (i == 0 ? "" : ", ") + Shown(names[i]);
  }
  return list;
}

std::optional<std::string_view> BearerToken(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = header[i];
    if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != kScheme[i]) return std::nullopt;
  }
  return header.substr(kScheme.size());
}

/// Whose a transaction is; none: the id is not formed like one, which the coordinator will say.
std::optional<std::string> OwnerOf(const GlobalTxnId& id) {
  auto parts = coordinator::ParseTxnId(id);
  if (!parts) return std::nullopt;
  return std::move(parts->owner);
}

Refused NoSuchTxn(const Caller& caller, const GlobalTxnId& id) {
  return {MakeError(Code::kNotFound, "transaction '" + id.get() + "' is none of '" +
                                         caller.principal->name + "' that this server knows"),
          {},
          true};
}

}  // namespace

std::optional<Access> AccessOf(std::string_view method) {
  const auto found = AccessTable().find(method);
  if (found == AccessTable().end()) return std::nullopt;
  return found->second;
}

// ---- What a caller may --------------------------------------------------------------------------

std::optional<Refused> CheckVisible(const Caller& caller, const GlobalTxnId& id) {
  if (caller.sees_all()) return std::nullopt;
  const auto owner = OwnerOf(id);
  if (!owner || *owner == caller.principal->name) return std::nullopt;
  return NoSuchTxn(caller, id);
}

std::optional<Refused> CheckMine(const Caller& caller, const GlobalTxnId& id) {
  if (caller.principal->unrestricted) return std::nullopt;
  const auto owner = OwnerOf(id);
  if (!owner || *owner == caller.principal->name) return std::nullopt;
  if (!caller.sees_all()) return NoSuchTxn(caller, id);
  return NotAllowed(*caller.principal, "do this to a transaction of '" + *owner + "'");
}

std::optional<Refused> CheckMayAbort(const Caller& caller, const GlobalTxnId& id) {
  if (caller.principal->role == Role::kOperator) return std::nullopt;
  return CheckMine(caller, id);
}

std::optional<Refused> CheckMayUse(const Caller& caller, const ClusterName& cluster) {
  if (caller.sees_all() || caller.principal->MayUse(cluster.get())) return std::nullopt;
  return NotAllowed(*caller.principal, "use cluster " + Shown(cluster.get()));
}

std::optional<Refused> CheckMayWrite(const Caller& caller, const ClusterName& cluster,
                                     const txn::BranchWork& work) {
  const Principal& principal = *caller.principal;
  if (principal.unrestricted) return std::nullopt;
  const std::string* last = nullptr;  // Most calls write to one topic.
  for (const txn::Record& record : work.records) {
    if (last != nullptr && record.topic == *last) continue;
    last = &record.topic;
    if (principal.MayWrite(cluster.get(), record.topic)) continue;
    return NotAllowed(
        principal, "write to topic " + Shown(record.topic) + " on cluster " + Shown(cluster.get()));
  }
  for (const txn::GroupOffsets& group : work.offsets) {
    if (principal.MayCommitOffsets(cluster.get(), group.group_id)) continue;
    return NotAllowed(principal, "commit offsets of group " + Shown(group.group_id) +
                                     " on cluster " + Shown(cluster.get()));
  }
  return std::nullopt;
}

std::optional<Refused> CheckMayEnlist(const Caller& caller, const ClusterName& cluster,
                                      const TransactionalId& id) {
  if (caller.principal->MayEnlist(cluster.get(), id.get())) return std::nullopt;
  return NotAllowed(*caller.principal, "enlist transactional.id " + Shown(id.get()) +
                                           " on cluster " + Shown(cluster.get()));
}

std::optional<Refused> CheckTimeout(const Caller& caller, Duration timeout) {
  if (timeout <= caller.principal->transaction_timeout) return std::nullopt;
  return NotAllowed(*caller.principal, "begin a transaction with so long a timeout");
}

// ---- The gate -----------------------------------------------------------------------------------

namespace {

PrincipalPtr Everybody() {
  Principal everybody;
  everybody.unrestricted = true;
  everybody.role = Role::kOperator;
  return std::make_shared<const Principal>(std::move(everybody));
}

}  // namespace

Gate::Gate() : everybody_(Everybody()) {}

std::vector<ConfigMistake> Gate::Load(std::string path) {
  path_ = std::move(path);
  if (path_.empty()) return {};
  auto read = Reload();
  if (auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&read)) return std::move(*mistakes);
  return {};
}

std::variant<bool, std::vector<ConfigMistake>> Gate::Reload() {
  if (path_.empty()) return false;
  // Before it is read: a change from now on is noticed the next time.
  std::string stamp = FileStamp(path_);
  if (stamp == stamp_ && !stamp.empty()) return false;
  if (stamp.empty() && stamp_ == "gone") return false;  // Said once.
  stamp_ = stamp.empty() ? "gone" : std::move(stamp);
  PolicyResult read = LoadPolicy(path_);
  if (auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&read)) return std::move(*mistakes);
  auto fresh = std::get<std::shared_ptr<Policy>>(std::move(read));
  const std::lock_guard lock(mutex_);
  if (policy_ != nullptr) fresh->TakeOverUsage(*policy_);
  policy_ = std::move(fresh);
  return true;
}

std::shared_ptr<const Policy> Gate::policy() const {
  const std::lock_guard lock(mutex_);
  return policy_;
}

std::variant<PrincipalPtr, Refused> Gate::Authenticate(
    const Policy& policy, const grpc::CallbackServerContext& context) const {
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("authorization");
  if (first != last) {
    if (std::next(first) != last) return NotAuthenticated("authorization: is given twice");
    const auto token = BearerToken({first->second.data(), first->second.size()});
    if (!token) return NotAuthenticated("authorization: expected 'Bearer' and a token");
    if (token->size() > kMaxToken) return NotAuthenticated("authorization: the token is too long");
    if (auto principal = policy.OfToken(*token)) return principal;
    return NotAuthenticated("no principal of the policy has this token");
  }
  const std::vector<std::string> names = NamesOf(*context.auth_context());
  PrincipalPtr found;
  for (const std::string& name : names) {
    PrincipalPtr principal = policy.OfCertificate(name);
    if (principal == nullptr || principal == found) continue;
    if (found != nullptr) {
      return NotAuthenticated("the client certificate is that of both '" + found->name + "' and '" +
                              principal->name + "'");
    }
    found = std::move(principal);
  }
  if (found != nullptr) return found;
  if (names.empty()) return NotAuthenticated("send a bearer token, or a client certificate");
  return NotAuthenticated("no principal of the policy has this client certificate; it says " +
                          Listed(names));
}

namespace {

std::optional<Refused> Take(const Principal& principal) {
  if (principal.usage->Take(principal.calls_per_second, std::chrono::steady_clock::now()))
    return std::nullopt;
  return TooMany("too many calls of '" + principal.name + "' (the policy allows " +
                 std::to_string(principal.calls_per_second) + " a second)");
}

}  // namespace

std::variant<Caller, Refused> Gate::Admit(std::string_view method,
                                          const grpc::CallbackServerContext& context) {
  Caller caller{.principal = everybody_, .policy = policy(), .place = nullptr, .peer = {}};
  if (audit_ != nullptr) caller.peer = context.peer();
  std::optional<Refused> refused;
  bool known = true;
  if (caller.policy != nullptr) {
    auto found = Authenticate(*caller.policy, context);
    if (auto* stranger = std::get_if<Refused>(&found)) {
      refused = std::move(*stranger);
      known = false;
    } else {
      caller.principal = std::get<PrincipalPtr>(std::move(found));
    }
  }
  if (!refused) refused = CheckAccess(*caller.principal, method);
  if (refused) {
    NoteRefused(method, *refused, known ? &caller : nullptr, caller.peer);
    refused->by_policy = false;  // Noted.
    return *std::move(refused);
  }
  const Principal& principal = *caller.principal;
  if (principal.unrestricted) return caller;
  if (!principal.usage->Enter(principal.concurrent_calls)) {
    return TooMany("too many calls of '" + principal.name + "' under way (the policy allows " +
                   std::to_string(principal.concurrent_calls) + ")");
  }
  caller.place =
      std::shared_ptr<void>(nullptr, [usage = principal.usage](void*) { usage->Leave(); });
  if ((refused = Take(principal))) return *std::move(refused);
  return caller;
}

std::optional<Refused> Gate::StillAdmitted(std::string_view method, Caller& caller) const {
  if (caller.principal->unrestricted) return std::nullopt;
  if (auto now = policy(); now != caller.policy) {
    auto principal = now == nullptr ? nullptr : now->Find(caller.principal->name);
    if (principal == nullptr) {
      return NotAuthenticated("'" + caller.principal->name + "' is no longer in the policy");
    }
    caller.principal = std::move(principal);
    caller.policy = std::move(now);
  }
  return CheckAccess(*caller.principal, method);
}

std::optional<Refused> Gate::AdmitAgain(std::string_view method, Caller& caller) const {
  if (auto refused = StillAdmitted(method, caller)) return refused;
  return Take(*caller.principal);
}

void Gate::NoteRefused(std::string_view method, const Refused& refused, const Caller* caller,
                       const std::string& peer) {
  if (audit_ == nullptr || !refused.by_policy) return;
  if (!refused_.Take(kRefusalsNoted, std::chrono::steady_clock::now())) {
    ++not_noted_;
    return;
  }
  const std::size_t more = not_noted_.exchange(0);
  audit_->Note({"refused",
                {{"call", std::string(method)},
                 {"principal", caller == nullptr ? "" : caller->principal->name},
                 {"peer", peer},
                 {"why", refused.error.message},
                 {"refusals_left_out", more == 0 ? "" : std::to_string(more)}}});
}

void Gate::Note(const Caller& caller, std::string what, const GlobalTxnId& id,
                std::string_view outcome) {
  if (audit_ == nullptr) return;
  audit_->Note({std::move(what),
                {{"principal", caller.principal->name},
                 {"peer", caller.peer},
                 {"txn", id.get()},
                 {"outcome", std::string(outcome)}}});
}

}  // namespace lockstep::server
