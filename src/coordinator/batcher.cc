#include "coordinator/batcher.h"

#include <algorithm>
#include <utility>

namespace lockstep::coordinator {

void Batcher::Add(Line line, const std::string& client, GlobalTxnId id, std::size_t bytes) {
  Queue& queue = lines_[std::move(line)];
  std::deque<Waiting>& own = queue.waiting[client];
  if (own.empty()) queue.turns.push_back(client);
  own.push_back({std::move(id), bytes});
  ++queue.txns;
  queue.bytes += bytes;
}

void Batcher::AddAgain(Line line, std::vector<GlobalTxnId> members) {
  lines_[std::move(line)].again.push_back(std::move(members));
}

std::optional<MonoTime> Batcher::FreeAt(const Queue& queue, const Limits& limits) {
  if (!queue.latest) return MonoTime{};
  const Latest& latest = *queue.latest;
  if (latest.writing > 0) return std::nullopt;
  if (!queue.again.empty()) return MonoTime{};
  const bool full = queue.txns >= limits.txns || queue.bytes >= limits.bytes;
  if (full || (latest.ended && queue.txns >= latest.expected)) return MonoTime{};
  if (!latest.ended) return latest.since + kPatience;
  // Clients that run one transaction after another come back together: let them.
  if (latest.expected == 1) return MonoTime{};
  return latest.since + std::min<Duration>((latest.since - latest.began) / kReturnPart, kPatience);
}

std::vector<GlobalTxnId> Batcher::Take(Queue& queue, const Limits& limits) {
  std::vector<GlobalTxnId> members;
  if (!queue.again.empty()) {
    members = std::move(queue.again.front());
    queue.again.pop_front();
    return members;
  }
  std::size_t bytes = 0;
  while (queue.txns > 0 && members.size() < limits.txns) {
    const auto own = queue.waiting.find(queue.turns.front());
    Waiting& next = own->second.front();
    if (bytes + next.bytes > limits.bytes && !members.empty()) break;
    bytes += next.bytes;
    --queue.txns;
    queue.bytes -= next.bytes;
    members.push_back(std::move(next.id));
    own->second.pop_front();
    if (own->second.empty()) {
      queue.waiting.erase(own);
    } else {
      queue.turns.push_back(std::move(queue.turns.front()));
    }
    queue.turns.pop_front();
  }
  return members;
}

std::optional<Batcher::Group> Batcher::Next(const Limits& limits, MonoTime now) {
  for (auto entry = lines_.begin(); entry != lines_.end();) {
    auto& [line, queue] = *entry;
    queue.wake.reset();
    const std::optional<MonoTime> free = FreeAt(queue, limits);
    const bool waits = queue.txns > 0 || !queue.again.empty();
    if (waits && free && *free <= now) return Group{line, Take(queue, limits)};
    if (waits) queue.wake = free;
    // What was under way last is only worth knowing for a moment.
    const bool idle = !waits && free && *free <= now;
    if (idle && queue.latest) under_way_.erase(queue.latest->batch);
    entry = idle ? lines_.erase(entry) : std::next(entry);
  }
  return std::nullopt;
}

std::size_t Batcher::waiting() const {
  std::size_t count = 0;
  for (const auto& [line, queue] : lines_) {
    count += queue.txns;
    for (const auto& members : queue.again) count += members.size();
  }
  return count;
}

std::optional<MonoTime> Batcher::NextTime() const {
  std::optional<MonoTime> next;
  for (const auto& [line, queue] : lines_) {
    if (queue.wake && (!next || *queue.wake < *next)) next = queue.wake;
  }
  return next;
}

std::vector<Batcher::Turn> Batcher::Enter(BatchId batch, const Group& group, MonoTime now) {
  const Line& line = group.line;
  Queue& queue = lines_[line];
  if (queue.latest) under_way_.erase(queue.latest->batch);
  queue.latest =
      Latest{batch, group.members.size(), 0, static_cast<int>(line.size()), false, now, now};
  under_way_.emplace(batch, line);
  std::vector<Turn> turns;
  for (const ClusterName& cluster : line) {
    std::deque<BatchId>& waiting = turns_[cluster];
    waiting.push_back(batch);
    if (waiting.size() == 1) turns.push_back({batch, cluster});
  }
  return turns;
}

std::optional<Batcher::Turn> Batcher::Leave(BatchId batch, const ClusterName& cluster,
                                            MonoTime now) {
  const auto entered = under_way_.find(batch);
  const auto turns = turns_.find(cluster);
  if (entered == under_way_.end() || turns == turns_.end()) return std::nullopt;
  std::deque<BatchId>& waiting = turns->second;
  const auto place = std::ranges::find(waiting, batch);
  if (place == waiting.end()) return std::nullopt;
  const bool was_first = place == waiting.begin();
  waiting.erase(place);
  std::optional<Turn> next;
  if (was_first && !waiting.empty()) next = Turn{waiting.front(), cluster};
  if (waiting.empty()) turns_.erase(turns);

  Latest& latest = *lines_.at(entered->second).latest;
  --latest.writing;
  latest.since = now;
  return next;
}

void Batcher::End(BatchId batch, MonoTime now) {
  const auto entered = under_way_.find(batch);
  if (entered == under_way_.end()) return;
  Queue& queue = lines_.at(entered->second);
  Latest& latest = *queue.latest;
  latest.ended = true;
  latest.expected = latest.members + queue.txns;
  latest.since = now;
  under_way_.erase(entered);
}

}  // namespace lockstep::coordinator
