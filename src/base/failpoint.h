#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Failpoints: named places where a test, or the demo, makes this process crash, stall or fail.
/// This is the one list of them, so that a test can iterate it and notice one that nobody reaches.
/// Nothing is ever armed unless lockstepd was started with --enable-failpoints.
///
/// X(constant, "name", "what is true there")
#define LOCKSTEP_FAILPOINTS(X)                                                                    \
  X(kBeforePrepare, "coordinator.before_prepare", "Commit was accepted; no broker heard of it")   \
  X(kVotesIn, "coordinator.votes_in", "all voted YES; the decision is not written")               \
  X(kDecisionDurable, "coordinator.decision_durable", "COMMIT is synced; nobody was told")        \
  X(kParticipantEnded, "coordinator.participant_ended", "one end is known; it is not logged")     \
  X(kBeforeAnswer, "coordinator.before_answer", "the outcome is known; the client was not told")  \
  X(kCompletionDurable, "coordinator.completion_durable", "completion is synced; lane not freed") \
  X(kAbortChosen, "coordinator.abort_chosen", "abort won against commit; no broker was told")     \
  X(kRecoveryOpened, "recovery.log_opened", "the log is open; nothing was resolved")              \
  X(kResolverBeforeEndTxn, "resolver.before_end_txn", "seen Ongoing; EndTxn not sent")            \
  X(kResolverAfterEndTxn, "resolver.after_end_txn", "EndTxn was answered; not described again")   \
  X(kResolverConcluded, "resolver.concluded", "the outcome is known; it is not logged")           \
  X(kLogBeforeSync, "log.before_sync", "records are handed over; nothing is durable")             \
  X(kLogAfterSync, "log.after_sync", "records are durable; nobody was told")                      \
  X(kLaneBeforeInit, "lane.before_init", "lane thread: InitProducerId not sent")                  \
  X(kLaneAfterInit, "lane.after_init", "lane thread: the lane has its producer epoch")            \
  X(kLaneBeforeProduce, "lane.before_produce", "lane thread: transaction begun, nothing sent")    \
  X(kLaneAfterFlush, "lane.after_flush", "lane thread: every record is delivered")                \
  X(kLaneAfterOffsets, "lane.after_offsets", "lane thread: TxnOffsetCommit was answered")         \
  X(kLaneBeforeVote, "lane.before_vote", "lane thread: described, the vote is not given")         \
  X(kLaneBeforeCommit, "lane.before_commit", "lane thread: EndTxn(commit) not sent")              \
  X(kLaneAfterCommit, "lane.after_commit", "lane thread: EndTxn(commit) was answered")            \
  X(kLaneBeforeAbort, "lane.before_abort", "lane thread: EndTxn(abort) not sent")                 \
  X(kLaneAfterAbort, "lane.after_abort", "lane thread: EndTxn(abort) was answered")               \
  X(kFenceBefore, "fence.before", "an earlier incarnation's lane was found; not fenced yet")      \
  X(kFenceAfter, "fence.after", "an earlier incarnation's lane is fenced")

namespace lockstep {

enum class Failpoint : std::uint8_t {
#define LOCKSTEP_X(constant, name, what) constant,
  LOCKSTEP_FAILPOINTS(LOCKSTEP_X)
#undef LOCKSTEP_X
};

struct FailpointInfo {
  Failpoint point;
  std::string_view name;
  std::string_view what;  ///< What is true when it is reached.
};

/// All of them, in declaration order.
const std::vector<FailpointInfo>& AllFailpoints();

/// Arms one from "name[@tag]=action[#n]": the action is taken at the n-th hit (from 1; default 1,
/// and at each later one). Actions: `crash` (SIGKILL to this process, so nothing is flushed),
/// `pause` (the thread stops for ever), `delay:MS`, `error` (the caller fails as documented there),
/// `count` (only counted). With a tag, only hits that carry that tag count; lanes and resolvers tag
/// with the cluster's name. Error: kInvalidArgument naming what is wrong and what is allowed.
Status ArmFailpoint(std::string_view spec);

/// Disarms all, forgets the counts. For tests.
void DisarmFailpoints();

/// Called at a failpoint, from any thread. Costs one relaxed load while nothing is armed. Returns
/// true if the caller must fail here (action `error`).
[[nodiscard]] bool FailpointHit(Failpoint point, std::string_view tag = {});

/// For places where `error` has no meaning.
inline void PassFailpoint(Failpoint point, std::string_view tag = {}) {
  if (FailpointHit(point, tag)) std::abort();
}

/// How often each armed failpoint was hit: lockstepd prints it at exit, so that a crash matrix can
/// tell a point that was never reached.
std::vector<std::pair<std::string, std::uint64_t>> FailpointHits();

}  // namespace lockstep
