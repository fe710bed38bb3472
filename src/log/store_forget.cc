#include <algorithm>
#include <string>

#include "base/planted.h"
#include "coordinator/txn_id.h"
#include "log/errors.h"
#include "log/keys.h"
#include "log/store.h"

namespace lockstep::log {
namespace {

/// What one round may cost: it runs on the writer thread, between two groups of appends.
constexpr int kBatchesPerRound = 64;
constexpr std::size_t kMembersPerRound = 4096;

/// No member of the batch began after this, and no key of one is younger.
WallTime LatestBirth(const txn::Decision& decision) {
  WallTime latest = decision.decided_at;
  for (const GlobalTxnId& member : decision.members) {
    // Not decided_at alone: the clock may have stepped back between begin and decision.
    const auto parts = coordinator::ParseTxnId(member);
    if (parts) latest = std::max(latest, parts->birth);
  }
  for (const txn::MemberKey& member : decision.keys) {
    if (Planted(PlantedBug::kHorizonBelowKeys)) continue;
    latest = std::max(latest, member.key.birth);
  }
  return latest;
}

}  // namespace

bool Store::IsKept(BatchId batch) const {
  return open_.contains(batch) && !Planted(PlantedBug::kForgetsPending);
}

struct Store::ForgetRound {
  WallTime settled_before;  // What was settled before this is old enough.
  WallTime now;
  int batches_left = kBatchesPerRound;
  std::size_t members = 0;
  rocksdb::WriteBatch writes;
  bool changed = false;

  bool spent() const { return batches_left <= 0 || members >= kMembersPerRound; }
};

Result<bool> Store::ForgetSome() {
  ForgetRound round;
  round.now = clock_.WallNow();
  round.settled_before = WallTime{round.now.ms - retention_.time.count()};
  for (const auto step : {&Store::ForgetLeftBehind, &Store::ForgetOldest}) {
    if (Status status = (this->*step)(round); !status.ok()) return InFolder(status.error());
  }
  if (!round.changed) return round.spent();
  round.writes.Put(keys::kForgotten, Encode(forgotten_));
  round.writes.Put(keys::kKept, Encode(kept_));
  // Before the records vanish: who finds nothing and then asks for the horizon must get the new
  // one.
  horizon_ms_ = forgotten_.horizon.ms;
  const rocksdb::Status status = db_->Write({}, &round.writes);
  if (!status.ok()) return WriteFailed(status);
  PublishKept();
  return round.spent();
}

Status Store::ForgetLeftBehind(ForgetRound& round) {
  const auto it = NewIterator();
  for (auto left = left_behind_.begin(); left != left_behind_.end() && !round.spent();) {
    const bool oversize = kept_.bytes > retention_.bytes;
    if (IsKept(left->first) || (left->second > round.now && !oversize)) {
      ++left;
      continue;
    }
    --round.batches_left;
    const auto batch = SeekBatch(*it, left->first);
    if (!batch.ok()) return batch.error();
    if (batch->has_value() && (*batch)->settled_at >= round.settled_before && !oversize) {
      left->second = WallTime{(*batch)->settled_at.ms + retention_.time.count()};
      ++left;
      continue;
    }
    if (batch->has_value()) Forget(**batch, round);
    left = left_behind_.erase(left);
  }
  return {};
}

Status Store::ForgetOldest(ForgetRound& round) {
  const auto it = NewIterator();
  it->Seek(keys::Decision(BatchId(forgotten_.through.get() + 1)));
  while (!round.spent() && it->Valid() && it->key().starts_with(keys::kDecisions)) {
    --round.batches_left;
    const Result<StoredBatch> batch = ReadBatch(*it);
    if (!batch.ok()) return batch.error();
    const bool oversize = kept_.bytes > retention_.bytes;
    const txn::Decision& decision = batch->decision;
    if (decision.decided_at >= round.settled_before && !oversize) return {};
    if (IsKept(decision.batch)) {
      left_behind_.emplace(decision.batch, WallTime{});
    } else if (batch->settled_at >= round.settled_before && !oversize) {
      left_behind_.emplace(decision.batch,
                           WallTime{batch->settled_at.ms + retention_.time.count()});
    } else {
      Forget(*batch, round);
    }
    forgotten_.through = decision.batch;
    round.changed = true;
  }
  return ReadStatus(*it);
}

void Store::Forget(const StoredBatch& batch, ForgetRound& round) {
  for (const std::string& key : batch.keys) round.writes.Delete(key);
  for (const GlobalTxnId& member : batch.decision.members) {
    round.writes.Delete(keys::Txn(member));
  }
  for (const txn::MemberKey& member : batch.decision.keys) {
    round.writes.Delete(keys::ClientKey(member.key.key));
  }
  forgotten_.horizon = std::max(forgotten_.horizon, LatestBirth(batch.decision));
  kept_.bytes -= std::min(kept_.bytes, batch.weight);
  kept_.decisions -= std::min<std::uint64_t>(kept_.decisions, 1);
  round.members += batch.decision.members.size();
  round.changed = true;
}

}  // namespace lockstep::log
