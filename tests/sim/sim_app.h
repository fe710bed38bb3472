#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "fake_kafka/fake_kafka.h"
#include "scheduler.h"

namespace lockstep::sim {

class World;
class SimBroker;

/// An application with a transactional producer of its own, which it enlists: it keeps the rules of
/// docs/design/enlisted.md, as the SDKs do. Its instances die, and are followed at once by another
/// one of the same transactional.id, which now and then meets one that lives on.
///
/// Its writes are not sent again: a write without an answer may arrive at any time, and what that
/// does to a TV1 producer is beyond anybody's rules (docs/design/model.md, LATE_WRITES).
class SimApp {
 public:
  SimApp(World& world, int number);
  ~SimApp();

  void Start();
  /// Begins nothing any more.
  void Stop() { stopped_ = true; }
  /// Every instance that lives has ended what it began.
  bool done() const;

 private:
  class Instance;
  /// One that registers, and so voids what was there before.
  void StartInstance();

  World& world_;
  const std::string id_;  // transactional.id.
  SimBroker& broker_;
  const txn::EndTxnProtocol protocol_;
  const bool careless_;  // Overlooks reinit_required, until Enlist is FENCED for it.
  bool stopped_ = false;
  int txns_left_;
  int tags_ = 0;
  std::vector<std::shared_ptr<Instance>> instances_;
  const Instance* registered_ = nullptr;  // The last one that did.
};

}  // namespace lockstep::sim
