#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

namespace lockstep {

/// A string or number that must not be mistaken for another one. Tag only tells types apart.
template <typename Tag, typename T>
class StrongId {
 public:
  StrongId() = default;
  explicit StrongId(T value) : value_(std::move(value)) {}

  const T& get() const { return value_; }
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) { return out << +id; }

 private:
  friend const std::string& operator+(const StrongId& id) requires std::same_as<T, std::string> {
    return id.value_;
  }
  friend auto operator+(const StrongId& id) requires(!std::same_as<T, std::string>) {
    return +id.value_;
  }

  T value_{};
};

/// The name a cluster has in our configuration.
using ClusterName = StrongId<struct ClusterNameTag, std::string>;
/// The cluster.id that Kafka gave the cluster when it was formatted.
using KafkaClusterId = StrongId<struct KafkaClusterIdTag, std::string>;
/// Kafka's transactional.id.
using TransactionalId = StrongId<struct TransactionalIdTag, std::string>;
/// What a client begins and commits: opaque to it.
using GlobalTxnId = StrongId<struct GlobalTxnIdTag, std::string>;
/// Random name of a decision log, made with it: 16 lower-case hex digits.
using LogId = StrongId<struct LogIdTag, std::string>;

using ProducerId = StrongId<struct ProducerIdTag, std::int64_t>;
using ProducerEpoch = StrongId<struct ProducerEpochTag, std::int16_t>;
/// Number of a batch within its decision log; never given twice.
using BatchId = StrongId<struct BatchIdTag, std::uint64_t>;
/// Counts the starts of lockstepd on one decision log, from 1.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;

}  // namespace lockstep

template <typename Tag, typename T>
struct std::hash<lockstep::StrongId<Tag, T>> {
  std::size_t operator()(const lockstep::StrongId<Tag, T>& id) const {
    return std::hash<T>{}(id.get());
  }
};
