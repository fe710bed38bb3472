#include "coordinator/enlistments.h"

#include <utility>

namespace lockstep::coordinator {

std::string ToString(const EnlistedId& id) {
  return "transactional.id '" + id.transactional_id.get() + "' on cluster '" + id.cluster.get() +
         "'";
}

Error NotRegistered(const std::string& registration, const std::string& prefix) {
  const bool of_this_start = registration.starts_with(prefix);
  return MakeError(Code::kFenced,
                   "registration '" + registration + "' is " +
                       (of_this_start ? "void: its transactional.id was registered anew"
                                      : "of an earlier start of this server") +
                       "; close the producer, register, and make a new one");
}

Error Unfinished(const EnlistedId& producer) {
  return MakeError(Code::kUnavailable, "what was begun on " + ToString(producer) +
                                           " is not known to have ended yet; retry");
}

Error HasBranch(const ClusterName& cluster) {
  return MakeError(Code::kFailedPrecondition, "the transaction has a branch on cluster '" +
                                                  cluster.get() + "' already: a cluster has one");
}

Enlistments::Registration& Enlistments::Register(EnlistedId producer, txn::EndTxnProtocol protocol,
                                                 std::string owner) {
  Void(producer);
  registrations_.push_back({.id = prefix_ + std::to_string(next_++),
                            .producer = std::move(producer),
                            .owner = std::move(owner),
                            .protocol = protocol});
  const auto added = std::prev(registrations_.end());
  by_id_[added->id] = added;
  by_producer_[added->producer] = added;
  Evict();
  return *added;
}

void Enlistments::Void(const EnlistedId& producer) {
  const auto found = by_producer_.find(producer);
  if (found == by_producer_.end()) return;
  by_id_.erase(found->second->id);
  registrations_.erase(found->second);
  by_producer_.erase(found);
}

Enlistments::Registration* Enlistments::Find(const std::string& id, std::string_view owner) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->owner != owner) return nullptr;
  registrations_.splice(registrations_.end(), registrations_, found->second);
  return &*found->second;
}

Enlistments::Registration* Enlistments::FindProducer(const EnlistedId& producer) {
  const auto found = by_producer_.find(producer);
  return found == by_producer_.end() ? nullptr : &*found->second;
}

/// The latest stays in any case.
void Enlistments::Evict() {
  const auto latest = std::prev(registrations_.end());
  for (auto it = registrations_.begin();
       it != latest && registrations_.size() > max_registrations_;) {
    const auto oldest = it++;
    if (held(oldest->producer) || !oldest->txn.get().empty()) continue;
    Void(EnlistedId(oldest->producer));
  }
}

void Enlistments::LetGo(const EnlistedId& producer) {
  const auto found = held_.find(producer);
  if (--found->second > 0) return;
  held_.erase(found);
  auto waits = waits_.extract(producer);
  if (waits.empty()) return;
  for (auto& [id, then] : waits.mapped()) then();
}

Enlistments::WaitId Enlistments::WhenFree(const EnlistedId& producer, std::function<void()> then) {
  const WaitId wait = next_++;
  waits_[producer].emplace(wait, std::move(then));
  return wait;
}

void Enlistments::StopWaiting(const EnlistedId& producer, WaitId wait) {
  const auto found = waits_.find(producer);
  if (found == waits_.end()) return;
  found->second.erase(wait);
  if (found->second.empty()) waits_.erase(found);
}

}  // namespace lockstep::coordinator
