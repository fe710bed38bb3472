#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::kafka {

/// What librdkafka wants to know of an OAUTHBEARER token.
struct TokenFacts {
  std::string subject;  ///< The JWT's `sub`; "lockstep" if it has none, or is no JWT.
  /// Until when librdkafka may use it before it asks for another one: the JWT's `exp`, but at most
  /// a minute from now, so that a token that was replaced early is taken up; a minute from now also
  /// if it has none. Brokers, not we, judge whether a token is good.
  std::chrono::system_clock::time_point use_until;
  /// The JWT's `exp`, when brokers end the sessions that began with it; none if it has none.
  std::optional<std::chrono::system_clock::time_point> expires;
};

/// Never fails: what cannot be read off the token gets the defaults.
TokenFacts FactsOfToken(std::string_view token, std::chrono::system_clock::time_point now);

}  // namespace lockstep::kafka
