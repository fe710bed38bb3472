#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "wire/sasl.h"

namespace lockstep::wire {
namespace {

using Answer = Result<std::optional<std::string>>;

constexpr int kMinRounds = 4096;
constexpr int kMaxRounds = 100'000;
constexpr std::string_view kNoChannelBinding = "n,,";

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

void Must(bool done) {
  if (!done) std::abort();  // OpenSSL without SHA-2, or out of memory.
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // And its own NUL.
  text.resize(static_cast<std::size_t>(
      EVP_EncodeBlock(Bytes(text), Bytes(bytes), static_cast<int>(bytes.size()))));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(Bytes(bytes), Bytes(text), static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  const std::size_t padding = text.size() - 1 - text.find_last_not_of('=');
  if (padding > 2) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

/// RFC 5802: commas and equals signs in a name.
std::string Escaped(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == ',') {
      escaped += "=2C";
    } else if (c == '=') {
      escaped += "=3D";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// The attribute `key` of a message, which must be the next one in `rest`; takes it from there.
std::optional<std::string_view> Take(std::string_view& rest, char key) {
  if (rest.size() < 2 || rest[0] != key || rest[1] != '=') return std::nullopt;
  const std::string_view value = rest.substr(2, rest.find(',') - 2);
  rest.remove_prefix(std::min(rest.size(), value.size() + 3));
  return value;
}

Error Distrust(const std::string& why) {
  return MakeError(Code::kPermissionDenied, "SCRAM: " + why);
}

class ScramClient : public SaslClient {
 public:
  ScramClient(const EVP_MD* hash, const std::string& username, std::string password,
              std::string nonce)
      : hash_(hash),
        password_(std::move(password)),
        nonce_(std::move(nonce)),
        first_("n=" + Escaped(username) + ",r=" + nonce_) {}

  std::string First() override { return std::string(kNoChannelBinding) + first_; }

  Answer Next(std::string_view challenge) override {
    return signature_.empty() ? Prove(challenge) : Verify(challenge);
  }

 private:
  Answer Prove(std::string_view server_first) {
    std::string_view rest = server_first;
    const auto nonce = Take(rest, 'r');
    const auto salt_text = Take(rest, 's');
    const auto rounds_text = Take(rest, 'i');
    const auto salt = FromBase64(salt_text.value_or(""));
    if (!nonce || !salt || !rounds_text) return Distrust("the broker's first message is malformed");
    if (nonce->size() <= nonce_.size() || !nonce->starts_with(nonce_)) {
      return Distrust("the broker answers another client's nonce");
    }
    int rounds = 0;
    const char* end = rounds_text->data() + rounds_text->size();
    const auto parsed = std::from_chars(rounds_text->data(), end, rounds);
    if (parsed.ec != std::errc() || parsed.ptr != end || rounds < kMinRounds ||
        rounds > kMaxRounds) {
      return Distrust("the broker asks for '" + std::string(*rounds_text) +
                      "' iterations; 4096 to 100000 are accepted: store the user anew with fewer "
                      "or more (kafka-configs --add-config '...[iterations=8192,password=...]')");
    }
    const std::string salted = Salted(*salt, rounds);
    const std::string client_key = Hmac(salted, "Client Key");
    const std::string final_start = "c=" + Base64(kNoChannelBinding) + ",r=" + std::string(*nonce);
    const std::string message = first_ + "," + std::string(server_first) + "," + final_start;
    std::string proof = Hmac(Hash(client_key), message);
    for (std::size_t i = 0; i < proof.size(); ++i) {
      proof[i] = static_cast<char>(proof[i] ^ client_key[i]);
    }
    signature_ = Hmac(Hmac(salted, "Server Key"), message);
    return Answer(final_start + ",p=" + Base64(proof));
  }

  Answer Verify(std::string_view server_final) {
    std::string_view rest = server_final;
    if (const auto error = Take(rest, 'e')) return Distrust(std::string(*error));
    const auto signature = FromBase64(Take(rest, 'v').value_or(""));
    if (!signature || signature->size() != signature_.size() ||
        CRYPTO_memcmp(signature->data(), signature_.data(), signature_.size()) != 0) {
      return Distrust("the broker's signature is wrong: it does not know the password itself");
    }
    return Answer(std::nullopt);
  }

  std::string Salted(std::string_view salt, int rounds) const {
    std::string out(static_cast<std::size_t>(EVP_MD_size(hash_)), '\0');
    Must(PKCS5_PBKDF2_HMAC(password_.data(), static_cast<int>(password_.size()), Bytes(salt),
                           static_cast<int>(salt.size()), rounds, hash_,
                           static_cast<int>(out.size()), Bytes(out)) == 1);
    return out;
  }

  std::string Hmac(std::string_view key, std::string_view text) const {
    std::string out(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    Must(HMAC(hash_, key.data(), static_cast<int>(key.size()), Bytes(text), text.size(), Bytes(out),
              &size) != nullptr);
    out.resize(size);
    return out;
  }

  std::string Hash(std::string_view text) const {
    std::string out(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    Must(EVP_Digest(text.data(), text.size(), Bytes(out), &size, hash_, nullptr) == 1);
    out.resize(size);
    return out;
  }

  const EVP_MD* const hash_;
  const std::string password_;
  const std::string nonce_;
  const std::string first_;  // Without the header.
  std::string signature_;    // The broker's, once its first message was answered.
};

}  // namespace

std::unique_ptr<SaslClient> MakeScramClient(SaslMechanism mechanism, std::string username,
                                            std::string password, std::string nonce) {
  const EVP_MD* hash = mechanism == SaslMechanism::kScramSha512 ? EVP_sha512() : EVP_sha256();
  return std::make_unique<ScramClient>(hash, username, std::move(password), std::move(nonce));
}

}  // namespace lockstep::wire
