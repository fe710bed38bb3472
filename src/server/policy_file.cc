#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.h"
#include "coordinator/txn_id.h"
#include "server/policy.h"
#include "server/yaml_document.h"

/// Reading the policy file.
namespace lockstep::server {
namespace {

constexpr std::string_view kHash = "sha256:";
constexpr std::size_t kHashDigits = 64;

/// Reads one document into principals and collects what is wrong. Used once.
class PolicyReader {
 public:
  PolicyResult Read(const YAML::Node& root) {
    ReadMap(root, "", {{"principals", [this](const auto& node, const auto& path) {
                          ReadList(node, path, &PolicyReader::ReadPrincipal);
                        }}});
    if (mistakes_.empty()) return std::make_shared<Policy>(std::move(principals_));
    std::ranges::stable_sort(mistakes_, {}, &ConfigMistake::line);
    return std::move(mistakes_);
  }

 private:
  using Field = std::function<void(const YAML::Node& value, const std::string& path)>;
  using Fields = std::map<std::string, Field>;

  void Add(const YAML::Node& node, std::string path, std::string message) {
    mistakes_.push_back({LineOf(node), std::move(path), std::move(message)});
  }

  void ReadMap(const YAML::Node& map, const std::string& path, const Fields& fields) {
    if (!map.IsMap()) return Add(map, path, "expected a map");
    std::map<std::string, int> seen;
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const std::string where = path.empty() ? key : path + "." + key;
      const auto [first, fresh] = seen.emplace(key, LineOf(entry.first));
      const auto field = fields.find(key);
      if (!fresh) {
        Add(entry.first, where, "given twice: first in line " + std::to_string(first->second));
      } else if (field == fields.end()) {
        std::string allowed;
        for (const auto& [name, read] : fields) allowed += (allowed.empty() ? "" : ", ") + name;
        Add(entry.first, where, "unknown; allowed here: " + allowed);
      } else {
        field->second(entry.second, where);
      }
    }
  }

  void ReadList(const YAML::Node& list, const std::string& path,
                void (PolicyReader::*each)(const YAML::Node&, const std::string&)) {
    if (!list.IsSequence()) return Add(list, path, "expected a list");
    for (std::size_t i = 0; i < list.size(); ++i) {
      (this->*each)(list[i], path + "[" + std::to_string(i) + "]");
    }
  }

  /// Each text of a list, or why it is refused.
  void ReadTexts(const YAML::Node& list, const std::string& path,
                 const std::function<std::string(const std::string&)>& take) {
    if (!list.IsSequence()) return Add(list, path, "expected a list, such as [a, b]");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string where = path + "[" + std::to_string(i) + "]";
      if (!list[i].IsScalar() || list[i].Scalar().empty()) {
        Add(list[i], where, "expected a text");
      } else if (const std::string problem = take(list[i].Scalar()); !problem.empty()) {
        Add(list[i], where, problem);
      }
    }
  }

  void ReadPrincipal(const YAML::Node& map, const std::string& path) {
    Principal principal;
    const auto number = [this](std::size_t& out) -> Field {
      return [this, &out](const auto& node, const auto& where) { ReadNumber(node, where, out); };
    };
    ReadMap(
        map, path,
        {{"name", [&](const auto& n, const auto& p) { ReadName(n, p, principal); }},
         {"certificates", [&](const auto& n, const auto& p) { ReadIdentities(n, p, principal); }},
         {"tokens", [&](const auto& n, const auto& p) { ReadTokens(n, p, principal); }},
         {"role", [&](const auto& n, const auto& p) { ReadRole(n, p, principal); }},
         {"open_transactions", number(principal.open_transactions)},
         {"concurrent_calls", number(principal.concurrent_calls)},
         {"calls_per_second", number(principal.calls_per_second)},
         {"transaction_timeout",
          [&](const auto& n, const auto& p) { ReadTimeout(n, p, principal); }},
         {"allow", [&](const auto& n, const auto& p) {
            rules_ = &principal.allow;
            ReadList(n, p, &PolicyReader::ReadRule);
          }}});
    if (map.IsMap() && !map["name"]) Add(map, path + ".name", "is required");
    if (map.IsMap() && principal.certificates.empty() && principal.tokens.empty()) {
      Add(map, path, "needs certificates or tokens: nobody could be this principal");
    }
    principals_.push_back(std::move(principal));
  }

