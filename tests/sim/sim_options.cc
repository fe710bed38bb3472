#include "sim_options.h"

#include <algorithm>
#include <chrono>

#include "base/planted.h"
#include "random.h"

namespace lockstep::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<ProfileInfo>& AllProfiles() {
  static const std::vector<ProfileInfo> all = {
#define LOCKSTEP_X(constant, name, what) {Profile::constant, name, what},
      LOCKSTEP_SIM_PROFILES(LOCKSTEP_X)
#undef LOCKSTEP_X
  };
  return all;
}

namespace {

/// Draws after all else, so that the long runs stay what they were.
void Apply(Profile profile, Random& random, SimOptions& o) {
  switch (profile) {
    case Profile::kLong:
      return;
    case Profile::kDisk:
      o.rocksdb = true;
      return Apply(Profile::kShort, random, o);
    case Profile::kShort:
      o.crowd = false;
      o.clients = random.Between(1, 4);
      o.txns = random.Between(1, 2);
      o.crash *= 3;
      o.outage *= 2;
      return;
    case Profile::kCrowd:
      o.crowd = true;
      o.lanes = 1;
      o.clients = random.Between(12, 24);
      o.txns = random.Between(1, 2);
      o.crash /= 3;
      o.longest_pause = milliseconds(1);
      return;
  }
}

}  // namespace

SimOptions OptionsFor(std::uint64_t seed, Profile profile) {
  Random random(seed * 2 + 1);
  SimOptions o;
  o.seed = seed;
  o.clusters = random.Chance(0.8) ? 2 : 3;
  o.lanes = random.Between(1, 3);
  o.clients = random.Between(1, 4);
  o.txns = random.Between(2, 8);
  o.longest_pause = milliseconds(200);
  // Each kind of trouble is absent in some runs, so that each can be met alone.
  const auto sometimes = [&](double often, double most) {
    return random.Chance(often) ? most * static_cast<double>(random.Between(1, 10)) / 10 : 0.0;
  };
  o.crash = sometimes(0.8, 0.004);
  o.lose_request = sometimes(0.5, 0.05);
  o.lose_answer = sometimes(0.6, 0.1);
  o.late = sometimes(0.6, 0.1);
  o.duplicate = sometimes(0.4, 0.3);
  o.outage = sometimes(0.5, 0.004);
  o.lose_leader = sometimes(0.5, 0.02);
  o.slow_sync = sometimes(0.2, 0.2);
  o.failed_sync = sometimes(0.15, 0.02);
  o.foreign = sometimes(0.4, 0.005);
  o.delete_records = sometimes(0.2, 0.01);
  o.loses_markers = random.Chance(0.4);
  o.kafka_3 = random.Chance(0.3);
  o.wall_clock_steps = random.Chance(0.2);
  o.forgets = random.Chance(0.3);
  // In some runs outages are longer than what the brokers wait: then there are heuristic outcomes.
  const bool torn = random.Chance(0.3);
  o.txn_timeout = torn ? seconds(random.Between(12, 20)) : seconds(120);
  o.longest_outage = torn ? seconds(60) : seconds(8);
  o.longest_without_leader = torn ? seconds(20) : seconds(3);
  o.outage_at_decision = torn ? 0.15 : sometimes(0.4, 0.1);
  o.slow_vote = torn ? 0.1 : 0;
  o.prepare_timeout = torn ? seconds(30) : seconds(8);
  // Wide where transactions come near their deadline.
  o.deadline_margin = seconds(torn ? random.Between(4, 10) : random.Between(1, 8));
  // A cluster that loses all markers of a transaction, and then forgets its id before anybody asks,
  // has nothing left that tells what became of it. That is said, but nothing can be expected then.
  const bool expires = random.Chance(0.2) && !o.loses_markers;
  o.id_expiration = expires ? seconds(random.Between(2, 30)) : std::chrono::hours(168);
  o.keyed = sometimes(0.6, 0.8);
  // Where an ABORT marker may be left out, the producer's next COMMIT marker commits what it
  // aborted: our lanes take another producer id then, an application cannot
  // (docs/design/enlisted.md).
  o.apps = random.Chance(0.7) && !o.loses_markers ? random.Between(1, 2) : 0;
  o.transaction_version = o.kafka_3 || random.Chance(0.2) ? 1 : 2;
  o.crowd = random.Chance(0.4);
  if (o.crowd) o.clients = random.Between(8, 16);
  // An application's own EndTxn has to be late, which is rare: not worth a thousand runs.
  if (Planted(PlantedBug::kUncertainEndIgnored)) o.late = std::max(o.late, 0.25);
  Apply(profile, random, o);
  // A record's weight is some 80 bytes: in some worlds all but the smallest are large.
  if (random.Chance(0.3) || Planted(PlantedBug::kPieceLeftOut)) {
    o.batch_bytes = static_cast<std::size_t>(random.Between(1, 6)) * 50;
  }
  return o;
}

}  // namespace lockstep::sim
