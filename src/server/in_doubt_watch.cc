#include "server/in_doubt_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::server {
namespace {

using coordinator::InDoubtView;

constexpr Duration kInterval = std::chrono::seconds(2);
constexpr Duration kBetweenLines = std::chrono::minutes(1);
constexpr std::int64_t kOldMs = 10'000;

/// "east COMMITTED, west PENDING (no broker answers)".
std::string BranchesInWords(const InDoubtView& view) {
  std::string text;
  for (const auto& branch : view.branches) {
    text += (text.empty() ? "" : ", ") + branch.cluster.get() + " ";
    text += Name(branch.outcome);
    if (!branch.problem.empty()) text += " (" + branch.problem + ")";
  }
  return text;
}

}  // namespace

void InDoubtWatch::Start() {
  executor_.PostAfter(kInterval, [this] { Look(); });
}

void InDoubtWatch::Look() {
  coordinator_.ListInDoubt([this](const std::vector<InDoubtView>& views) {
    Report(views);
    Start();
  });
}

void InDoubtWatch::Report(const std::vector<InDoubtView>& views) {
  std::set<BatchId> heuristic;
  std::size_t old = 0;
  const InDoubtView* oldest = nullptr;
  for (const InDoubtView& view : views) {
    if (view.state == txn::GlobalTxnState::kHeuristic) {
      heuristic.insert(view.batch);
      if (heuristic_told_.contains(view.batch)) continue;
      for (const GlobalTxnId& id : view.members) {
        const TraceScope scope(traces_.Find(id));
        spdlog::error(
            "{} HEURISTIC: COMMIT was decided, and not every cluster kept it: {}. Repair by hand, "
            "then 'lockstepctl acknowledge {}'",
            id.get(), BranchesInWords(view), id.get());
      }
    } else if (clock_.WallNow().ms - view.decided_at.ms >= kOldMs) {
      ++old;
      if (oldest == nullptr || view.decided_at < oldest->decided_at) oldest = &view;
    }
  }
  heuristic_told_ = std::move(heuristic);
  if (oldest == nullptr) {
    if (std::exchange(told_, false)) spdlog::info("nothing is in doubt any more");
    return;
  }
  const MonoTime now = clock_.Now();
  if (told_ && now < quiet_until_) return;
  told_ = true;
  quiet_until_ = now + kBetweenLines;
  const TraceScope scope(oldest->members.empty() ? std::nullopt
                                                 : traces_.Find(oldest->members.front()));
  spdlog::warn("{} in doubt for {} s, {} such decisions in all: {}",
               oldest->members.empty() ? "batch" : oldest->members.front().get(),
               (clock_.WallNow().ms - oldest->decided_at.ms) / 1000, old, BranchesInWords(*oldest));
}

}  // namespace lockstep::server
