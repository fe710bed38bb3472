#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

/// How much happens in one run. X(constant, "name", what)
#define LOCKSTEP_SIM_PROFILES(X)                                                       \
  X(kLong, "long", "several clients, several transactions each")                       \
  X(kShort, "short", "one or two transactions each, and trouble all the likelier")     \
  X(kCrowd, "crowd", "many clients at once, so that their transactions share batches") \
  X(kDisk, "disk", "the short runs, on RocksDB and a disk that loses power")

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
  bool rocksdb = false;      ///< The log is src/log's, on a faulty file system.
  bool forgets = false;      ///< The log forgets what is complete when it is opened.
  Duration longest_pause{};  ///< Of a client between two transactions.
  Duration txn_timeout{};    ///< Kafka's transaction.timeout.ms for the lanes.
  Duration id_expiration{};  ///< Kafka's transactional.id.expiration.ms.
  Duration prepare_timeout{};
  Duration deadline_margin{};
  Duration longest_outage{};
  Duration longest_without_leader{};
};

SimOptions OptionsFor(std::uint64_t seed, Profile profile = Profile::kLong);

}  // namespace lockstep::sim
