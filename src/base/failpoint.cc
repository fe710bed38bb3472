#include "base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep {
namespace {

enum class Action { kCrash, kPause, kDelay, kError, kCount };

struct Armed {
  Failpoint point;
  std::string name;  // As given, tag included: what FailpointHits reports.
  std::optional<std::string> tag;
  Action action = Action::kCount;
  std::chrono::milliseconds delay{0};
  std::uint64_t from_hit = 1;
  std::uint64_t hits = 0;
};

std::atomic<bool> g_any_armed{false};
std::mutex g_mutex;
std::vector<Armed> g_armed;  // Guarded by g_mutex.

Error Bad(std::string_view spec, const std::string& why) {
  return MakeError(Code::kInvalidArgument,
                   "failpoint '" + std::string(spec) + "': " + why +
                       " (form: name[@tag]=crash|pause|delay:MS|error|count[#n])");
}

bool ParseNumber(std::string_view text, std::uint64_t& out) {
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), out);
  return err == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool ParseAction(std::string_view text, Armed& armed) {
  if (text == "crash")
    armed.action = Action::kCrash;
  else if (text == "pause")
    armed.action = Action::kPause;
  else if (text == "error")
    armed.action = Action::kError;
  else if (text == "count")
    armed.action = Action::kCount;
  else if (text.substr(0, 6) == "delay:") {
    std::uint64_t ms = 0;
    if (!ParseNumber(text.substr(6), ms)) return false;
    armed.action = Action::kDelay;
    armed.delay = std::chrono::milliseconds(ms);
  } else {
    return false;
  }
  return true;
}

}  // namespace

const std::vector<FailpointInfo>& AllFailpoints() {
  static const std::vector<FailpointInfo> all = {
#define LOCKSTEP_X(constant, name, what) {Failpoint::constant, name, what},
      LOCKSTEP_FAILPOINTS(LOCKSTEP_X)
#undef LOCKSTEP_X
  };
  return all;
}

Status ArmFailpoint(std::string_view spec) {
  Armed armed{};
  const auto equals = spec.find('=');
  if (equals == std::string_view::npos) return Bad(spec, "no '='");
  std::string_view name = spec.substr(0, equals);
  std::string_view action = spec.substr(equals + 1);
  armed.name = std::string(name);
  if (const auto at = name.find('@'); at != std::string_view::npos) {
    armed.tag = std::string(name.substr(at + 1));
    name = name.substr(0, at);
  }
  if (const auto hash = action.find('#'); hash != std::string_view::npos) {
    if (!ParseNumber(action.substr(hash + 1), armed.from_hit) || armed.from_hit == 0) {
      return Bad(spec, "'#' wants a number from 1");
    }
    action = action.substr(0, hash);
  }
  if (!ParseAction(action, armed)) return Bad(spec, "unknown action '" + std::string(action) + "'");
  for (const auto& info : AllFailpoints()) {
    if (info.name != name) continue;
    armed.point = info.point;
    const std::lock_guard lock(g_mutex);
    g_armed.push_back(std::move(armed));
    g_any_armed.store(true, std::memory_order_relaxed);
    return {};
  }
  return Bad(spec, "no such failpoint; --list-failpoints names them all");
}

void DisarmFailpoints() {
  const std::lock_guard lock(g_mutex);
  g_armed.clear();
  g_any_armed.store(false, std::memory_order_relaxed);
}

bool FailpointHit(Failpoint point, std::string_view tag) {
  if (!g_any_armed.load(std::memory_order_relaxed)) return false;
  std::chrono::milliseconds delay{0};
  bool pause = false;
  bool fail = false;
  {
    const std::lock_guard lock(g_mutex);
    for (Armed& armed : g_armed) {
      if (armed.point != point || (armed.tag && *armed.tag != tag)) continue;
      if (++armed.hits < armed.from_hit) continue;
      switch (armed.action) {
        case Action::kCrash:
          // SIGKILL, not abort: no handler runs, no buffer is flushed, as when power or kernel
          // goes.
          ::kill(::getpid(), SIGKILL);
          break;
        case Action::kPause:
          pause = true;
          break;
        case Action::kDelay:
          delay = std::max(delay, armed.delay);
          break;
        case Action::kError:
          fail = true;
          break;
        case Action::kCount:
          break;
      }
    }
  }
  while (pause) ::pause();
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  return fail;
}

std::vector<std::pair<std::string, std::uint64_t>> FailpointHits() {
  const std::lock_guard lock(g_mutex);
  std::vector<std::pair<std::string, std::uint64_t>> hits;
  for (const Armed& armed : g_armed) hits.emplace_back(armed.name, armed.hits);
  return hits;
}

}  // namespace lockstep
