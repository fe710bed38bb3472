#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "coordinator/ports.h"
#include "log/record_codec.h"
#include "random.h"
#include "sim_options.h"

namespace lockstep::sim {

/// Where the decision log's records stand: all lives of lockstepd have one after the other. What is
/// written survives the end of the process, and the loss of power once it was synced.
class SimDisk {
 public:
  struct Acknowledged {
    BatchId batch;
  };
  struct EndedEnlistment {
    ClusterName cluster;
    TransactionalId id;
  };
  using Record =
      std::variant<txn::Decision, coordinator::Completion, Acknowledged, coordinator::StoredOrder,
                   log::Binding, txn::Enlistment, EndedEnlistment>;
  virtual ~SimDisk() = default;

  /// A life begins: reads what is there, and stores this start, durably. Throws if it cannot be
  /// read, which no crash may cause.
  virtual void Open() = 0;
  virtual const coordinator::RecoveredLog& recovered() const = 0;

  /// The next record. Nothing of it is to be found before it is durable.
  virtual void Write(Record record) = 0;
  /// How many were written in this life.
  virtual std::uint64_t written() const = 0;
  /// The first so many of this life are durable then. False: the disk failed, and nobody may write
  /// to it in this life any more.
  virtual bool Sync(std::uint64_t through) = 0;
  /// Why this record of this life, the first being 1, was not taken: it contradicts what is stored.
  /// Once a Sync covers it.
  virtual std::optional<Error> Refused(std::uint64_t record) const = 0;

  // What is durable: see DecisionLog.
  virtual std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const = 0;
  virtual std::optional<txn::Decision> Find(const GlobalTxnId& txn) const = 0;
  virtual std::optional<txn::Decision> FindKey(const std::string& key) const = 0;
  virtual WallTime Horizon() const = 0;

  // A life has ended:
  /// orderly.
  virtual void Close() = 0;
  /// and the power went: of what was not synced any part is left, also half a record.
  virtual void Crash() = 0;

  /// From now on nothing fails but by Crash.
  virtual void CalmDown() = 0;
};

/// One file of framed records, in memory: quick. `clock` and `random` outlive it.
std::unique_ptr<SimDisk> MakeMemoryDisk(const SimOptions& options, const coordinator::Clock& clock,
                                        Random& random);
/// The store of src/log on RocksDB, on a file system that knows what a loss of power leaves, in a
/// folder of its own that goes with it.
std::unique_ptr<SimDisk> MakeRocksDisk(const SimOptions& options, const coordinator::Clock& clock,
                                       Random& random);

}  // namespace lockstep::sim
