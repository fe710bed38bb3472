#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

/// Bugs planted on purpose, to show that the simulation notices them. X(constant, "name", what)
#define LOCKSTEP_SIM_DEFECTS(X)                                                                  \
  X(kLogAcksBeforeSync, "log-acks-before-sync", "a decision is called durable before its sync")  \
  X(kLaneReusedEarly, "lane-reused-early",                                                       \
    "a lane is used again before its completion is durable, and start times are not compared")   \
  X(kUncleanLaneReused, "unclean-lane-reused",                                                   \
    "a lane with an unanswered request is used again under the same epoch")                      \
  X(kVoteWhileUnanswered, "vote-while-unanswered",                                               \
    "a lane votes YES although a request of its transaction is unanswered")                      \
  X(kInitBeforeResolve, "init-before-resolve",                                                   \
    "recovery initialises ids whose decision is pending")                                        \
  X(kVoteUnchecked, "vote-unchecked",                                                            \
    "a lane votes without asking the broker, and as if it had time without end")                 \
  X(kVoteUnflushed, "vote-unflushed", "a lane votes before its records are delivered")           \
  X(kMemberLeftOut, "member-left-out",                                                           \
    "a lane votes YES although it did not write the work of one of the batch's members")         \
  X(kPieceLeftOut, "piece-left-out",                                                             \
    "a lane votes YES although it did not write a piece of a streamed transaction")              \
  X(kSpoiledNotAborted, "spoiled-not-aborted",                                                   \
    "a lane with a batch that was spoiled is used again, and its transaction was not aborted")   \
  X(kInitReusesId, "init-reuses-id",                                                             \
    "an id is used on although an InitProducerId of it is unanswered")                           \
  X(kAbortedIdReused, "aborted-id-reused",                                                       \
    "an id is used on after an abort whose markers the broker may have lost (KAFKA-20734)")      \
  X(kMarkersUnchecked, "markers-unchecked",                                                      \
    "markers are taken for written because the coordinator says Complete")                       \
  X(kMarkersUncheckedAtFirst, "markers-unchecked-at-first",                                      \
    "the same, until the cluster has told whether its brokers may lose them")                    \
  X(kDeadlineTooLate, "deadline-too-late", "a lane promises more time than the broker gives it") \
  X(kErrorIsOutcome, "error-is-outcome",                                                         \
    "a lane takes a commit that was not answered for a commit that worked")                      \
  X(kFenceForgotten, "fence-forgotten", "lanes of earlier incarnations are left as they are")    \
  X(kKeysNotRecovered, "keys-not-recovered", "a start does not find the keys of complete ones")  \
  X(kHorizonBelowKeys, "horizon-below-keys",                                                     \
    "the horizon leaves out when the forgotten keys were born")                                  \
  X(kEndsUnanswered, "ends-unanswered",                                                          \
    "an application ends its own transaction although Commit was not answered (M16)")            \
  X(kUncertainEndIgnored, "uncertain-end-ignored",                                               \
    "an application goes on with its producer although its own EndTxn was not answered (M16)")   \
  X(kProducerKept, "producer-kept",                                                              \
    "an application registers anew, and goes on with the producer that it has (M16)")            \
  X(kEpochHidden, "epoch-hidden",                                                                \
    "votes of enlisted participants do not see that the id is another producer's by now (M9)")

enum class Defect : std::uint8_t {
  kNone,
#define LOCKSTEP_X(constant, name, what) constant,
  LOCKSTEP_SIM_DEFECTS(LOCKSTEP_X)
#undef LOCKSTEP_X
};

struct DefectInfo {
  Defect defect;
  std::string_view name;
  std::string_view what;
};
const std::vector<DefectInfo>& AllDefects();

/// How much happens in one run. X(constant, "name", what)
#define LOCKSTEP_SIM_PROFILES(X)                                                   \
  X(kLong, "long", "several clients, several transactions each")                   \
  X(kShort, "short", "one or two transactions each, and trouble all the likelier") \
  X(kCrowd, "crowd", "many clients at once, so that their transactions share batches")

enum class Profile : std::uint8_t {
#define LOCKSTEP_X(constant, name, what) constant,
  LOCKSTEP_SIM_PROFILES(LOCKSTEP_X)
#undef LOCKSTEP_X
};

struct ProfileInfo {
  Profile profile;
  std::string_view name;
  std::string_view what;
};
const std::vector<ProfileInfo>& AllProfiles();

/// How bad the days of one run are. Made from the seed.
struct SimOptions {
  std::uint64_t seed = 1;
  Defect defect = Defect::kNone;

  int clusters = 2;
  int lanes = 2;  ///< Per cluster.
  int clients = 3;
  int txns = 6;        ///< Per client.
  double keyed = 0;    ///< Per transaction: it is run under a key.
  bool crowd = false;  ///< Most transactions touch all clusters, so that they share batches.
  int apps = 0;        ///< Applications with a producer of their own.
  std::int16_t transaction_version = 2;
  std::size_t batch_bytes = 1u << 20;  ///< limits.batch_bytes.

  double crash = 0;               ///< Of lockstepd, per step; some of them are orderly stops.
  double lose_request = 0;        ///< Per request: it never arrives.
  double lose_answer = 0;         ///< Per request: it is carried out, and nobody hears of it.
  double late = 0;                ///< Per request: it arrives long after it was given up.
  double duplicate = 0;           ///< Per request of the wire client: it arrives twice.
  double outage = 0;              ///< Per step: a cluster goes away for a while.
  double outage_at_decision = 0;  ///< Per decision: some cluster goes away as it is written.
  double lose_leader = 0;         ///< Per step: a partition has no leader for a while.
  double slow_vote = 0;           ///< Per YES: it takes up to the transaction's time-out.
  double slow_sync = 0;           ///< Per sync: it takes seconds.
  double failed_sync = 0;         ///< Per sync.
  double foreign = 0;          ///< Per step: somebody else's transaction opens on some partition.
  double delete_records = 0;   ///< Per step: retention takes what is stable in some partition.
  bool loses_markers = false;  ///< KAFKA-20734.
  bool kafka_3 = false;        ///< As brokers before 4.0 have it.
  bool wall_clock_steps = false;
  bool forgets = false;      ///< The log forgets what is complete when it is opened.
  Duration longest_pause{};  ///< Of a client between two transactions.
  Duration txn_timeout{};    ///< Kafka's transaction.timeout.ms for the lanes.
  Duration id_expiration{};  ///< Kafka's transactional.id.expiration.ms.
  Duration prepare_timeout{};
  Duration deadline_margin{};
  Duration longest_outage{};
  Duration longest_without_leader{};
};

SimOptions OptionsFor(std::uint64_t seed, Defect defect, Profile profile = Profile::kLong);

}  // namespace lockstep::sim
