#include "rdkafka/failure.h"

#include <memory>

namespace lockstep::rdkafka {
namespace {

client::Code CodeOf(rd_kafka_resp_err_t code) {
  switch (code) {
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
      return client::Code::kFenced;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return client::Code::kDeadlineExceeded;
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return client::Code::kInvalidArgument;
    case RD_KAFKA_RESP_ERR__STATE:
      return client::Code::kWrongState;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return client::Code::kPermissionDenied;
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
      return client::Code::kUnsupported;
    default:
      return client::Code::kUnavailable;
  }
}

// Nothing that these calls do takes effect without the global transaction's commit.
client::Error ErrorOf(rd_kafka_resp_err_t code, std::string message) {
  return {.code = CodeOf(code), .effect = client::Effect::kNone, .message = std::move(message)};
}

}  // namespace

client::Error Failed(const std::string& what, rd_kafka_resp_err_t code) {
  return ErrorOf(code, what + ": " + rd_kafka_err2str(code));
}

client::Error Failed(const std::string& what, rd_kafka_error_t* error) {
  const std::unique_ptr<rd_kafka_error_t, decltype(&rd_kafka_error_destroy)> owned(
      error, rd_kafka_error_destroy);
  return ErrorOf(rd_kafka_error_code(error), what + ": " + rd_kafka_error_string(error));
}

}  // namespace lockstep::rdkafka
