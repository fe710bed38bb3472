#include "server/traces.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {
namespace {

thread_local std::optional<TraceContext> current_trace;

/// `digits` lower-case hex digits.
bool IsHex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}
bool IsId(std::string_view text, std::size_t digits) {
  return IsHex(text, digits) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceContext> ParseTraceParent(std::string_view text) {
  constexpr std::size_t kLength = 55;  // 00-{32}-{16}-{2}
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const std::string_view version = text.substr(0, 2);
  if (!IsHex(version, 2) || version == "ff" || !IsHex(text.substr(53, 2), 2)) return {};
  // Later versions may go on behind what is known of them.
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return {};
  TraceContext trace{std::string(text.substr(3, 32)), std::string(text.substr(36, 16))};
  if (!IsId(trace.trace_id, 32) || !IsId(trace.span_id, 16)) return {};
  return trace;
}

void Traces::Remember(const GlobalTxnId& id, const std::optional<TraceContext>& trace) {
  if (!trace) return;
  const std::lock_guard lock(mutex_);
  if (!traces_.emplace(id, *trace).second) return;
  oldest_first_.push_back(id);
  if (oldest_first_.size() <= kMost) return;
  traces_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

std::optional<TraceContext> Traces::Find(const GlobalTxnId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = traces_.find(id);
  return found == traces_.end() ? std::nullopt : std::optional(found->second);
}

TraceScope::TraceScope(std::optional<TraceContext> trace)
    : before_(std::exchange(current_trace, std::move(trace))) {}

TraceScope::~TraceScope() { current_trace = std::move(before_); }

const std::optional<TraceContext>& TraceScope::current() { return current_trace; }

}  // namespace lockstep::server
