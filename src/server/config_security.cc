// How the connections to a cluster's brokers are secured: settings, and what goes together.

#include <algorithm>
#include <array>
#include <cctype>

#include "server/config_schema.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::array<std::string_view, 4> kProtocols = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT",
                                                        "SASL_SSL"};
constexpr std::array kMechanisms = {wire::SaslMechanism::kPlain, wire::SaslMechanism::kScramSha256,
                                    wire::SaslMechanism::kScramSha512,
                                    wire::SaslMechanism::kOauthbearer};

/// A text of some form, or a word for "not given".
Setting<ClusterConfig> TextSetting(std::string_view key, std::string type,
                                   std::string_view not_given, std::string_view help,
                                   std::function<std::string&(ClusterConfig&)> field,
                                   std::function<bool(std::string_view)> is_good) {
  auto apply = [=](ClusterConfig& cluster, std::string_view text) -> std::string {
    if (text != not_given && !is_good(text)) return "must be " + type;
    field(cluster) = text == not_given ? "" : std::string(text);
    return {};
  };
  return {key, type + ", or " + std::string(not_given), not_given, "", help, apply};
}

Setting<ClusterConfig> FileSetting(std::string_view key, std::string_view help,
                                   std::function<std::string&(ClusterConfig&)> field,
                                   std::string_view not_given = kNone) {
  return TextSetting(key, "an absolute path", not_given, help, std::move(field),
                     [](std::string_view text) { return text.starts_with('/'); });
}

Setting<ClusterConfig> VariableSetting(std::string_view key, std::string_view help,
                                       std::function<std::string&(ClusterConfig&)> field) {
  const auto is_name = [](std::string_view text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  };
  return TextSetting(key, "an environment variable's name", kNone, help, std::move(field), is_name);
}

std::string ApplyProtocol(ClusterConfig& cluster, std::string_view text) {
  if (std::ranges::find(kProtocols, text) == kProtocols.end()) {
    return "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; is '" + std::string(text) + "'";
  }
  cluster.security_protocol = std::string(text);
  return {};
}

std::string ApplyMechanism(ClusterConfig& cluster, std::string_view text) {
  cluster.has_sasl_mechanism = false;
  if (text == kNone) return {};
  const auto* const found = std::ranges::find_if(
      kMechanisms, [text](wire::SaslMechanism mechanism) { return Name(mechanism) == text; });
  if (found == kMechanisms.end()) {
    return "must be none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; is '" +
           std::string(text) + "'";
  }
  cluster.has_sasl_mechanism = true;
  cluster.sasl.mechanism = *found;
  return {};
}

std::string ApplyCheckHostname(ClusterConfig& cluster, std::string_view text) {
  if (text != "true" && text != "false") return "must be true or false";
  cluster.tls.check_hostname = text == "true";
  return {};
}

bool SpeaksTls(const ClusterConfig& cluster) { return cluster.security_protocol.ends_with("SSL"); }
bool LogsIn(const ClusterConfig& cluster) { return cluster.security_protocol.starts_with("SASL"); }

using Problems = std::vector<std::pair<std::string, std::string>>;

void CheckTls(const ClusterConfig& cluster, Problems& problems) {
  const wire::TlsConfig& tls = cluster.tls;
  const auto add = [&](const char* key, const char* problem) {
    problems.emplace_back(key, problem);
  };
  constexpr const char* kNeedsTls = "needs security_protocol SSL or SASL_SSL";
  if (!SpeaksTls(cluster)) {
    if (!tls.ca_file.empty()) add("tls.ca_file", kNeedsTls);
    if (!tls.certificate_file.empty()) add("tls.certificate_file", kNeedsTls);
    if (!tls.check_hostname) add("tls.check_hostname", kNeedsTls);
  }
  if (tls.certificate_file.empty() && !tls.key_file.empty()) {
    add("tls.key_file", "needs tls.certificate_file");
  }
  if (!tls.certificate_file.empty() && tls.key_file.empty()) {
    add("tls.certificate_file", "needs tls.key_file");
  }
  const SecretSource& password = tls.key_password;
  const bool in_file = !password.file.empty();
  if (password.given() && tls.key_file.empty()) {
    add(in_file ? "tls.key_password_file" : "tls.key_password_env", "needs tls.key_file");
  }
  if (in_file && !password.environment.empty()) {
    add("tls.key_password_env", "not beside tls.key_password_file: one of them");
  }
}

void CheckNoLogIn(const ClusterConfig& cluster, Problems& problems) {
  const wire::SaslConfig& sasl = cluster.sasl;
  constexpr const char* kNeedsSasl = "needs security_protocol SASL_PLAINTEXT or SASL_SSL";
  if (cluster.has_sasl_mechanism) problems.emplace_back("sasl.mechanism", kNeedsSasl);
  if (!sasl.username.empty()) problems.emplace_back("sasl.username", kNeedsSasl);
  if (!sasl.password.file.empty()) problems.emplace_back("sasl.password_file", kNeedsSasl);
  if (!sasl.password.environment.empty()) problems.emplace_back("sasl.password_env", kNeedsSasl);
  if (!sasl.token_file.empty()) problems.emplace_back("sasl.token_file", kNeedsSasl);
}

void CheckPassword(const ClusterConfig& cluster, Problems& problems) {
  const wire::SaslConfig& sasl = cluster.sasl;
  const std::string mechanism(Name(sasl.mechanism));
  if (sasl.username.empty()) {
    problems.emplace_back("sasl.username", "is required by sasl.mechanism " + mechanism);
  }
  if (!sasl.password.given()) {
    problems.emplace_back("sasl.password_file",
                          "this, or sasl.password_env, is required by "
                          "sasl.mechanism " +
                              mechanism);
  }
  if (!sasl.password.file.empty() && !sasl.password.environment.empty()) {
    problems.emplace_back("sasl.password_env", "not beside sasl.password_file: one of them");
  }
  if (!sasl.token_file.empty()) {
    problems.emplace_back("sasl.token_file", "needs sasl.mechanism OAUTHBEARER");
  }
}

