#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/ports.h"
#include "kafka/lane_pool.h"

namespace lockstep::kafka {

/// A Kafka transaction on a borrowed lane. See coordinator::Participant.
class ManagedParticipant : public coordinator::Participant {
 public:
  /// Says why the cluster takes no transaction and will not by waiting; nothing if it may.
  using Refusing = std::function<std::optional<txn::Refusal>()>;
  /// Says what to tell one who waited for a lane in vain.
  using WaitedInVain = std::function<txn::Refusal()>;

  ManagedParticipant(std::shared_ptr<LanePool> pool, coordinator::Executor& executor,
                     Refusing refusing, WaitedInVain waited_in_vain);
  ~ManagedParticipant() override;

  void Prepare(txn::BatchWork work, MonoTime give_up,
               coordinator::Callback<txn::Vote> vote) override;
  void Write(txn::BranchWork piece, coordinator::Callback<> written) override;
  void Finish(MonoTime give_up, bool want_positions) override;
  void Commit(coordinator::Callback<Status> done) override;
  void Abort(coordinator::Callback<bool> done) override;
  void Release() override;

 private:
  /// Now, or once there is one.
  void OnLane(std::function<void(Lane&)> call);
  void Post(const coordinator::Callback<txn::Vote>& vote, txn::Vote what);

  const std::shared_ptr<LanePool> pool_;
  coordinator::Executor& executor_;
  const Refusing refusing_;
  const WaitedInVain waited_in_vain_;

  std::optional<LanePool::Ticket> ticket_;
  Lane* lane_ = nullptr;                              // Ours from the grant until Release.
  std::vector<std::function<void(Lane&)>> for_lane_;  // What came before the grant.
  const std::shared_ptr<bool> aborted_ = std::make_shared<bool>(false);
};

}  // namespace lockstep::kafka
