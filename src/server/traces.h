#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"

namespace lockstep::server {

/// Whose work a transaction is part of (W3C Trace Context): lower-case hex, as it came.
struct TraceContext {
  std::string trace_id;  ///< 32 digits.
  std::string span_id;   ///< 16 digits: the span in which the client called.
};

/// None if it is not valid: such a one is to be ignored, says the standard.
std::optional<TraceContext> ParseTraceParent(std::string_view text);

/// The traces of the latest transactions that came with one, for the log lines about them. In
/// memory only: after a restart they are not known. Thread-safe.
class Traces {
 public:
  /// Beyond it the oldest is forgotten. 32,768 take some 6 MB.
  static constexpr std::size_t kMost = 32'768;

  void Remember(const GlobalTxnId& id, const std::optional<TraceContext>& trace);
  std::optional<TraceContext> Find(const GlobalTxnId& id) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<GlobalTxnId, TraceContext> traces_;  // Guarded by mutex_.
  std::deque<GlobalTxnId> oldest_first_;                  // Guarded by mutex_.
};

/// What this thread logs while it lives names the trace, if there is one.
class TraceScope {
 public:
  explicit TraceScope(std::optional<TraceContext> trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  /// For the log's formatters.
  static const std::optional<TraceContext>& current();

 private:
  std::optional<TraceContext> before_;
};

}  // namespace lockstep::server