void CheckToken(const ClusterConfig& cluster, Problems& problems) {
  const wire::SaslConfig& sasl = cluster.sasl;
  constexpr const char* kNeeds = "needs sasl.mechanism PLAIN or SCRAM";
  if (sasl.token_file.empty()) {
    problems.emplace_back("sasl.token_file", "is required by sasl.mechanism OAUTHBEARER");
  }
  if (!sasl.username.empty()) problems.emplace_back("sasl.username", kNeeds);
  if (!sasl.password.file.empty()) problems.emplace_back("sasl.password_file", kNeeds);
  if (!sasl.password.environment.empty()) problems.emplace_back("sasl.password_env", kNeeds);
}

}  // namespace

std::vector<Setting<ClusterConfig>> SecuritySettings() {
  std::vector<Setting<ClusterConfig>> all;
  all.push_back(
      {"security_protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", "PLAINTEXT", "",
       "What the brokers' listener speaks, in Kafka's words: TLS is SSL, a log-in is SASL. "
       "SASL_PLAINTEXT shows passwords (PLAIN) and tokens to the network.",
       ApplyProtocol});
  all.push_back(FileSetting(
      "tls.ca_file",
      "PEM: the CAs whose brokers are trusted. system: those that OpenSSL "
      "trusts on this machine.",
      [](ClusterConfig& c) -> std::string& { return c.tls.ca_file; }, "system"));
  all.push_back(
      FileSetting("tls.certificate_file",
                  "PEM: our certificate, then those that lead to its CA, for brokers that want one "
                  "(ssl.client.auth).",
                  [](ClusterConfig& c) -> std::string& { return c.tls.certificate_file; }));
  all.push_back(FileSetting("tls.key_file", "PEM: the key of tls.certificate_file.",
                            [](ClusterConfig& c) -> std::string& { return c.tls.key_file; }));
  all.push_back(FileSetting(
      "tls.key_password_file", "Where the password of an encrypted tls.key_file stands.",
      [](ClusterConfig& c) -> std::string& { return c.tls.key_password.file; }));
  all.push_back(VariableSetting(
      "tls.key_password_env", "The environment variable that holds it, instead.",
      [](ClusterConfig& c) -> std::string& { return c.tls.key_password.environment; }));
  all.push_back(
      {"tls.check_hostname", "true or false", "true", "",
       "Whether a broker's certificate must name the host that is connected to. false: any "
       "certificate of a trusted CA will do, also a stolen one of another service.",
       ApplyCheckHostname});
  all.push_back(
      {"sasl.mechanism", "none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", kNone, "",
       "How to log in, with security_protocol SASL_PLAINTEXT and SASL_SSL. SCRAM to Kafka "
       "4.3 and later needs librdkafka 2.6.1, which Debian 12 does not have.",
       ApplyMechanism});
  all.push_back(TextSetting(
      "sasl.username", "text", kNone, "Of PLAIN and SCRAM.",
      [](ClusterConfig& c) -> std::string& { return c.sasl.username; },
      [](std::string_view text) { return !text.empty(); }));
  all.push_back(
      FileSetting("sasl.password_file",
                  "Where the password stands, of PLAIN and SCRAM; a line end after it is not part "
                  "of it. Read for each new connection: one that was changed needs no restart.",
                  [](ClusterConfig& c) -> std::string& { return c.sasl.password.file; }));
  all.push_back(VariableSetting(
      "sasl.password_env", "The environment variable that holds it, instead.",
      [](ClusterConfig& c) -> std::string& { return c.sasl.password.environment; }));
  all.push_back(FileSetting(
      "sasl.token_file",
      "Where the token stands, of OAUTHBEARER. Whoever renews it replaces the file "
      "before it expires; it is read for each log-in, and within a minute of the change.",
      [](ClusterConfig& c) -> std::string& { return c.sasl.token_file; }));
  return all;
}

std::vector<std::pair<std::string, std::string>> CheckSecurity(const ClusterConfig& cluster) {
  Problems problems;
  CheckTls(cluster, problems);
  if (!LogsIn(cluster)) {
    CheckNoLogIn(cluster, problems);
  } else if (!cluster.has_sasl_mechanism) {
    problems.emplace_back("sasl.mechanism",
                          "is required by security_protocol " + cluster.security_protocol);
  } else if (cluster.sasl.mechanism == wire::SaslMechanism::kOauthbearer) {
    CheckToken(cluster, problems);
  } else {
    CheckPassword(cluster, problems);
  }
  return problems;
}

std::string InlineSecretAdvice(std::string_view key) {
  const std::array<std::string_view, 3> secrets = {"sasl.password", "sasl.token",
                                                   "tls.key_password"};
  if (std::ranges::find(secrets, key) == secrets.end()) return {};
  const std::string name(key);
  return "a secret does not stand here: write it into a file that only lockstepd can read, and "
         "name "
         "that in " +
         name + "_file" +
         (key == "sasl.token"
              ? ""
              : "; or put it into an environment variable, and name that in " + name + "_env");
}

wire::SecurityConfig SecurityOf(const ClusterConfig& cluster) {
  wire::SecurityConfig security;
  if (SpeaksTls(cluster)) security.tls = cluster.tls;
  if (LogsIn(cluster)) security.sasl = cluster.sasl;
  return security;
}

}  // namespace lockstep::server
