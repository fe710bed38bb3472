#include "driver.h"

#include <stdexcept>
#include <utility>

namespace lockstep::contract {
namespace {

bool AsksForPatience(KafkaError error) {
  return error == KafkaError::kConcurrentTransactions || error == KafkaError::kNotEnoughReplicas;
}

void Expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

const txn::TopicPartition kHeld{"held", 0};
const txn::TopicPartition kFree{"free", 0};

std::string FreshId(const std::string& what) {
  static int count = 0;
  return what + "-" + std::to_string(++count);
}

Driver::Driver(TxnBroker& broker, std::string id, std::int32_t timeout_ms)
    : broker_(broker), id_(std::move(id)), timeout_ms_(timeout_ms) {
  Init();
}

void Driver::Init() {
  ProducerAnswer answer;
  broker_.WaitFor([&] {
    answer = broker_.InitProducerId(id_, timeout_ms_);
    return !AsksForPatience(answer.error);
  });
  Expect(answer.error == KafkaError::kNone, id_ + ": InitProducerId: " + Name(answer.error));
  producer_ = answer.producer;
  next_sequence_.clear();
}

void Driver::Add(const txn::TopicPartition& partition) {
  KafkaError error = KafkaError::kNone;
  broker_.WaitFor([&] {
    error = broker_.AddPartitionsToTxn(id_, producer_, partition);
    return !AsksForPatience(error);
  });
  Expect(error == KafkaError::kNone, id_ + ": AddPartitionsToTxn: " + Name(error));
}

Appended Driver::Produce(const txn::TopicPartition& partition) {
  std::int32_t& sequence = next_sequence_[partition];
  Appended answer;
  broker_.WaitFor([&] {
    answer = broker_.Produce({id_, producer_, partition, sequence, {id_}});
    return !AsksForPatience(answer.error);
  });
  if (answer.error == KafkaError::kNone) ++sequence;
  return answer;
}

void Driver::Write(const txn::TopicPartition& partition) {
  Add(partition);
  const Appended answer = Produce(partition);
  Expect(answer.error == KafkaError::kNone, id_ + ": Produce: " + Name(answer.error));
}

void Driver::End(int version, bool commit) {
  const ProducerAnswer answer = broker_.EndTxn(version, id_, producer_, commit);
  Expect(answer.error == KafkaError::kNone, id_ + ": EndTxn: " + Name(answer.error));
  if (version >= 5 && answer.producer != producer_) {
    producer_ = answer.producer;
    next_sequence_.clear();
  }
}

void Driver::Finish(int version, bool commit) {
  End(version, commit);
  AwaitComplete();
}

void Driver::AwaitComplete() {
  const bool complete = broker_.WaitFor([&] {
    const txn::KafkaTxnState state = Describe().state;
    return state == txn::KafkaTxnState::kCompleteCommit ||
           state == txn::KafkaTxnState::kCompleteAbort;
  });
  Expect(complete, id_ + ": still " + std::string(Name(Describe().state)));
}

}  // namespace lockstep::contract
