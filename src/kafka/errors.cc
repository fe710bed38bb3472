#include "kafka/errors.h"

#include <optional>

#include "wire/errors.h"

namespace lockstep::kafka {
namespace {

using Reason = txn::AbortReason;

bool RetryMayHelp(Reason reason) {
  return reason == Reason::kClusterUnavailable || reason == Reason::kProducerFenced;
}

ErrorFacts Facts(Code code, Effect effect, Reason reason, Damage damage) {
  return {code, effect, reason, RetryMayHelp(reason), damage};
}

// Newer than the oldest librdkafka that we build with (2.0.2).
constexpr int kLogTruncation = -139;
constexpr int kInvalidDifferentRecord = -138;

// Codes of librdkafka's own: no broker sent them.
std::optional<ErrorFacts> LocalFacts(int error) {
  switch (error) {
    // Sent, or perhaps sent, and not answered.
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__PARTIAL:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__DESTROY:
    case RD_KAFKA_RESP_ERR__ISR_INSUFF:
      return Facts(Code::kUnavailable, Effect::kUnknown, Reason::kClusterUnavailable,
                   Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
      return Facts(Code::kDeadlineExceeded, Effect::kUnknown, Reason::kClusterUnavailable,
                   Damage::kTransaction);
    // Not sent.
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__NODE_UPDATE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR__WAIT_CACHE:
    case RD_KAFKA_RESP_ERR__UNKNOWN_BROKER:
    case RD_KAFKA_RESP_ERR__RETRY:
    case RD_KAFKA_RESP_ERR__INTR:
    case RD_KAFKA_RESP_ERR__OUTDATED:
      return Facts(Code::kUnavailable, Effect::kNone, Reason::kClusterUnavailable,
                   Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return Facts(Code::kResourceExhausted, Effect::kNone, Reason::kClusterUnavailable,
                   Damage::kCall);
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
      return Facts(Code::kNotFound, Effect::kNone, Reason::kUnknownTopic, Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return Facts(Code::kNotFound, Effect::kNone, Reason::kUnknownPartition, Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__UNKNOWN_GROUP:
      return Facts(Code::kNotFound, Effect::kNone, Reason::kGroupFenced, Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
      return Facts(Code::kPermissionDenied, Effect::kNone, Reason::kNotAuthorized,
                   Damage::kProducer);
    case RD_KAFKA_RESP_ERR__FENCED:
      return Facts(Code::kFenced, Effect::kUnknown, Reason::kProducerFenced, Damage::kProducer);
    case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
    case RD_KAFKA_RESP_ERR__KEY_SERIALIZATION:
    case RD_KAFKA_RESP_ERR__VALUE_SERIALIZATION:
    case kInvalidDifferentRecord:
      return Facts(Code::kInvalidArgument, Effect::kNone, Reason::kInvalidRecord,
                   Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
      return Facts(Code::kUnimplemented, Effect::kNone, Reason::kInternal, Damage::kProducer);
    // A message that failed leaves these behind: the cause is told by that message's report.
    case RD_KAFKA_RESP_ERR__INCONSISTENT:
    case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
      return Facts(Code::kAborted, Effect::kUnknown, Reason::kClusterUnavailable,
                   Damage::kTransaction);
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__UNDERFLOW:
      return Facts(Code::kCorrupt, Effect::kUnknown, Reason::kInternal, Damage::kProducer);
    // Ours: a call in the wrong state or with the wrong argument, or nothing a producer meets.
    case RD_KAFKA_RESP_ERR__FAIL:
    case RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE:
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
    case RD_KAFKA_RESP_ERR__FS:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
    case RD_KAFKA_RESP_ERR__IN_PROGRESS:
    case RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR__EXISTING_SUBSCRIPTION:
    case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
    case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
    case RD_KAFKA_RESP_ERR__CONFLICT:
    case RD_KAFKA_RESP_ERR__STATE:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PROTOCOL:
    case RD_KAFKA_RESP_ERR__NO_OFFSET:
    case RD_KAFKA_RESP_ERR__KEY_DESERIALIZATION:
    case RD_KAFKA_RESP_ERR__VALUE_DESERIALIZATION:
    case RD_KAFKA_RESP_ERR__READ_ONLY:
    case RD_KAFKA_RESP_ERR__NOENT:
    case RD_KAFKA_RESP_ERR__INVALID_TYPE:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
    case RD_KAFKA_RESP_ERR__NOT_CONFIGURED:
    case RD_KAFKA_RESP_ERR__APPLICATION:
    case RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST:
    case RD_KAFKA_RESP_ERR__NOOP:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case kLogTruncation:
      return Facts(Code::kInternal, Effect::kUnknown, Reason::kInternal, Damage::kProducer);
    default:
      return std::nullopt;
  }
}

struct Blame {
  Reason reason = Reason::kInternal;
  Damage damage = Damage::kTransaction;
};

// What a broker's code means for the transaction. Kafka's names, as everywhere in src/wire.
Blame BlameOf(wire::ErrorCode error) {
  using enum wire::ErrorCode;
  switch (error) {
    case kMessageTooLarge:
    case kRecordListTooLarge:
      return {Reason::kRecordTooLarge, Damage::kTransaction};
    case kCorruptMessage:
    case kInvalidFetchSize:
    case kOffsetMetadataTooLarge:
    case kInvalidTopicException:
    case kInvalidCommitOffsetSize:
    case kInvalidTimestamp:
    case kPolicyViolation:
    case kUnsupportedCompressionType:
    case kInvalidRecord:
      return {Reason::kInvalidRecord, Damage::kTransaction};
    case kUnsupportedForMessageFormat:
      return {Reason::kInvalidRecord, Damage::kProducer};
    case kUnknownTopicOrPartition:
    case kUnknownTopicId:
      return {Reason::kUnknownTopic, Damage::kTransaction};
    case kTopicAuthorizationFailed:
    case kGroupAuthorizationFailed:
      return {Reason::kNotAuthorized, Damage::kTransaction};
    case kClusterAuthorizationFailed:
    case kTransactionalIdAuthorizationFailed:
    case kUnsupportedSaslMechanism:
    case kIllegalSaslState:
    case kSecurityDisabled:
    case kSaslAuthenticationFailed:
    case kDelegationTokenAuthorizationFailed:
    case kDelegationTokenExpired:
      return {Reason::kNotAuthorized, Damage::kProducer};
    case kIllegalGeneration:
    case kInvalidGroupId:
    case kUnknownMemberId:
    case kRebalanceInProgress:
    case kGroupIdNotFound:
    case kMemberIdRequired:
    case kFencedInstanceId:
    case kFencedMemberEpoch:
    case kUnreleasedInstanceId:
    case kStaleMemberEpoch:
      return {Reason::kGroupFenced, Damage::kTransaction};
    case kOutOfOrderSequenceNumber:
    case kInvalidProducerEpoch:
    case kInvalidTxnState:
    case kInvalidProducerIdMapping:
    case kTransactionCoordinatorFenced:
    case kUnknownProducerId:
    case kProducerFenced:
      return {Reason::kProducerFenced, Damage::kProducer};
    case kInvalidTransactionTimeout:
      return {Reason::kInternal, Damage::kProducer};
    case kOperationNotAttempted:  // The culprit is another partition, which librdkafka does not
                                  // name.
    case kTransactionAbortable:
      return {Reason::kClusterUnavailable, Damage::kTransaction};
    default:
      break;
  }
  const wire::ErrorInfo info = wire::Info(error);
  const bool passing = info.retriable || info.code == Code::kUnavailable;
  return {passing ? Reason::kClusterUnavailable : Reason::kInternal, Damage::kTransaction};
}

bool IsBrokers(rd_kafka_resp_err_t error) { return error >= RD_KAFKA_RESP_ERR_UNKNOWN; }

}  // namespace

ErrorFacts FactsOf(rd_kafka_resp_err_t error) {
  if (!IsBrokers(error)) return LocalFacts(error).value_or(ErrorFacts{});
  if (!IsListed(error)) return {};
  const auto code = static_cast<wire::ErrorCode>(error);
  const wire::ErrorInfo info = wire::Info(code);
  const Blame blame = BlameOf(code);
  return Facts(info.code, info.effect, blame.reason, blame.damage);
}

bool IsListed(rd_kafka_resp_err_t error) {
  if (!IsBrokers(error)) return LocalFacts(error).has_value();
  for (const wire::ErrorInfo& info : wire::AllErrors()) {
    if (static_cast<int>(info.error) == error) return true;
  }
  return false;
}

Error ToError(const Failure& failure) {
  const ErrorFacts facts = FactsOf(failure.code);
  return MakeError(facts.code, failure.message, facts.effect);
}

}  // namespace lockstep::kafka
