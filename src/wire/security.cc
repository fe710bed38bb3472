#include "wire/security.h"

namespace lockstep::wire {

std::string_view Name(SaslMechanism mechanism) {
  switch (mechanism) {
    case SaslMechanism::kPlain:
      return "PLAIN";
    case SaslMechanism::kScramSha256:
      return "SCRAM-SHA-256";
    case SaslMechanism::kScramSha512:
      return "SCRAM-SHA-512";
    case SaslMechanism::kOauthbearer:
      return "OAUTHBEARER";
  }
  return "?";
}

std::string Stamp(const SecurityConfig& security) {
  std::string stamp;
  const auto add = [&stamp](const std::string& file) {
    if (!file.empty()) stamp += FileStamp(file) + " ";
  };
  if (security.tls) {
    add(security.tls->ca_file);
    add(security.tls->certificate_file);
    add(security.tls->key_file);
    add(security.tls->key_password.file);
  }
  if (security.sasl) {
    add(security.sasl->password.file);
    add(security.sasl->token_file);
  }
  return stamp;
}

}  // namespace lockstep::wire
