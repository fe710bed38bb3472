#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::fake_kafka {

/// Kafka's error codes as far as transactions meet them (Errors.java). X(constant, code, name)
#define LOCKSTEP_FAKE_KAFKA_ERRORS(X)                                    \
  X(kUnknownServerError, -1, "UNKNOWN_SERVER_ERROR")                     \
  X(kNone, 0, "NONE")                                                    \
  X(kOffsetOutOfRange, 1, "OFFSET_OUT_OF_RANGE")                         \
  X(kUnknownTopicOrPartition, 3, "UNKNOWN_TOPIC_OR_PARTITION")           \
  X(kNotLeaderOrFollower, 6, "NOT_LEADER_OR_FOLLOWER")                   \
  X(kCoordinatorLoadInProgress, 14, "COORDINATOR_LOAD_IN_PROGRESS")      \
  X(kCoordinatorNotAvailable, 15, "COORDINATOR_NOT_AVAILABLE")           \
  X(kNotCoordinator, 16, "NOT_COORDINATOR")                              \
  X(kNotEnoughReplicas, 19, "NOT_ENOUGH_REPLICAS")                       \
  X(kIllegalGeneration, 22, "ILLEGAL_GENERATION")                        \
  X(kUnknownMemberId, 25, "UNKNOWN_MEMBER_ID")                           \
  X(kInvalidRequest, 42, "INVALID_REQUEST")                              \
  X(kOutOfOrderSequenceNumber, 45, "OUT_OF_ORDER_SEQUENCE_NUMBER")       \
  X(kInvalidProducerEpoch, 47, "INVALID_PRODUCER_EPOCH")                 \
  X(kInvalidTxnState, 48, "INVALID_TXN_STATE")                           \
  X(kInvalidProducerIdMapping, 49, "INVALID_PRODUCER_ID_MAPPING")        \
  X(kInvalidTransactionTimeout, 50, "INVALID_TRANSACTION_TIMEOUT")       \
  X(kConcurrentTransactions, 51, "CONCURRENT_TRANSACTIONS")              \
  X(kTransactionCoordinatorFenced, 52, "TRANSACTION_COORDINATOR_FENCED") \
  X(kProducerFenced, 90, "PRODUCER_FENCED")                              \
  X(kTransactionalIdNotFound, 105, "TRANSACTIONAL_ID_NOT_FOUND")         \
  X(kTransactionAbortable, 120, "TRANSACTION_ABORTABLE")

enum class KafkaError : std::int16_t {
#define LOCKSTEP_X(constant, code, name) constant = code,
  LOCKSTEP_FAKE_KAFKA_ERRORS(LOCKSTEP_X)
#undef LOCKSTEP_X
};

/// Kafka's own name for it; "error N" for a code that is not in the list.
std::string Name(KafkaError error);

}  // namespace lockstep::fake_kafka
