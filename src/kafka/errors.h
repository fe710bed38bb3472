#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "txn/types.h"

namespace lockstep::kafka {

/// How much an error spoils.
enum class Damage : std::uint8_t {
  kCall,         ///< This call only.
  kTransaction,  ///< The transaction must be aborted; its producer may go on.
  kProducer,     ///< The producer is of no use any more.
};

/// What one of librdkafka's error codes means to Lockstep.
struct ErrorFacts {
  Code code = Code::kInternal;
  Effect effect = Effect::kUnknown;  ///< Of the request that got this answer, or none.
  txn::AbortReason reason = txn::AbortReason::kInternal;
  bool retriable = false;  ///< The same transaction, begun anew, may well succeed.
  Damage damage = Damage::kProducer;
};

/// Total: a code that neither librdkafka 2.8 nor Kafka 4.4 has gets the careful defaults above.
/// Brokers' codes (from -1 up) take code and effect from the one table of them, wire/errors.h. Not
/// to be asked for RD_KAFKA_RESP_ERR_NO_ERROR.
ErrorFacts FactsOf(rd_kafka_resp_err_t error);

/// Whether the tables name this code: a new librdkafka's new codes are found by a test.
bool IsListed(rd_kafka_resp_err_t error);

/// What a call of librdkafka said when it failed.
struct Failure {
  rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
  bool fatal = false;      ///< The producer says that it is dead.
  bool abortable = false;  ///< The producer says that the transaction must be aborted.
  bool retriable = false;  ///< The call may be made again: it goes on where it was.
  std::string message;
};

Error ToError(const Failure& failure);

}  // namespace lockstep::kafka
