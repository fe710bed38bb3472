#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace lockstep::wire {

struct TlsConfig {
  std::string ca_file;           ///< PEM: whom to trust. Empty: whom the system trusts.
  std::string certificate_file;  ///< PEM, ours first: for brokers that want one. Empty: none.
  std::string key_file;          ///< PEM, of the certificate.
  SecretSource key_password;     ///< Not given: the key is not encrypted.
  /// Whether the certificate must name the host that we connect to.
  bool check_hostname = true;
  friend bool operator==(const TlsConfig&, const TlsConfig&) = default;
};

enum class SaslMechanism : std::uint8_t { kPlain, kScramSha256, kScramSha512, kOauthbearer };
/// Kafka's name: "SCRAM-SHA-256".
std::string_view Name(SaslMechanism mechanism);
inline bool IsScram(SaslMechanism mechanism) {
  return mechanism == SaslMechanism::kScramSha256 || mechanism == SaslMechanism::kScramSha512;
}

struct SaslConfig {
  SaslMechanism mechanism = SaslMechanism::kPlain;
  std::string username;    ///< Of PLAIN and SCRAM.
  SecretSource password;   ///< Of PLAIN and SCRAM.
  std::string token_file;  ///< Of OAUTHBEARER: a JWT, or what else the brokers take.
  friend bool operator==(const SaslConfig&, const SaslConfig&) = default;
};

/// How connections to a cluster are secured; neither: Kafka's PLAINTEXT. All files are read anew
/// for each connection if they have changed: what is rotated needs no restart.
struct SecurityConfig {
  std::optional<TlsConfig> tls;
  std::optional<SaslConfig> sasl;
  friend bool operator==(const SecurityConfig&, const SecurityConfig&) = default;
};

/// Changes whenever a file changes that `security` names.
std::string Stamp(const SecurityConfig& security);

}  // namespace lockstep::wire
