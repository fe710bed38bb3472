#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/security.h"

/// The client's side of SASL's mechanisms: what is said, not how it travels. No I/O but for reading
/// the secret.
namespace lockstep::wire {

/// One log-in. Its messages are secrets, or as good as: never for a log.
class SaslClient {
 public:
  virtual ~SaslClient() = default;
  /// The opening message.
  virtual std::string First() = 0;
  /// What to say to `challenge`. None: nothing more, it is complete, and the broker has shown all
  /// that it has to. Error, kPermissionDenied: this broker cannot be trusted, or refuses.
  virtual Result<std::optional<std::string>> Next(std::string_view challenge) = 0;
};

/// Reads the secret. Error: see ReadSecret.
Result<std::unique_ptr<SaslClient>> MakeSaslClient(const SaslConfig& config);

/// SCRAM (RFC 5802, 7677) without channel binding, as Kafka has it: names and passwords are UTF-8
/// as they are, and a broker that asks for fewer than 4096 rounds, or for more than 100,000 (which
/// would hold up the thread), is refused. The broker's signature is checked: one that does not know
/// the password is not taken for ours.
///
/// `mechanism` is a SCRAM; `nonce` printable ASCII without a comma, never used twice.
std::unique_ptr<SaslClient> MakeScramClient(SaslMechanism mechanism, std::string username,
                                            std::string password, std::string nonce);

}  // namespace lockstep::wire
