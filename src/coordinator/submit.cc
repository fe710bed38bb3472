#include <chrono>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// Whole transactions under a client's key: at most one effect for each.
namespace lockstep::coordinator {

namespace {

/// A key's birth is the client's clock, which may differ from ours, but not make a key that the
/// horizon would pass over for long.
constexpr std::chrono::milliseconds kAhead = std::chrono::minutes(5);

/// Each owner has keys of his own. A client's key has no spaces (Execute sees to it), nor has an
/// owner's name, so that no owner can name a key of another's, or one that is nobody's.
std::string ScopedKey(const Owner& owner, const std::string& key) {
  return owner.name.empty() ? key : owner.name + " " + key;
}

Submitted RunOf(GlobalTxnId id, const txn::ClientKey& ran, const txn::ClientKey& asked) {
  return {.id = std::move(id), .repeated = true, .other_work = !(ran == asked)};
}

}  // namespace

void Coordinator::Submit(Submission submission, Callback<Result<Submitted>> done) {
  Post([this, submission = std::move(submission),
        done]() mutable { done(TakeSubmission(std::move(submission))); },
       done);
}

Result<Submitted> Coordinator::TakeSubmission(Submission submission) {
  const std::string key = submission.key.key;
  submission.key.key = ScopedKey(submission.owner, key);
  auto run = FindRun(submission.key);
  if (!run.ok()) return run.error();
  if (run->has_value()) return **run;

  Result<OpenTxn*> opened = Open(submission.timeout, std::move(submission.label),
                                 std::move(submission.client), submission.owner);
  if (!opened.ok()) return opened.error();
  OpenTxn& txn = **opened;
  const GlobalTxnId id = txn.view.id;
  for (Submission::Part& part : submission.parts) {
    const Status taken = TakeWork(txn, part.cluster, std::move(part.work), txn.view.next_sequence,
                                  part.expected_cluster);
    if (taken.ok()) continue;
    Discard(id);
    return taken.error();
  }
  txn.view.key = key;
  txn.want_positions = submission.want_positions;
  running_keys_[submission.key.key] = id;
  txn.key = std::move(submission.key);
  StartCommit(txn);
  return Submitted{.id = id};
}

Result<std::optional<Submitted>> Coordinator::FindRun(const txn::ClientKey& key) const {
  if (const auto running = running_keys_.find(key.key); running != running_keys_.end()) {
    return std::optional(RunOf(running->second, *open_.at(running->second).key, key));
  }
  const auto stored = log_.FindKey(key.key);
  if (!stored.ok()) return stored.error();
  if (stored->has_value()) {
    for (const txn::MemberKey& member : (*stored)->keys) {
      if (member.key.key != key.key) continue;
      return std::optional(RunOf((*stored)->members[member.member], member.key, key));
    }
  }
  // In this order: what was forgotten since we looked is below the horizon.
  if (key.birth <= log_.Horizon()) {
    return MakeError(Code::kNotFound, "key '" + PlainKey(key.key) +
                                          "' is older than the outcomes that are kept: whether it "
                                          "committed is not known any more (see the retention "
                                          "settings)");
  }
  // Before the log was restored it may have run on the log that was lost, after the backup; a
  // client whose clock is ahead may have made it then too.
  const WallTime restored = log_.recovered().restored_at;
  if (restored.ms > 0 && key.birth.ms <= restored.ms + kAhead.count()) {
    return MakeError(Code::kNotFound,
                     "key '" + PlainKey(key.key) +
                         "' was made before this server's log was restored from a backup, or not "
                         "five minutes after: whether it committed in between is not known");
  }
  if (key.birth.ms > clock_.WallNow().ms + kAhead.count()) {
    return MakeError(Code::kInvalidArgument,
                     "key_time: is more than five minutes ahead of this server's clock");
  }
  return std::optional<Submitted>();
}

void Coordinator::Discard(const GlobalTxnId& id) {
  const auto found = open_.find(id);
  if (found->second.expiry) executor_.Cancel(*found->second.expiry);
  GiveBack(found->second);
  CountOut(found->second);
  --stats_.begun;  // In the task that counted it.
  open_.erase(found);
}

}  // namespace lockstep::coordinator
