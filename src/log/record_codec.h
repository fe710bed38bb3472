#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "coordinator/ports.h"
#include "txn/types.h"

/// The bytes of the decision log's records (proto/lockstep/v1/log.proto). Pure: the simulation's
/// log uses it too.
namespace lockstep::log {

/// The newest record format that this version reads, and the one that it writes.
inline constexpr std::uint32_t kRecordFormat = 1;

struct StoredCompletion {
  coordinator::Completion completion;
  WallTime stored_at;
};

struct Acknowledgement {
  BatchId batch;
  WallTime stored_at;
};

struct Binding {
  ClusterName cluster;
  KafkaClusterId kafka_cluster_id;
};

/// A log that another one was restored from.
struct Origin {
  LogId log_id;
  WallTime taken_at;
  WallTime restored_at;
};

/// Made with the log; never changes.
struct Identity {
  LogId log_id;
  WallTime created_at;
  std::vector<Origin> origins;  ///< The latest last.
};

/// The latest opening for writing.
struct Start {
  Incarnation incarnation;
  WallTime started_at;
  std::string superseded;  ///< Not empty: why the log is refused from now on.
};

/// The log is an older copy: written into the record of its latest start.
struct Superseded {
  std::string why;
};

/// What was forgotten so far; never steps back (rule M19).
struct Forgotten {
  WallTime horizon;
  BatchId through;
};

/// All decisions kept, and their weight: see WeightOf in stored_batch.h.
struct Kept {
  std::uint64_t bytes = 0;
  std::uint64_t decisions = 0;
};

std::string Encode(const txn::Decision& decision);
std::string Encode(const StoredCompletion& completion);
std::string Encode(const Acknowledgement& acknowledgement);
std::string Encode(const Binding& binding);
std::string Encode(const Identity& identity);
std::string Encode(const Start& start);
std::string Encode(const Forgotten& forgotten);
std::string Encode(const Kept& kept);
std::string Encode(const coordinator::StoredOrder& order);
std::string Encode(const txn::Enlistment& enlistment);

/// Reads one record, for each type that Encode takes. RocksDB's checksum tells whether these are
/// the bytes that were written; this tells whether they make sense. `where` names the record in
/// errors. Fails with kCorrupt (unparsable, another kind of record, a value out of range), or with
/// kFailedPrecondition if a newer lockstepd wrote it.
template <typename T>
Result<T> Decode(std::string_view bytes, std::string_view where);

template <>
Result<txn::Decision> Decode(std::string_view bytes, std::string_view where);
template <>
Result<StoredCompletion> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Acknowledgement> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Binding> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Identity> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Start> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Forgotten> Decode(std::string_view bytes, std::string_view where);
template <>
Result<Kept> Decode(std::string_view bytes, std::string_view where);
template <>
Result<coordinator::StoredOrder> Decode(std::string_view bytes, std::string_view where);
template <>
Result<txn::Enlistment> Decode(std::string_view bytes, std::string_view where);

/// Whether a decision may be stored at all: it has members, and each participant is fully named.
/// Fails with kInternal: only a defect makes another one.
Status Validate(const txn::Decision& decision);
/// The same for an enlistment.
Status Validate(const txn::Enlistment& enlistment);

/// Puts what a completion says into its decision. Fails with kCorrupt if it belongs to another
/// batch or names a participant that the decision does not have.
Status Apply(const coordinator::Completion& completion, txn::Decision& decision);
/// The same for an operator's order.
Status Apply(const coordinator::StoredOrder& order, txn::Decision& decision);

}  // namespace lockstep::log
