#pragma once

#include <map>
#include <string>

#include "txn_broker.h"

namespace lockstep::contract {

/// "held"-0 and "free"-0: see TxnBroker::HoldMarkers.
extern const txn::TopicPartition kHeld;
extern const txn::TopicPartition kFree;

/// A transactional.id never used before in this run.
std::string FreshId(const std::string& what);

/// One producer that does what is expected to work; std::runtime_error, with the answer, if it does
/// not. Answers that only ask for patience are asked again.
class Driver {
 public:
  Driver(TxnBroker& broker, std::string id, std::int32_t timeout_ms = 60'000);

  const std::string& id() const { return id_; }
  const Producer& producer() const { return producer_; }

  void Init();                                             ///< InitProducerId until it succeeds.
  void Add(const txn::TopicPartition& partition);          ///< AddPartitionsToTxn.
  Appended Produce(const txn::TopicPartition& partition);  ///< One record, whatever the answer.
  void Write(const txn::TopicPartition& partition);        ///< Add, and one record.
  void End(int version, bool commit);                      ///< EndTxn; NONE expected.
  void Finish(int version, bool commit);                   ///< End, and wait until it is Complete.
  void AwaitComplete();
  txn::TxnDescription Describe() { return broker_.Describe(id_); }

 private:
  TxnBroker& broker_;
  std::string id_;
  std::int32_t timeout_ms_;
  Producer producer_;
  std::map<txn::TopicPartition, std::int32_t> next_sequence_;
};

}  // namespace lockstep::contract
