#include "kafka/lane_pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace lockstep::kafka {

LanePool::LanePool(Limits limits, coordinator::Executor& executor, const coordinator::Clock& clock,
                   std::function<void()> changed)
    : limits_(limits), executor_(executor), clock_(clock), changed_(std::move(changed)) {}

LanePool::~LanePool() { Stop(); }

void LanePool::Stop() {
  open_ = false;
  stopped_ = true;
  for (auto& [ticket, waiter] : waiting_) executor_.Cancel(waiter.timer);
  waiting_.clear();
  for (auto& [id, slot] : slots_) slot.lane->Stop();  // All at once, then join one by one.
  slots_.clear();
  retired_.clear();
}

void LanePool::Open(const LaneEnv& env) {
  env_ = &env;
  open_ = true;
  for (auto& [id, slot] : slots_) slot.lane->SetGate(true);
  Serve();
}

void LanePool::Close() {
  open_ = false;
  for (auto& [id, slot] : slots_) slot.lane->SetGate(false);
}

void LanePool::Rest() {
  Close();
  for (const SlotId id : std::exchange(idle_, {})) Renew(id);
}

void LanePool::RenewAged() {
  for (const SlotId id : std::exchange(idle_, {})) {
    if (slots_.at(id).lane->aged()) {
      Renew(id);
    } else {
      idle_.push_back(id);
    }
  }
}

void LanePool::Renew(SlotId id) {
  Slot& slot = slots_.at(id);
  SetState(slot, State::kRenewing);
  slot.lane->Touch();  // Not clean, so renewed: as soon as the gate is open.
  slot.lane->Release();
}

std::optional<LanePool::Ticket> LanePool::Request(MonoTime give_up,
                                                  std::function<void(Lane&)> granted,
                                                  std::function<void()> expired) {
  if (waiting_.size() >= limits_.max_waiting) return std::nullopt;
  const Ticket ticket = next_++;
  const Duration wait = std::max<Duration>(give_up - clock_.Now(), Duration::zero());
  const auto timer = executor_.PostAfter(wait, [weak = weak_from_this(), ticket] {
    if (const auto self = weak.lock()) self->OnExpired(ticket);
  });
  waiting_.emplace(ticket, Waiter{std::move(granted), std::move(expired), timer});
  Serve();
  return ticket;
}

void LanePool::Cancel(Ticket ticket) {
  const auto waiter = waiting_.find(ticket);
  if (waiter == waiting_.end()) return;
  executor_.Cancel(waiter->second.timer);
  waiting_.erase(waiter);
}

void LanePool::OnExpired(Ticket ticket) {
  const auto waiter = waiting_.find(ticket);
  if (waiter == waiting_.end()) return;
  const auto expired = std::move(waiter->second.expired);
  waiting_.erase(waiter);
  expired();
}

void LanePool::Return(Lane& lane) {
  if (stopped_) return;
  SetState(Find(lane)->second, State::kRenewing);  // A clean one only until its thread says so.
  lane.Release();
}

void LanePool::Retire(Lane& lane) {
  if (stopped_) return;
  const auto slot = Find(lane);
  --Counter(slot->second.state);
  lane.Stop();
  retired_.push_back(std::move(slot->second.lane));
  slots_.erase(slot);
  changed_();
  // Later, and not at all if the executor has stopped: then this is the process going down.
  executor_.Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Serve();
  });
}

void LanePool::Touch(const TransactionalId& id) {
  for (auto& [slot_id, slot] : slots_) {
    if (slot.lane->id() == id) slot.lane->Touch();
  }
}

void LanePool::AddLane() {
  const SlotId id = next_++;
  ++census_.renewing;
  Slot& slot = slots_[id];
  slot.lane = std::make_unique<Lane>(
      *env_, [weak = weak_from_this(), id, &executor = executor_](std::optional<Error> trouble) {
        executor.Post([weak, id, trouble = std::move(trouble)] {
          if (const auto self = weak.lock()) self->OnNews(id, trouble);
        });
      });
}

void LanePool::OnNews(SlotId id, std::optional<Error> trouble) {
  const auto slot = slots_.find(id);
  if (slot == slots_.end()) return;  // Retired since.
  census_.trouble = std::move(trouble);
  if (!census_.trouble) {
    SetState(slot->second, State::kIdle);
    idle_.push_back(id);
  }
  changed_();
  Serve();
}

void LanePool::Serve() {
  std::erase_if(retired_, [](const auto& lane) { return lane->stopped(); });
  if (!open_) return;
  if (!waiting_.empty()) RenewAged();
  while (!waiting_.empty() && !idle_.empty()) {
    Slot& slot = slots_.at(idle_.front());
    idle_.pop_front();
    SetState(slot, State::kBusy);
    auto waiter = waiting_.extract(waiting_.begin());
    executor_.Cancel(waiter.mapped().timer);
    waiter.mapped().granted(*slot.lane);
  }
  const auto lanes = [this] { return static_cast<int>(slots_.size()); };
  const auto coming = [this] { return static_cast<std::size_t>(census_.renewing); };
  while (lanes() < limits_.lanes_min ||
         (lanes() < limits_.lanes_max && waiting_.size() > coming())) {
    AddLane();
  }
}

void LanePool::SetState(Slot& slot, State state) {
  --Counter(slot.state);
  slot.state = state;
  ++Counter(state);
  changed_();
}

std::map<LanePool::SlotId, LanePool::Slot>::iterator LanePool::Find(const Lane& lane) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const auto& entry) {
    return entry.second.lane.get() == &lane;
  });
  if (slot == slots_.end()) std::abort();  // Returned or retired twice.
  return slot;
}

int& LanePool::Counter(State state) {
  switch (state) {
    case State::kIdle:
      return census_.idle;
    case State::kBusy:
      return census_.busy;
    case State::kRenewing:
      return census_.renewing;
  }
  std::abort();
}

}  // namespace lockstep::kafka
