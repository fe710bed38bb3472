#include "server/policy.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace lockstep::server {

void NameSet::Add(std::string_view pattern) {
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    prefixes_.emplace_back(pattern);
  } else {
    literal_.emplace(pattern);
  }
}

bool NameSet::Contains(std::string_view name) const {
  return literal_.contains(name) || std::ranges::any_of(prefixes_, [&](const auto& prefix) {
           return name.starts_with(prefix);
         });
}

std::string_view Name(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kObserver:
      return "observer";
    case Role::kOperator:
      return "operator";
  }
  std::abort();
}

bool Usage::Enter(std::size_t most) {
  if (calls_.fetch_add(1) < most) return true;
  --calls_;
  return false;
}

bool Usage::Take(std::size_t per_second, std::chrono::steady_clock::time_point now) {
  if (per_second == Principal::kNoLimit) return true;
  const auto most = static_cast<double>(per_second);
  const std::lock_guard lock(mutex_);
  const double passed = std::chrono::duration<double>(now - filled_).count();
  tokens_ = started_ ? std::min(most, tokens_ + std::max(passed, 0.0) * most) : most;
  started_ = true;
  filled_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

// ---- Rights -------------------------------------------------------------------------------------

bool Principal::Allows(std::string_view cluster, NameSet Rule::*names,
                       std::string_view wanted) const {
  return unrestricted || std::ranges::any_of(allow, [&](const Rule& rule) {
           return rule.clusters.Contains(cluster) && (rule.*names).Contains(wanted);
         });
}

bool Principal::MayUse(std::string_view cluster) const {
  return unrestricted || std::ranges::any_of(allow, [&](const Rule& rule) {
           return rule.clusters.Contains(cluster);
         });
}

bool Principal::MayWrite(std::string_view cluster, std::string_view topic) const {
  return Allows(cluster, &Rule::topics, topic);
}

bool Principal::MayCommitOffsets(std::string_view cluster, std::string_view group) const {
  return Allows(cluster, &Rule::groups, group);
}

bool Principal::MayEnlist(std::string_view cluster, std::string_view transactional_id) const {
  return Allows(cluster, &Rule::transactional_ids, transactional_id);
}

// ---- Policy -------------------------------------------------------------------------------------

Policy::Policy(std::vector<Principal> principals) {
  for (Principal& principal : principals) {
    auto shared = std::make_shared<Principal>(std::move(principal));
    for (const std::string& identity : shared->certificates) by_certificate_[identity] = shared;
    for (const std::string& hash : shared->tokens) by_token_[hash] = shared;
    by_name_[shared->name] = std::move(shared);
  }
}

namespace {

template <typename Map>
PrincipalPtr Look(const Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second;
}

}  // namespace

PrincipalPtr Policy::Find(const std::string& name) const { return Look(by_name_, name); }

PrincipalPtr Policy::OfCertificate(const std::string& identity) const {
  return Look(by_certificate_, identity);
}

// Looked up by its hash: how long that takes tells nothing of a token.
PrincipalPtr Policy::OfToken(std::string_view token) const {
  return Look(by_token_, HashToken(token));
}

void Policy::TakeOverUsage(const Policy& before) {
  for (auto& [name, principal] : by_name_) {
    if (const auto known = before.Find(name)) principal->usage = known->usage;
  }
}

std::string HashToken(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(token.data(), token.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1) {
    std::abort();  // OpenSSL without SHA-256.
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[hash[i] >> 4];
    hex += kDigits[hash[i] & 15];
  }
  return hex;
}

}  // namespace lockstep::server
