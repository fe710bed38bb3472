#include "kafka/token.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace lockstep::kafka {
namespace {

constexpr auto kLookAgain = std::chrono::minutes(1);
// An expired token is given all the same: then the broker says so, in its words.
constexpr auto kAtLeast = std::chrono::seconds(1);
constexpr auto kFarAway = std::chrono::hours(24 * 365);

std::string FromBase64Url(std::string_view text) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos) break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count));
  }
  return bytes;
}

/// The claims of a JWT, or null.
nlohmann::json Claims(std::string_view token) {
  const auto first = token.find('.');
  if (first == std::string_view::npos) return nullptr;
  const std::string_view rest = token.substr(first + 1);
  return nlohmann::json::parse(FromBase64Url(rest.substr(0, rest.find('.'))), nullptr, false);
}

}  // namespace

TokenFacts FactsOfToken(std::string_view token, std::chrono::system_clock::time_point now) {
  TokenFacts facts{"lockstep", now + kLookAgain, std::nullopt};
  const nlohmann::json claims = Claims(token);
  if (!claims.is_object()) return facts;
  if (const auto sub = claims.find("sub"); sub != claims.end() && sub->is_string()) {
    facts.subject = sub->get<std::string>();
  }
  if (const auto exp = claims.find("exp"); exp != claims.end() && exp->is_number()) {
    // Bounded before it becomes a time: any number may stand there.
    const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    const double least = std::chrono::duration<double>(kAtLeast).count();
    const auto in = [now](double seconds) {
      return now + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                       std::chrono::duration<double>(seconds));
    };
    const double left = exp->get<double>() - now_s;
    facts.expires = in(std::clamp(left, least, std::chrono::duration<double>(kFarAway).count()));
    facts.use_until =
        in(std::clamp(left, least, std::chrono::duration<double>(kLookAgain).count()));
  }
  return facts;
}

}  // namespace lockstep::kafka
