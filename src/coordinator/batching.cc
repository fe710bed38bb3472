#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// Transactions that commit together: docs/design/batches.md.
namespace lockstep::coordinator {

using txn::AbortReason;
using txn::GlobalTxnState;
using txn::Refusal;

void Coordinator::StartCommit(OpenTxn& txn) {
  txn.view.state = GlobalTxnState::kPreparing;
  txn.commit_asked = txn.in_line_since = clock_.Now();
  Batcher::Line line;
  for (const auto& [cluster, work] : txn.work) {
    work->want_positions = txn.want_positions;
    line.push_back(cluster);
  }
  Touch(txn);
  if (!txn.streams.empty()) return CommitStreamed(txn);
  // Large ones would delay the others, and a client's own producer has a transaction of its own.
  if (line.empty() || txn.has_enlisted() || txn.bytes > options_.limits.batch_bytes) {
    return CommitAlone(txn);
  }
  batcher_.Add(std::move(line), txn.client, txn.view.id, txn.bytes);
  FormBatches();
}

void Coordinator::CommitAlone(OpenTxn& txn) {
  const auto runner = StartRunner({txn.view.id}, true);
  for (std::size_t i = 0; i < runner->batch().participants.size(); ++i) runner->Prepare(i);
}

void Coordinator::FormBatches() {
  const Batcher::Limits limits{options_.limits.batch_txns, options_.limits.batch_bytes};
  while (auto group = batcher_.Next(limits, clock_.Now())) {
    std::erase_if(group->members, [this](const GlobalTxnId& id) {
      const auto found = open_.find(id);
      return found == open_.end() || !found->second.waits_for_batch();
    });
    if (group->members.empty()) continue;
    const auto runner = StartRunner(group->members, true);
    for (const Batcher::Turn& turn : batcher_.Enter(runner->batch().id, *group, clock_.Now())) {
      PrepareInTurn(turn);
    }
  }
  FormBatchesAt(batcher_.NextTime());
}

void Coordinator::FormBatchesAt(std::optional<MonoTime> time) {
  if (!time || (forming_ && forming_->first <= *time)) return;
  if (forming_) executor_.Cancel(forming_->second);
  const Duration wait = std::max<Duration>(*time - clock_.Now(), Duration::zero());
  forming_.emplace(*time, executor_.PostAfter(wait, [this] {
    forming_.reset();
    FormBatches();
  }));
}

void Coordinator::PrepareInTurn(const Batcher::Turn& turn) {
  const std::shared_ptr<BatchRunner> runner = runners_.at(turn.batch);
  const auto& participants = runner->batch().participants;
  const auto found = std::ranges::find(participants, turn.cluster, &txn::BatchParticipant::cluster);
  runner->Prepare(static_cast<std::size_t>(found - participants.begin()));
}

void Coordinator::LeaveTurns(const BatchRunner& runner) {
  const BatchId batch = runner.batch().id;
  if (!batcher_.under_way(batch)) return;
  std::vector<Batcher::Turn> turns;
  for (std::size_t i = 0; i < runner.batch().participants.size(); ++i) {
    if (runner.preparing(i)) continue;
    const ClusterName& cluster = runner.batch().participants[i].cluster;
    if (const auto next = batcher_.Leave(batch, cluster, clock_.Now())) turns.push_back(*next);
  }
  if (runner.announced()) batcher_.End(batch, clock_.Now());
  for (const Batcher::Turn& turn : turns) PrepareInTurn(turn);
  FormBatches();
}

std::shared_ptr<BatchRunner> Coordinator::StartRunner(const std::vector<GlobalTxnId>& members,
                                                      bool prepare) {
  std::map<ClusterName, BatchRunner::Branch> branches;
  std::vector<txn::MemberKey> keys;
  MonoTime latest{};
  const MonoTime now = clock_.Now();
  for (std::size_t i = 0; i < members.size(); ++i) {
    OpenTxn& txn = open_.at(members[i]);
    txn.member = i;
    if (prepare) stats_.in_line.Add(now - txn.in_line_since);
    latest = std::max(latest, txn.expires);
    if (txn.key) keys.push_back({static_cast<std::uint32_t>(i), *txn.key});
    if (prepare) {
      for (const auto& [cluster, work] : txn.work) branches[cluster].work.members.push_back(work);
    }
    for (auto& [cluster, participant] : txn.enlisted) {
      branches[cluster].enlisted = std::move(participant);
    }
    txn.enlisted.clear();
  }
  std::vector<BatchRunner::Branch> in_order;
  for (auto& [cluster, branch] : branches) {
    branch.cluster = FindCluster(cluster);
    in_order.push_back(std::move(branch));
  }
  auto runner = NewRunner(members, std::move(keys), std::move(in_order));
  // Whose own time is up sooner leaves by itself.
  if (prepare) runner->Begin(std::min(now + options_.prepare_timeout, latest));
  return runner;
}

std::shared_ptr<BatchRunner> Coordinator::NewRunner(const std::vector<GlobalTxnId>& members,
                                                    std::vector<txn::MemberKey> keys,
                                                    std::vector<BatchRunner::Branch> branches) {
  const BatchId batch(next_batch_++);
  auto runner = std::make_shared<BatchRunner>(RunnerPorts(), batch, members, std::move(keys),
                                              std::move(branches));
  for (const GlobalTxnId& id : members) open_.at(id).runner = runner;
  runners_[batch] = runner;
  return runner;
}

void Coordinator::OnAborted(const BatchRunner& runner) {
  const std::vector<GlobalTxnId>& members = runner.members();
  const txn::Batch& batch = runner.batch();
  if (members.size() == 1) return FinishAborted(members.front(), batch.refusal);
  if (draining_) {
    for (const GlobalTxnId& id : members) Finish(id, GlobalTxnState::kAborted, ShuttingDown());
    return;
  }
  if (batch.culprits.empty() && !LiesInWork(batch.refusal.reason)) {
    for (const GlobalTxnId& id : members) FinishAborted(id, batch.refusal);
    return;
  }
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < members.size(); ++i) rest.push_back(i);
  if (batch.culprits.empty()) {  // One of them it is: each half finds out for itself.
    const auto middle = rest.begin() + static_cast<std::ptrdiff_t>(rest.size() / 2);
    TryAgain(runner, {rest.begin(), middle});
    TryAgain(runner, {middle, rest.end()});
    return;
  }
  for (const txn::Culprit& culprit : batch.culprits) {
    std::erase(rest, culprit.member);
    const auto found = open_.find(members[culprit.member]);
    if (found == open_.end()) continue;
    if (culprit.slow) {
      found->second.runner.reset();
      found->second.in_line_since = clock_.Now();
      CommitAlone(found->second);
    } else {
      FinishAborted(members[culprit.member], culprit.refusal);
    }
  }
  if (Planted(PlantedBug::kBatchMatesToldAborted)) {
    for (const std::size_t member : rest) {
      OpenTxn& txn = open_.at(members[member]);
      TxnView told = ViewOf(txn);
      told.state = GlobalTxnState::kAborted;
      for (Waiter& waiter : std::exchange(txn.waiters, {})) waiter.done(told);
    }
  }
  if (!rest.empty()) TryAgain(runner, rest);
}

void Coordinator::TryAgain(const BatchRunner& runner, const std::vector<std::size_t>& members) {
  std::vector<GlobalTxnId> ids;
  Batcher::Line line;
  for (const std::size_t member : members) {
    const auto found = open_.find(runner.members()[member]);
    if (found == open_.end()) continue;
    found->second.runner.reset();
    found->second.in_line_since = clock_.Now();
    ids.push_back(found->first);
  }
  for (const txn::BatchParticipant& participant : runner.batch().participants) {
    line.push_back(participant.cluster);
  }
  batcher_.AddAgain(std::move(line), std::move(ids));
}

}  // namespace lockstep::coordinator
