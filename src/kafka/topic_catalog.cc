#include "kafka/topic_catalog.h"

namespace lockstep::kafka {

Result<TopicCatalog::Topics> TopicCatalog::Look(const std::vector<std::string>& topics,
                                                Duration timeout, Interrupt& interrupt) {
  Topics found;
  std::vector<std::string> unknown;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& topic : topics) {
      const auto known = known_.find(topic);
      if (known == known_.end()) {
        unknown.push_back(topic);
      } else {
        found.insert(*known);
      }
    }
  }
  if (unknown.empty()) return found;
  const auto facts = interrupt.Await<std::vector<wire::TopicFacts>>(
      [&](auto done) { client_.GetTopics(unknown, timeout, std::move(done)); });
  if (!facts.ok()) return facts.error();
  const std::lock_guard lock(mutex_);
  if (known_.size() + unknown.size() > kMaxTopics) known_.clear();
  for (const wire::TopicFacts& fact : *facts) {
    const Topic topic{fact.error, static_cast<std::int32_t>(fact.partitions.size())};
    found[fact.topic] = topic;
    if (fact.error == wire::ErrorCode::kNone) known_[fact.topic] = topic;
  }
  return found;
}

void TopicCatalog::Forget(const std::vector<std::string>& topics) {
  const std::lock_guard lock(mutex_);
  for (const std::string& topic : topics) known_.erase(topic);
}

TopicCatalog::Topics TopicCatalog::Known(std::size_t at_most) const {
  const std::lock_guard lock(mutex_);
  Topics topics;
  for (const auto& topic : known_) {
    if (topics.size() == at_most) break;
    topics.insert(topic);
  }
  return topics;
}

}  // namespace lockstep::kafka
