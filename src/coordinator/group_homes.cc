#include "coordinator/group_homes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace lockstep::coordinator {
namespace {

/// More are fenced by one mistake: one of them tells it.
constexpr std::size_t kMostGroups = 8;

struct Search {
  ClusterName named;
  std::map<std::string, std::set<ClusterName>> homes;
  std::set<std::string> strangers;  // Of the groups: `named` said that it does not know them.
  std::size_t unanswered = 0;
  Callback<std::string> done;  // Null once it was called.
  std::optional<Executor::TimerId> timer;

  void Take(const std::string& group, const ClusterName& cluster, const Result<bool>& knows) {
    --unanswered;
    if (!knows.ok()) return;
    if (*knows) homes[group].insert(cluster);
    if (!*knows && cluster == named) strangers.insert(group);
  }
  std::string InWords() const {
    std::string text;
    for (const auto& [group, clusters] : homes) {
      if (!strangers.contains(group)) continue;
      text += (text.empty() ? "group '" : "; group '") + group + "' lives on cluster";
      for (const ClusterName& cluster : clusters) text += " '" + cluster.get() + "'";
    }
    return text;
  }
};

}  // namespace

void LocateGroups(Executor& executor, const std::map<ClusterName, Cluster*>& clusters,
                  const ClusterName& named, const std::vector<std::string>& groups, Duration limit,
                  Callback<std::string> done) {
  const auto search = std::make_shared<Search>();
  search->named = named;
  search->done = std::move(done);
  const auto end = [search, &executor] {
    if (search->done == nullptr) return;
    if (search->timer) executor.Cancel(*search->timer);
    std::exchange(search->done, nullptr)(search->InWords());
  };
  const std::size_t count = clusters.size() > 1 ? std::min(groups.size(), kMostGroups) : 0;
  search->unanswered = count * clusters.size();
  if (search->unanswered == 0) return executor.Post(end);
  search->timer = executor.PostAfter(limit, end);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& [name, cluster] : clusters) {
      cluster->KnowsGroup(groups[i], [search, &executor, end, group = groups[i],
                                      name = name](const Result<bool>& knows) {
        executor.Post([search, end, group, name, knows] {
          search->Take(group, name, knows);
          if (search->unanswered == 0) end();
        });
      });
    }
  }
}

}  // namespace lockstep::coordinator
