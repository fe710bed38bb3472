#include "wire/sasl.h"

#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace lockstep::wire {
namespace {

using Answer = Result<std::optional<std::string>>;

class PlainClient : public SaslClient {  // RFC 4616
 public:
  PlainClient(std::string username, std::string password)
      : username_(std::move(username)), password_(std::move(password)) {}

  std::string First() override {
    return std::string(1, '\0') + username_ + std::string(1, '\0') + password_;
  }
  Answer Next(std::string_view) override { return Answer(std::nullopt); }

 private:
  const std::string username_;
  const std::string password_;
};

class OauthbearerClient : public SaslClient {  // RFC 7628
 public:
  explicit OauthbearerClient(std::string token) : token_(std::move(token)) {}

  std::string First() override {
    return "n,,\x01"
           "auth=Bearer " +
           token_ + "\x01\x01";
  }
  Answer Next(std::string_view challenge) override {
    if (challenge.empty()) return Answer(std::nullopt);
    // Refused, with the reason as JSON: this word makes the broker say so in its own protocol.
    return Answer(std::string("\x01"));
  }

 private:
  const std::string token_;
};

std::string NewNonce() {
  std::array<unsigned char, 24> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) std::abort();
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string nonce;
  for (const unsigned char byte : random) {
    nonce += kHex[byte >> 4U];
    nonce += kHex[byte & 15U];
  }
  return nonce;
}

}  // namespace

Result<std::unique_ptr<SaslClient>> MakeSaslClient(const SaslConfig& config) {
  if (config.mechanism == SaslMechanism::kOauthbearer) {
    auto token = ReadSecret({config.token_file, ""}, "sasl.token_file");
    if (!token.ok()) return token.error();
    return std::unique_ptr<SaslClient>(std::make_unique<OauthbearerClient>(*std::move(token)));
  }
  auto password = ReadSecret(
      config.password, config.password.file.empty() ? "sasl.password_env" : "sasl.password_file");
  if (!password.ok()) return password.error();
  if (config.mechanism == SaslMechanism::kPlain) {
    return std::unique_ptr<SaslClient>(
        std::make_unique<PlainClient>(config.username, *std::move(password)));
  }
  return MakeScramClient(config.mechanism, config.username, *std::move(password), NewNonce());
}

}  // namespace lockstep::wire
