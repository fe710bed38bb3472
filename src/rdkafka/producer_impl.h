#pragma once

#include <memory>
#include <utility>

#include "rdkafka/instance.h"

namespace lockstep::rdkafka {

/// Keeps the instance from transaction to transaction, and lets it go where it must not be used any
/// more.
class Producer::Impl {
 public:
  explicit Impl(ProducerOptions with) : options(std::move(with)) {}

  /// Registered anew where there is no instance.
  client::Status MakeReady(client::Client& client, const Deadline& deadline);
  /// Makes it a branch of `txn`, and begins.
  client::Status Join(client::Client& client, client::Transaction& txn, const Deadline& deadline);
  /// After an outcome: the producer's own end, unless it must be made anew.
  void Follow(const client::TxnResult& result);
  /// Never used again, and nothing is ended: the next MakeReady makes another one.
  void Discard();

  const ProducerOptions options;
  std::unique_ptr<Instance> instance;
  bool open = false;  ///< In a transaction.
};

}  // namespace lockstep::rdkafka
