#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/codec.h"

/// Messages of the log-in (KIP-152, KIP-368), which come before, and between, all others. In the
/// manner of cluster_messages.h.
namespace lockstep::wire::protocol {

struct SaslHandshake {
  static constexpr Api kApi{ApiKey::kSaslHandshake, "SaslHandshake", 1, 1, 99};
  std::string mechanism;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::vector<std::string> mechanisms;  ///< That the broker has.
  };
  static Response Decode(Reader& r);
};

struct SaslAuthenticate {
  static constexpr Api kApi{ApiKey::kSaslAuthenticate, "SaslAuthenticate", 2, 2, 2};
  std::string bytes;  ///< A secret, or made from one.
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    std::string bytes;
    std::int64_t session_lifetime_ms = 0;  ///< 0: for as long as the connection lives.
  };
  static Response Decode(Reader& r);
};

}  // namespace lockstep::wire::protocol
