#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"
#include "base/result.h"
#include "txn/types.h"

namespace lockstep::coordinator {

/// A transactional.id of a client's own.
struct EnlistedId {
  ClusterName cluster;
  TransactionalId transactional_id;
  friend auto operator<=>(const EnlistedId&, const EnlistedId&) = default;
};
std::string ToString(const EnlistedId& id);  ///< "transactional.id 'a' on cluster 'b'"

// Why one is not enlisted.
/// No such registration; `prefix` is of this start's.
Error NotRegistered(const std::string& registration, const std::string& prefix);
Error Unfinished(const EnlistedId& producer);  ///< Something is held there.
Error HasBranch(const ClusterName& cluster);   ///< In the same transaction.

}  // namespace lockstep::coordinator

template <>
struct std::hash<lockstep::coordinator::EnlistedId> {
  std::size_t operator()(const lockstep::coordinator::EnlistedId& id) const noexcept {
    // Clusters are few.
    return std::hash<lockstep::TransactionalId>()(id.transactional_id) +
           std::hash<lockstep::ClusterName>()(id.cluster);
  }
};

namespace lockstep::coordinator {

/// What is known of clients' own producers: who is registered for which transactional.id, and on
/// which ids something is unfinished. Memory only: a restart voids every registration, and the
/// clients learn it from the incarnation (rule M16). Executor only.
class Enlistments {
 public:
  struct Registration {
    std::string id;
    EnlistedId producer;
    std::string owner;  ///< Whose transactions it may be enlisted in; empty: nobody's.
    txn::EndTxnProtocol protocol = txn::EndTxnProtocol::kTv1;
    /// What the brokers must show of its next transaction. TV1: stays; TV2: moves with each end.
    std::optional<txn::ProducerInstance> bound;
    bool reinit_required = false;  ///< Not enlisted any more: its owner must register anew.
    /// The partition of __consumer_offsets that a group of its was seen to have: for ever.
    std::map<std::string, txn::TopicPartition> group_partitions;
    /// The latest global transaction that it was enlisted in, or is about to be; empty: none since
    /// the end of the one before was durable.
    GlobalTxnId txn;
  };

  /// `prefix` makes a registration's id: one of another prefix is of another start. Above
  /// `max_registrations` those that were used longest ago, and have nothing unfinished, are void.
  Enlistments(std::string prefix, std::size_t max_registrations)
      : prefix_(std::move(prefix)), max_registrations_(max_registrations) {}

  /// Voids the one before of the same id.
  Registration& Register(EnlistedId producer, txn::EndTxnProtocol protocol, std::string owner = {});
  void Void(const EnlistedId& producer);
  /// Null: void, never given by this start, or of another owner. Counts as a use.
  Registration* Find(const std::string& id, std::string_view owner = {});
  Registration* FindProducer(const EnlistedId& producer);

  /// Something is unfinished on the id: what is decided there, or may have to be aborted.
  void Hold(const EnlistedId& producer) { ++held_[producer]; }
  /// It is settled, durably. Runs who waits for the last one.
  void LetGo(const EnlistedId& producer);
  bool held(const EnlistedId& producer) const { return held_.contains(producer); }
  using WaitId = std::uint64_t;
  /// Runs `then` once nothing is held; only while something is.
  WaitId WhenFree(const EnlistedId& producer, std::function<void()> then);
  /// Unknown ones are ignored.
  void StopWaiting(const EnlistedId& producer, WaitId wait);

 private:
  void Evict();

  const std::string prefix_;
  const std::size_t max_registrations_;
  std::uint64_t next_ = 1;
  std::list<Registration> registrations_;  // Used longest ago first.
  std::unordered_map<std::string, std::list<Registration>::iterator> by_id_;
  std::unordered_map<EnlistedId, std::list<Registration>::iterator> by_producer_;
  std::unordered_map<EnlistedId, std::size_t> held_;  // None at 0.
  std::unordered_map<EnlistedId, std::map<WaitId, std::function<void()>>> waits_;
};

}  // namespace lockstep::coordinator