  void ReadName(const YAML::Node& node, const std::string& path, Principal& principal) {
    const std::string name = node.IsScalar() ? node.Scalar() : "";
    if (!coordinator::IsOwnerName(name)) {
      return Add(node, path, "must be 1 to 64 of letters, digits, '.', '_' and '-'");
    }
    principal.name = name;
    Once(node, path, "name", name);
  }

  void ReadIdentities(const YAML::Node& node, const std::string& path, Principal& principal) {
    ReadTexts(node, path, [&](const std::string& text) -> std::string {
      const std::string kind = text.substr(0, text.find(':') + 1);
      if ((kind != "uri:" && kind != "dns:" && kind != "subject:") || kind.size() == text.size()) {
        return "expected uri:, dns: or subject:, and what the certificate says there; got '" +
               text + "'";
      }
      Once(node, path, "certificate", text);
      principal.certificates.push_back(text);
      return {};
    });
  }

  void ReadTokens(const YAML::Node& node, const std::string& path, Principal& principal) {
    ReadTexts(node, path, [&](const std::string& text) -> std::string {
      const std::string digits = text.starts_with(kHash) ? text.substr(kHash.size()) : "";
      if (digits.size() != kHashDigits ||
          digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
        // Not what it is: it may be the token.
        return "expected sha256: and 64 lower-case hex digits, the hash of a token: printf %s "
               "TOKEN | sha256sum";
      }
      Once(node, path, "token", digits);
      principal.tokens.push_back(digits);
      return {};
    });
  }

  void ReadRole(const YAML::Node& node, const std::string& path, Principal& principal) {
    for (const Role role : {Role::kClient, Role::kObserver, Role::kOperator}) {
      if (!node.IsScalar() || node.Scalar() != Name(role)) continue;
      principal.role = role;
      return;
    }
    Add(node, path, "must be client, observer or operator");
  }

  void ReadNumber(const YAML::Node& node, const std::string& path, std::size_t& out) {
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem != std::errc{} || end != text.data() + text.size() || out < 1 || out > 1'000'000) {
      Add(node, path, "must be from 1 to 1000000");
    }
  }

  void ReadTimeout(const YAML::Node& node, const std::string& path, Principal& principal) {
    const auto value = ParseDuration(node.IsScalar() ? node.Scalar() : "");
    if (!value) return Add(node, path, value.error().message);
    if (*value <= Duration::zero()) return Add(node, path, "must be positive");
    principal.transaction_timeout = *value;
  }

  void ReadRule(const YAML::Node& map, const std::string& path) {
    Rule rule;
    const auto names = [this](NameSet& out) -> Field {
      return [this, &out](const auto& node, const auto& where) {
        ReadTexts(node, where, [&out](const std::string& text) -> std::string {
          if (text.find('*') < text.size() - 1) return "a * may only stand at the end";
          out.Add(text);
          return {};
        });
      };
    };
    ReadMap(map, path,
            {{"clusters", names(rule.clusters)},
             {"topics", names(rule.topics)},
             {"groups", names(rule.groups)},
             {"transactional_ids", names(rule.transactional_ids)}});
    if (map.IsMap() && !map["clusters"]) {
      Add(map, path + ".clusters", "is required; [\"*\"] is all");
    }
    rules_->push_back(std::move(rule));
  }

  /// Two principals of one identity would be a matter of luck.
  void Once(const YAML::Node& node, const std::string& path, const std::string& what,
            const std::string& value) {
    const auto [first, fresh] = given_.emplace(what + " " + value, path);
    if (!fresh) Add(node, path, "the same " + what + " as " + first->second);
  }

  std::vector<Principal> principals_;
  std::vector<Rule>* rules_ = nullptr;  // Of the principal that is being read.
  std::map<std::string, std::string> given_;
  std::vector<ConfigMistake> mistakes_;
};

}  // namespace

PolicyResult ParsePolicy(const std::string& yaml) {
  return ParseDocument<PolicyResult>(
      yaml, [](const YAML::Node& root) { return PolicyReader().Read(root); });
}

PolicyResult LoadPolicy(const std::string& path) { return LoadFile(path, &ParsePolicy); }

}  // namespace lockstep::server
