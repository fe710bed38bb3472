#include "kafka/lane_id.h"

#include <charconv>

namespace lockstep::kafka {
namespace {

constexpr std::size_t kLogIdDigits = 16;

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string LanePrefix(const LogId& log) { return std::string(kLanePrefix) + log.get() + "-"; }

TransactionalId Format(const LaneId& id) {
  return TransactionalId(LanePrefix(id.log) + std::to_string(id.incarnation.get()) + "-" +
                         id.cluster.get() + "-" + std::to_string(id.slot));
}

std::optional<LaneId> ParseLaneId(const TransactionalId& id) {
  std::string_view rest = id.get();
  if (rest.substr(0, kLanePrefix.size()) != kLanePrefix) return std::nullopt;
  rest.remove_prefix(kLanePrefix.size());
  if (rest.size() <= kLogIdDigits || rest[kLogIdDigits] != '-') return std::nullopt;
  const LogId log{std::string(rest.substr(0, kLogIdDigits))};
  rest.remove_prefix(kLogIdDigits + 1);
  // The cluster's name may contain dashes: it is what the first and the last one leave.
  const auto first = rest.find('-');
  const auto last = rest.rfind('-');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const auto incarnation = Number(rest.substr(0, first));
  const auto slot = Number(rest.substr(last + 1));
  if (!incarnation || !slot) return std::nullopt;
  return LaneId{log, Incarnation(*incarnation),
                ClusterName(std::string(rest.substr(first + 1, last - first - 1))), *slot};
}

}  // namespace lockstep::kafka
