#include <algorithm>
#include <tuple>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/txn_id.h"
#include "coordinator/views.h"

/// Looking at many transactions, and waiting for one to change.
namespace lockstep::coordinator {
namespace {

/// The order of begin: a recovered transaction has an earlier incarnation.
using Order = std::tuple<Incarnation, std::uint64_t>;

Order OrderOf(const TxnIdParts& parts) { return {parts.incarnation, parts.number}; }

bool Matches(const ListFilter& filter, txn::GlobalTxnState state, const std::string& label) {
  return (filter.states.empty() ||
          std::ranges::find(filter.states, state) != filter.states.end()) &&
         label.starts_with(filter.label_prefix);
}

Error Leaving() {
  return MakeError(Code::kUnavailable, "lockstepd is stopping; watch again once it is back");
}

}  // namespace

void Coordinator::List(ListFilter filter, std::optional<GlobalTxnId> after, std::size_t count,
                       Callback<Result<TxnPage>> done) {
  Post(
      [this, filter = std::move(filter), after = std::move(after), count, done] {
        std::optional<Order> first;
        if (after) {
          const auto parts = ParseTxnId(*after);
          if (!parts) return done(MalformedId(*after));
          first = OrderOf(*parts);
        }
        struct Candidate {
          Order order;
          const GlobalTxnId* id = nullptr;
          const OpenTxn* open = nullptr;  // Null: it has ended.
        };
        std::vector<Candidate> found;
        const auto consider = [&](const GlobalTxnId& id, const OpenTxn* open) {
          const auto parts = ParseTxnId(id);
          if (filter.owner && parts->owner != *filter.owner) return;
          const Order order = OrderOf(*parts);
          if (!first || *first < order) found.push_back({order, &id, open});
        };
        for (const auto& [id, txn] : open_) {
          if (Matches(filter, txn.view.state, txn.view.label)) consider(id, &txn);
        }
        recent_.ForEach([&](const Outcomes::Head& head) {
          if (Matches(filter, head.state, head.label)) consider(head.id, nullptr);
        });
        const std::size_t size = std::min(count, found.size());
        std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(size), {},
                                  &Candidate::order);
        TxnPage page{.more = found.size() > size};
        for (std::size_t i = 0; i < size; ++i) {
          page.txns.push_back(found[i].open != nullptr ? ViewOf(*found[i].open)
                                                       : *recent_.Find(*found[i].id));
        }
        done(std::move(page));
      },
      done);
}

void Coordinator::AwaitChange(WatchId watch, GlobalTxnId id, std::uint64_t seen,
                              Callback<Result<TxnChange>> done) {
  Post(
      [this, watch, id = std::move(id), seen, done] {
        const auto found = open_.find(id);
        if (found == open_.end()) {
          Result<TxnView> closed = ClosedView(id);
          if (!closed.ok()) return done(closed.error());
          return done(TxnChange{.view = *std::move(closed), .final = true});
        }
        if (found->second.view.revision != seen) {
          return done(TxnChange{.view = ViewOf(found->second)});
        }
        if (watches_ended_) return done(Leaving());
        watchers_.emplace(watch, Watcher{id, done});
        watches_of_.emplace(id, watch);
      },
      done);
}

void Coordinator::CancelWatch(WatchId watch) {
  executor_.Post([this, watch] {
    auto node = watchers_.extract(watch);
    if (node.empty()) return;
    const auto [begin, end] = watches_of_.equal_range(node.mapped().id);
    watches_of_.erase(std::find_if(begin, end, [&](const auto& w) { return w.second == watch; }));
    node.mapped().done(MakeError(Code::kAborted, "the watch was given up"));
  });
}

void Coordinator::EndWatches() {
  executor_.Post([this] {
    watches_ended_ = true;
    watches_of_.clear();
    for (auto& [watch, watcher] : std::exchange(watchers_, {})) watcher.done(Leaving());
  });
}

void Coordinator::Touch(OpenTxn& txn) {
  ++txn.view.revision;
  if (watches_of_.contains(txn.view.id)) TellWatchers(ViewOf(txn), false);
}

void Coordinator::TellWatchers(const TxnView& view, bool final) {
  const auto [begin, end] = watches_of_.equal_range(view.id);
  std::vector<Callback<Result<TxnChange>>> told;
  for (auto watch = begin; watch != end; ++watch) {
    told.push_back(std::move(watchers_.extract(watch->second).mapped().done));
  }
  watches_of_.erase(begin, end);
  for (const auto& done : told) done(TxnChange{view, final, true});
}

}  // namespace lockstep::coordinator
