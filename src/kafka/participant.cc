#include "kafka/participant.h"

#include <algorithm>
#include <utility>

namespace lockstep::kafka {
namespace {

txn::Vote No(txn::Refusal refusal) {
  txn::Vote vote;
  vote.kind = txn::Vote::Kind::kNo;
  vote.refusal = std::move(refusal);
  return vote;
}

txn::Vote ReadOnly() {
  txn::Vote vote;
  vote.kind = txn::Vote::Kind::kReadOnly;
  return vote;
}

bool NothingIn(const txn::BatchWork& work) {
  return std::ranges::all_of(work.members, [](const auto& member) {
    return member->records.empty() &&
           std::ranges::all_of(member->offsets, [](const txn::GroupOffsets& group) {
             return group.offsets.empty();
           });
  });
}

}  // namespace

ManagedParticipant::ManagedParticipant(std::shared_ptr<LanePool> pool,
                                       coordinator::Executor& executor, Refusing refusing,
                                       WaitedInVain waited_in_vain)
    : pool_(std::move(pool)),
      executor_(executor),
      refusing_(std::move(refusing)),
      waited_in_vain_(std::move(waited_in_vain)) {}

ManagedParticipant::~ManagedParticipant() {
  if (ticket_) pool_->Cancel(*ticket_);
  if (lane_ != nullptr) pool_->Retire(*lane_);
}

// A vote never comes from inside the call that took its callback, and never after Abort.
void ManagedParticipant::Post(const coordinator::Callback<txn::Vote>& vote, txn::Vote what) {
  executor_.Post([vote, what = std::move(what), aborted = aborted_] {
    if (!*aborted) vote(what);
  });
}

void ManagedParticipant::Prepare(txn::BatchWork work, MonoTime give_up,
                                 coordinator::Callback<txn::Vote> vote) {
  // Nothing to write: nothing to end either (the broker would answer INVALID_TXN_STATE).
  if (!work.streamed && NothingIn(work)) return Post(vote, ReadOnly());
  if (auto refusal = refusing_()) return Post(vote, No(std::move(*refusal)));
  ticket_ = pool_->Request(
      give_up,
      [this, work = std::move(work), give_up, vote](Lane& lane) {
        lane_ = &lane;
        lane.Prepare(work, give_up, vote);
        for (const auto& call : std::exchange(for_lane_, {})) call(lane);
      },
      [this, vote] { Post(vote, No(waited_in_vain_())); });
  if (!ticket_) Post(vote, No(waited_in_vain_()));
}

void ManagedParticipant::OnLane(std::function<void(Lane&)> call) {
  if (lane_ != nullptr) return call(*lane_);
  for_lane_.push_back(std::move(call));
}

void ManagedParticipant::Write(txn::BranchWork piece, coordinator::Callback<> written) {
  OnLane([piece = std::make_shared<txn::BranchWork>(std::move(piece)),
          written = std::move(written)](Lane& lane) { lane.Write(std::move(*piece), written); });
}

void ManagedParticipant::Finish(MonoTime give_up, bool want_positions) {
  OnLane([=](Lane& lane) { lane.Finish(give_up, want_positions); });
}

void ManagedParticipant::Commit(coordinator::Callback<Status> done) {
  lane_->Commit(std::move(done));
}

void ManagedParticipant::Abort(coordinator::Callback<bool> done) {
  auto aborted = [done = std::move(done)] { done(false); };
  if (lane_ != nullptr) return lane_->Abort(std::move(aborted));
  *aborted_ = true;
  if (ticket_) pool_->Cancel(*ticket_);
  executor_.Post(std::move(aborted));
}

void ManagedParticipant::Release() {
  if (lane_ != nullptr) pool_->Return(*std::exchange(lane_, nullptr));
}

}  // namespace lockstep::kafka
