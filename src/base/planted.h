#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

/// Planted bugs: mistakes that somebody could make, built in on purpose, to show that the tests
/// notice them. This is the one list; tests/planted says for each which test must fail, and sees
/// that it does. Compiled in only where CMake's LOCKSTEP_PLANT is on (presets debug, asan,
/// tsan-core, sim, fuzz), so never in a release; there at most one is in force, by the environment:
/// LOCKSTEP_PLANTED_BUG=name.
///
/// X(constant, "name", layer that must catch it, "what is wrong")
#define LOCKSTEP_PLANTED_BUGS(X)                                                                 \
  /* src/txn, src/coordinator */                                                                 \
  X(kAnswerBeforeWrite, "answer-before-write", kSimulation,                                      \
    "a decision is acted on once it was handed to the log, not once it is durable")              \
  X(kCommitWithoutAllVotes, "commit-without-all-votes", kSimulation,                             \
    "a NO counts as a read-only vote")                                                           \
  X(kDecidePastDeadline, "decide-past-deadline", kSimulation,                                    \
    "COMMIT is decided although Kafka's transaction timeout may be over")                        \
  X(kAbortBeatsDecision, "abort-beats-decision", kSimulation,                                    \
    "ABORTED is told while the decision's write is in flight")                                   \
  X(kLaneReusedEarly, "lane-reused-early", kSimulation,                                          \
    "a participant is released before its completion is durable, and start times are not "       \
    "compared")                                                                                  \
  X(kEnlistedToldEarly, "enlisted-told-early", kUnit,                                            \
    "COMMITTED of an enlisted TV1 producer is told before its completion is durable (M11)")      \
  X(kAbortToldEarly, "abort-told-early", kUnit,                                                  \
    "ABORTED of an enlisted producer is told before its abort is known (M13)")                   \
  X(kFencedIsSuccess, "fenced-is-success", kUnit,                                                \
    "EndTxn answered with FENCED is taken for committed")                                        \
  X(kHeuristicHidden, "heuristic-hidden", kSimulation, "HEURISTIC is told as COMMITTED")         \
  X(kMissingMarkerIsAbort, "missing-marker-is-abort", kUnit,                                     \
    "no marker to be read is taken for an abort")                                                \
  X(kMarkersUnchecked, "markers-unchecked", kSimulation,                                         \
    "markers are taken for written because the coordinator says Complete (KAFKA-20734)")         \
  X(kExpiredIsAborted, "expired-is-aborted", kSimulation,                                        \
    "an outcome that is no longer kept is presumed ABORTED")                                     \
  X(kKeyForgotten, "key-forgotten", kSimulation, "a decision does not keep its members' keys")   \
  X(kBatchMatesToldAborted, "batch-mates-told-aborted", kSimulation,                             \
    "who shares a batch with a culprit is told ABORTED, and tried again all the same")           \
  X(kRepeatedWorkApplied, "repeated-work-applied", kSimulation,                                  \
    "a repeated Produce or SendOffsets is applied again")                                        \
  X(kSequenceGapAccepted, "sequence-gap-accepted", kUnit,                                        \
    "work is taken although work before it is missing")                                          \
  X(kOffsetsAstray, "offsets-astray", kSimulation, "offsets are sent to another cluster")        \
  X(kClusterIdIgnored, "cluster-id-ignored", kUnit,                                              \
    "offsets of another Kafka cluster than the named one are taken")                             \
  X(kEpochUnchecked, "epoch-unchecked", kUnit,                                                   \
    "a vote does not see that the id is another producer's by now (M9)")                         \
  X(kReinitNotEnforced, "reinit-not-enforced", kUnit,                                            \
    "a producer goes on although an EndTxn of ours may still arrive")                            \
  X(kEnlistWhileUnfinished, "enlist-while-unfinished", kUnit,                                    \
    "a producer is enlisted anew before its last transaction is settled (M10)")                  \
  X(kRegisterAtOnce, "register-at-once", kSimulation,                                            \
    "RegisterProducer does not wait for what is decided (M21)")                                  \
  /* src/log, and the simulated log */                                                           \
  X(kSkipSync, "skip-sync", kUnit, "the log writes without a sync, and says that it is durable") \
  X(kLogAcksBeforeSync, "log-acks-before-sync", kSimulation, "the log answers before it writes") \
  X(kWritesAfterFailure, "writes-after-failure", kUnit, "the log goes on after a failed sync")   \
  X(kForgetsPending, "forgets-pending", kSimulation,                                             \
    "a decision is forgotten before its last participant is known to be complete")               \
  X(kHorizonBelowKeys, "horizon-below-keys", kSimulation,                                        \
    "the horizon leaves out when the forgotten keys were born")                                  \
  X(kDamageUnseen, "damage-unseen", kUnit,                                                       \
    "damage in front of the log's tail is taken for a tail")                                     \
  X(kKeysNotRecovered, "keys-not-recovered", kSimulation,                                        \
    "a start does not find the keys of complete ones")                                           \
  /* src/kafka, src/wire, and the simulated cluster */                                           \
  X(kUncleanLaneReused, "unclean-lane-reused", kSimulation,                                      \
    "a lane with an unanswered request is used again under the same epoch")                      \
  X(kVoteWhileUnanswered, "vote-while-unanswered", kSimulation,                                  \
    "a lane votes YES although a request of its transaction is unanswered")                      \
  X(kInitBeforeResolve, "init-before-resolve", kSimulation,                                      \
    "recovery initialises ids whose decision is pending")                                        \
  X(kFenceForgotten, "fence-forgotten", kSimulation,                                             \
    "lanes of earlier incarnations are left as they are")                                        \
  X(kEndVersionsMixed, "end-versions-mixed", kSimulation,                                        \
    "a TV1 participant is ended by EndTxn v5")                                                   \
  X(kErrorIsOutcome, "error-is-outcome", kSimulation,                                            \
    "a lane takes a commit that was not answered for a commit that worked")                      \
  X(kInitReusesId, "init-reuses-id", kSimulation,                                                \
    "an id is used on although an InitProducerId of it is unanswered")                           \
  X(kAbortedIdReused, "aborted-id-reused", kSimulation,                                          \
    "an id is used on after an abort whose markers the broker may have lost (KAFKA-20734)")      \
  X(kVoteUnchecked, "vote-unchecked", kSimulation,                                               \
    "a lane votes without asking the broker, and as if it had time without end")                 \
  X(kVoteUnflushed, "vote-unflushed", kSimulation,                                               \
    "a lane votes before its records are delivered")                                             \
  X(kMemberLeftOut, "member-left-out", kSimulation,                                              \
    "a lane votes YES although it did not write the work of one of the batch's members")         \
  X(kPieceLeftOut, "piece-left-out", kSimulation,                                                \
    "a lane votes YES although it did not write a piece of a streamed transaction")              \
  X(kSpoiledNotAborted, "spoiled-not-aborted", kSimulation,                                      \
    "a lane with a batch that was spoiled is used again, and its transaction was not aborted")   \
  X(kMarkersUncheckedAtFirst, "markers-unchecked-at-first", kSimulation,                         \
    "markers are not checked before the cluster told whether its brokers may lose them")         \
  X(kDeadlineTooLate, "deadline-too-late", kSimulation,                                          \
    "a lane promises more time than the broker gives it")                                        \
  /* the simulated application: what the client libraries must not do */                         \
  X(kEndsUnanswered, "ends-unanswered", kSimulation,                                             \
    "an application ends its own transaction although Commit was not answered (M16)")            \
  X(kUncertainEndIgnored, "uncertain-end-ignored", kSimulation,                                  \
    "an application goes on with its producer although its own EndTxn was not answered (M16)")   \
  X(kProducerKept, "producer-kept", kSimulation,                                                 \
    "an application registers anew, and goes on with the producer that it has (M16)")            \
  /* what reads the bytes of others */                                                           \
  X(kLengthOneTooFar, "length-one-too-far", kFuzzing,                                            \
    "a length in a broker's answer may be one more than what is left")                           \
  X(kOverlapUnseen, "overlap-unseen", kFuzzing, "the batches of a Fetch may overlap")            \
  X(kCompletionOfNobody, "completion-of-nobody", kFuzzing,                                       \
    "a completion may name the participant behind the last")                                     \
  X(kMissingDecisionUnseen, "missing-decision-unseen", kFuzzing,                                 \
    "an open batch's missing decision is not noticed")                                           \
  X(kMistakesOverlooked, "mistakes-overlooked", kFuzzing,                                        \
    "a configuration with mistakes is taken for one without")                                    \
  X(kDurationUnbounded, "duration-unbounded", kFuzzing,                                          \
    "a duration may have a thousand times too many seconds")

