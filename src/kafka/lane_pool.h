#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/ports.h"
#include "kafka/lane.h"

namespace lockstep::kafka {

/// Lends the lanes of one cluster, each to one transaction at a time, in turn: the markers of a
/// lane's last transaction may still be on their way, and a transaction begun meanwhile waits for
/// them. Whoever finds no lane waits in line.
///
/// Lives on the executor: constructed, called and destroyed there, or after it stopped. Lanes come
/// with Open, so before it everybody waits.
class LanePool : public std::enable_shared_from_this<LanePool> {
 public:
  struct Limits {
    int lanes_min = 1;
    int lanes_max = 1;
    std::size_t max_waiting = 0;
  };
  struct Census {
    int idle = 0;
    int busy = 0;
    int renewing = 0;
    std::optional<Error> trouble;  ///< Why the last renewal failed; none once one succeeded.
  };

  /// `changed` is called on the executor when the census did.
  LanePool(Limits limits, coordinator::Executor& executor, const coordinator::Clock& clock,
           std::function<void()> changed);
  ~LanePool();

  /// Stops and joins all lanes; see Lane's destructor. Participants may outlive it.
  void Stop();

  /// From now on lanes are made, renewed and lent. `env` is taken the first time and must stay.
  void Open(const LaneEnv& env);
  /// Lends none, renews none; those lent stay with their transactions.
  void Close();
  /// Close, and idle lanes drop their producers, which would go on connecting: a cluster that
  /// refuses us is asked by one connection alone, the wire client's.
  void Rest();

  using Ticket = std::uint64_t;
  /// Asks for a lane: `granted`, perhaps at once, or `expired` at `give_up`. Nothing: too many
  /// wait.
  std::optional<Ticket> Request(MonoTime give_up, std::function<void(Lane&)> granted,
                                std::function<void()> expired);
  /// Leaves the line. Unknown tickets are ignored.
  void Cancel(Ticket ticket);

  /// Renews idle lanes whose session ends soon.
  void RenewAged();

  /// The transaction is durably settled.
  void Return(Lane& lane);
  /// Nobody will ever tell what became of its transaction: the lane is dropped, and its id is left
  /// as it is to the next incarnation.
  void Retire(Lane& lane);
  /// A request was sent in the name of a lane by other means (M4).
  void Touch(const TransactionalId& id);

  const Census& census() const { return census_; }

 private:
  enum class State : std::uint8_t { kIdle, kBusy, kRenewing };
  struct Slot {
    State state = State::kRenewing;
    std::unique_ptr<Lane> lane;
  };
  struct Waiter {
    std::function<void(Lane&)> granted;
    std::function<void()> expired;
    coordinator::Executor::TimerId timer = 0;
  };
  using SlotId = std::uint64_t;

  void AddLane();
  void Renew(SlotId id);  ///< One that is idle, and not in idle_ any more.
  void OnNews(SlotId id, std::optional<Error> trouble);
  void OnExpired(Ticket ticket);
  void Serve();  ///< Lends what is idle to those who wait; makes more lanes if they do not suffice.
  void SetState(Slot& slot, State state);
  std::map<SlotId, Slot>::iterator Find(const Lane& lane);
  int& Counter(State state);

  const Limits limits_;
  coordinator::Executor& executor_;
  const coordinator::Clock& clock_;
  const std::function<void()> changed_;

  const LaneEnv* env_ = nullptr;
  bool open_ = false;
  bool stopped_ = false;
  std::map<SlotId, Slot> slots_;
  std::deque<SlotId> idle_;           // The one that rested longest first.
  std::map<Ticket, Waiter> waiting_;  // Tickets grow: first come, first served.
  std::vector<std::unique_ptr<Lane>> retired_;
  std::uint64_t next_ = 1;
  Census census_;
};

}  // namespace lockstep::kafka
