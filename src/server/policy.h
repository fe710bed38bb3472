#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/time.h"
#include "server/config.h"

/// Who may do what: docs/adr/0008. Plain values, no gRPC. What no rule allows is refused.
namespace lockstep::server {

/// Names that a rule allows: literally, or by a prefix ("orders-*"; "*" is all).
class NameSet {
 public:
  void Add(std::string_view pattern);
  bool Contains(std::string_view name) const;

 private:
  std::set<std::string, std::less<>> literal_;
  std::vector<std::string> prefixes_;
};

/// On these clusters: write to these topics, commit offsets for these groups, and enlist producers
/// of these transactional ids.
struct Rule {
  NameSet clusters;
  NameSet topics;
  NameSet groups;
  NameSet transactional_ids;
};

/// Each may what those before it may, as to reading: an operator is an observer.
enum class Role : std::uint8_t {
  kClient,    ///< Transactions of his own.
  kObserver,  ///< Sees those of all, and what operators look at. Changes nothing of others'.
  kOperator,
};
std::string_view Name(Role role);

/// How much of the server one principal uses. Thread-safe.
class Usage {
 public:
  /// False: there are `most` under way. Else one more, until Leave.
  bool Enter(std::size_t most);
  void Leave() { --calls_; }
  /// False: `per_second` were taken within the last second.
  bool Take(std::size_t per_second, std::chrono::steady_clock::time_point now);

 private:
  std::atomic<std::size_t> calls_{0};
  std::mutex mutex_;
  double tokens_ = 0;                               // Guarded by mutex_.
  std::chrono::steady_clock::time_point filled_{};  // The same.
  bool started_ = false;                            // The same.
};

/// One who may call. Not changed once the policy is read, but for its usage.
struct Principal {
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  std::string name;           ///< Owner of his transactions. Empty: nobody is authenticated.
  bool unrestricted = false;  ///< The one without authentication.
  Role role = Role::kClient;
  std::vector<Rule> allow;
  std::size_t open_transactions = kNoLimit;
  Duration transaction_timeout = Duration::max();
  std::size_t concurrent_calls = kNoLimit;
  std::size_t calls_per_second = kNoLimit;
  std::vector<std::string> certificates;  ///< "uri:...", "dns:...", "subject:...".
  std::vector<std::string> tokens;        ///< SHA-256 in lower-case hex.
  std::shared_ptr<Usage> usage = std::make_shared<Usage>();

  bool MayUse(std::string_view cluster) const;
  bool MayWrite(std::string_view cluster, std::string_view topic) const;
  bool MayCommitOffsets(std::string_view cluster, std::string_view group) const;
  bool MayEnlist(std::string_view cluster, std::string_view transactional_id) const;

 private:
  bool Allows(std::string_view cluster, NameSet Rule::*names, std::string_view name) const;
};
using PrincipalPtr = std::shared_ptr<const Principal>;

/// Everybody there is. Immutable.
class Policy {
 public:
  /// Names, certificates and tokens are each of one principal only.
  explicit Policy(std::vector<Principal> principals);

  // Null: nobody.
  PrincipalPtr Find(const std::string& name) const;
  PrincipalPtr OfCertificate(const std::string& identity) const;  ///< As Principal::certificates.
  PrincipalPtr OfToken(std::string_view token) const;             ///< The token itself.

  /// What was used under a policy before counts under this one.
  void TakeOverUsage(const Policy& before);
  std::size_t size() const { return by_name_.size(); }

 private:
  std::map<std::string, std::shared_ptr<Principal>> by_name_;
  std::unordered_map<std::string, PrincipalPtr> by_certificate_;
  std::unordered_map<std::string, PrincipalPtr> by_token_;
};

/// The policy, or every mistake in it, in the order of their lines.
using PolicyResult = std::variant<std::shared_ptr<Policy>, std::vector<ConfigMistake>>;
PolicyResult ParsePolicy(const std::string& yaml);
/// Blocking.
PolicyResult LoadPolicy(const std::string& path);

/// SHA-256 of a token, in lower-case hex: what a policy file holds of it.
std::string HashToken(std::string_view token);

}  // namespace lockstep::server
