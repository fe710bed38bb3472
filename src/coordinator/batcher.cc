#include "coordinator/batcher.h"

#include <algorithm>
#include <utility>

namespace lockstep::coordinator {

void Batcher::Add(Line line, GlobalTxnId id, std::size_t bytes) {
  lines_[std::move(line)].waiting.push_back({std::move(id), bytes});
}

void Batcher::AddAgain(Line line, std::vector<GlobalTxnId> members) {
  lines_[std::move(line)].again.push_back(std::move(members));
}

std::optional<Batcher::Group> Batcher::Next(const Limits& limits) {
  const auto found = std::ranges::find_if(lines_, [](const auto& entry) {
    const Queue& queue = entry.second;
    return queue.writing == 0 && !(queue.again.empty() && queue.waiting.empty());
  });
  if (found == lines_.end()) return std::nullopt;
  auto& [line, queue] = *found;
  Group group{line, {}};
  if (!queue.again.empty()) {
    group.members = std::move(queue.again.front());
    queue.again.pop_front();
  } else {
    std::size_t bytes = 0;
    while (!queue.waiting.empty() && group.members.size() < limits.txns) {
      Waiting& next = queue.waiting.front();
      bytes += next.bytes;
      if (bytes > limits.bytes && !group.members.empty()) break;
      group.members.push_back(std::move(next.id));
      queue.waiting.pop_front();
    }
  }
  if (queue.idle()) lines_.erase(found);
  return group;
}

std::vector<Batcher::Turn> Batcher::Enter(BatchId batch, const Line& line) {
  lines_[line].writing += static_cast<int>(line.size());
  writing_.emplace(batch, line);
  std::vector<Turn> turns;
  for (const ClusterName& cluster : line) {
    std::deque<BatchId>& queue = turns_[cluster];
    queue.push_back(batch);
    if (queue.size() == 1) turns.push_back({batch, cluster});
  }
  return turns;
}

std::optional<Batcher::Turn> Batcher::Leave(BatchId batch, const ClusterName& cluster) {
  const auto entered = writing_.find(batch);
  const auto turns = turns_.find(cluster);
  if (entered == writing_.end() || turns == turns_.end()) return std::nullopt;
  std::deque<BatchId>& queue = turns->second;
  const auto place = std::ranges::find(queue, batch);
  if (place == queue.end()) return std::nullopt;
  const bool was_first = place == queue.begin();
  queue.erase(place);
  std::optional<Turn> next;
  if (was_first && !queue.empty()) next = Turn{queue.front(), cluster};
  if (queue.empty()) turns_.erase(turns);

  const auto line = lines_.find(entered->second);
  if (--line->second.writing == 0) writing_.erase(entered);  // The line's only one.
  if (line->second.idle()) lines_.erase(line);
  return next;
}

}  // namespace lockstep::coordinator