namespace lockstep {

enum class PlantedBug : std::uint8_t {
  kNone,
#define LOCKSTEP_X(constant, name, layer, what) constant,
  LOCKSTEP_PLANTED_BUGS(LOCKSTEP_X)
#undef LOCKSTEP_X
};

/// What is run to find bugs, in docs/robustness.md's order.
enum class Layer : std::uint8_t { kModel, kSimulation, kFuzzing, kUnit, kTorture };
std::string_view Name(Layer layer);

struct PlantedBugInfo {
  PlantedBug bug;
  std::string_view name;
  Layer layer;
  std::string_view what;
};

/// All of them, in declaration order; also where none is compiled in.
const std::vector<PlantedBugInfo>& AllPlantedBugs();

#if defined(LOCKSTEP_PLANT) && defined(NDEBUG)
#error "LOCKSTEP_PLANT is for builds with assertions, and never for a release"
#endif

#ifdef LOCKSTEP_PLANT
/// The one in force, kNone nearly always. A name in the environment that is none ends the process.
PlantedBug PlantedBugInForce();
/// Puts another in force. For tests.
void Plant(PlantedBug bug);
inline bool Planted(PlantedBug bug) { return PlantedBugInForce() == bug; }
#else
constexpr PlantedBug PlantedBugInForce() { return PlantedBug::kNone; }
constexpr bool Planted(PlantedBug) { return false; }
#endif

}  // namespace lockstep
