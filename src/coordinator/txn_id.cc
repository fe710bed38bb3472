#include "coordinator/txn_id.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace lockstep::coordinator {
namespace {

constexpr std::size_t kLogIdDigits = 16;
constexpr std::size_t kMaxOwner = 64;

std::string Hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return {digits.data(), result.ptr};
}

bool IsLowerHex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Takes the next field off the front; only the canonical form (no sign, no leading zero) counts,
/// so that one transaction has one id.
std::optional<std::uint64_t> TakeNumber(std::string_view& text) {
  const std::size_t dash = text.find('-');
  const std::string_view field = text.substr(0, dash);
  text = dash == std::string_view::npos ? std::string_view{} : text.substr(dash + 1);
  if (!IsLowerHex(field) || field.size() > 16 || field.front() == '0') return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value, 16);
  return value;
}

}  // namespace

GlobalTxnId FormatTxnId(const TxnIdParts& parts) {
  return GlobalTxnId(parts.log_id.get() + "-" + Hex(parts.incarnation.get()) + "-" +
                     Hex(static_cast<std::uint64_t>(parts.birth.ms)) + "-" + Hex(parts.number) +
                     (parts.owner.empty() ? "" : "-" + parts.owner));
}

std::optional<TxnIdParts> ParseTxnId(const GlobalTxnId& id) {
  std::string_view text = id.get();
  if (text.size() <= kLogIdDigits || text[kLogIdDigits] != '-') return std::nullopt;
  const std::string_view log_id = text.substr(0, kLogIdDigits);
  if (!IsLowerHex(log_id)) return std::nullopt;
  text.remove_prefix(kLogIdDigits + 1);
  const auto incarnation = TakeNumber(text);
  const auto birth = TakeNumber(text);
  const auto number = TakeNumber(text);
  if (!incarnation || !birth || !number) return std::nullopt;
  // The rest is the owner, who may have dashes in his name.
  if (text.empty() ? id.get().back() == '-' : !IsOwnerName(text)) return std::nullopt;
  return TxnIdParts{LogId(std::string(log_id)), Incarnation(*incarnation),
                    WallTime{static_cast<std::int64_t>(*birth)}, *number, std::string(text)};
}

bool IsOwnerName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOwner && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace lockstep::coordinator
