#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Kafka's error codes, in one table: how each one is called, whether Kafka's own clients retry it,
/// what an answer with it says about the request's effect, and which Code it becomes.
///
/// kUnknown as effect: the broker may have done it all the same, or may be doing it (a coordinator
/// that lost its partition between append and acknowledgement answers NOT_COORDINATOR).
/// Source: org.apache.kafka.common.protocol.Errors of 4.4.0.
///
/// X(constant, number, retriable, effect, code)
#define LOCKSTEP_KAFKA_ERRORS(X)                                                      \
  X(kUnknownServerError, -1, kFinal, kUnknown, kUnavailable)                          \
  X(kOffsetOutOfRange, 1, kFinal, kNone, kNotFound)                                   \
  X(kCorruptMessage, 2, kRetry, kNone, kCorrupt)                                      \
  X(kUnknownTopicOrPartition, 3, kRetry, kNone, kNotFound)                            \
  X(kInvalidFetchSize, 4, kFinal, kNone, kInvalidArgument)                            \
  X(kLeaderNotAvailable, 5, kRetry, kNone, kUnavailable)                              \
  X(kNotLeaderOrFollower, 6, kRetry, kUnknown, kUnavailable)                          \
  X(kRequestTimedOut, 7, kRetry, kUnknown, kDeadlineExceeded)                         \
  X(kBrokerNotAvailable, 8, kFinal, kNone, kUnavailable)                              \
  X(kReplicaNotAvailable, 9, kRetry, kNone, kUnavailable)                             \
  X(kMessageTooLarge, 10, kFinal, kNone, kInvalidArgument)                            \
  X(kStaleControllerEpoch, 11, kFinal, kNone, kUnavailable)                           \
  X(kOffsetMetadataTooLarge, 12, kFinal, kNone, kInvalidArgument)                     \
  X(kNetworkException, 13, kRetry, kUnknown, kUnavailable)                            \
  X(kCoordinatorLoadInProgress, 14, kRetry, kNone, kUnavailable)                      \
  X(kCoordinatorNotAvailable, 15, kRetry, kUnknown, kUnavailable)                     \
  X(kNotCoordinator, 16, kRetry, kUnknown, kUnavailable)                              \
  X(kInvalidTopicException, 17, kFinal, kNone, kInvalidArgument)                      \
  X(kRecordListTooLarge, 18, kFinal, kNone, kInvalidArgument)                         \
  X(kNotEnoughReplicas, 19, kRetry, kNone, kUnavailable)                              \
  X(kNotEnoughReplicasAfterAppend, 20, kRetry, kUnknown, kUnavailable)                \
  X(kInvalidRequiredAcks, 21, kFinal, kNone, kInvalidArgument)                        \
  X(kIllegalGeneration, 22, kFinal, kNone, kFenced)                                   \
  X(kInconsistentGroupProtocol, 23, kFinal, kNone, kFailedPrecondition)               \
  X(kInvalidGroupId, 24, kFinal, kNone, kInvalidArgument)                             \
  X(kUnknownMemberId, 25, kFinal, kNone, kFenced)                                     \
  X(kInvalidSessionTimeout, 26, kFinal, kNone, kInvalidArgument)                      \
  X(kRebalanceInProgress, 27, kFinal, kNone, kAborted)                                \
  X(kInvalidCommitOffsetSize, 28, kFinal, kNone, kInvalidArgument)                    \
  X(kTopicAuthorizationFailed, 29, kFinal, kNone, kPermissionDenied)                  \
  X(kGroupAuthorizationFailed, 30, kFinal, kNone, kPermissionDenied)                  \
  X(kClusterAuthorizationFailed, 31, kFinal, kNone, kPermissionDenied)                \
  X(kInvalidTimestamp, 32, kFinal, kNone, kInvalidArgument)                           \
  X(kUnsupportedSaslMechanism, 33, kFinal, kNone, kUnimplemented)                     \
  X(kIllegalSaslState, 34, kFinal, kNone, kFailedPrecondition)                        \
  X(kUnsupportedVersion, 35, kFinal, kNone, kUnimplemented)                           \
  X(kTopicAlreadyExists, 36, kFinal, kNone, kFailedPrecondition)                      \
  X(kInvalidPartitions, 37, kFinal, kNone, kInvalidArgument)                          \
  X(kInvalidReplicationFactor, 38, kFinal, kNone, kInvalidArgument)                   \
  X(kInvalidReplicaAssignment, 39, kFinal, kNone, kInvalidArgument)                   \
  X(kInvalidConfig, 40, kFinal, kNone, kInvalidArgument)                              \
  X(kNotController, 41, kRetry, kNone, kUnavailable)                                  \
  X(kInvalidRequest, 42, kFinal, kNone, kInvalidArgument)                             \
  X(kUnsupportedForMessageFormat, 43, kFinal, kNone, kUnimplemented)                  \
  X(kPolicyViolation, 44, kFinal, kNone, kFailedPrecondition)                         \
  X(kOutOfOrderSequenceNumber, 45, kFinal, kNone, kFailedPrecondition)                \
  X(kDuplicateSequenceNumber, 46, kFinal, kUnknown, kAborted)                         \
  X(kInvalidProducerEpoch, 47, kFinal, kNone, kFenced)                                \
  X(kInvalidTxnState, 48, kFinal, kNone, kFailedPrecondition)                         \
  X(kInvalidProducerIdMapping, 49, kFinal, kNone, kFenced)                            \
  X(kInvalidTransactionTimeout, 50, kFinal, kNone, kInvalidArgument)                  \
  X(kConcurrentTransactions, 51, kRetry, kUnknown, kUnavailable)                      \
  X(kTransactionCoordinatorFenced, 52, kFinal, kNone, kFenced)                        \
  X(kTransactionalIdAuthorizationFailed, 53, kFinal, kNone, kPermissionDenied)        \
  X(kSecurityDisabled, 54, kFinal, kNone, kUnimplemented)                             \
  X(kOperationNotAttempted, 55, kFinal, kNone, kFailedPrecondition)                   \
  X(kKafkaStorageError, 56, kRetry, kUnknown, kUnavailable)                           \
  X(kLogDirNotFound, 57, kFinal, kNone, kNotFound)                                    \
  X(kSaslAuthenticationFailed, 58, kFinal, kNone, kPermissionDenied)                  \
  X(kUnknownProducerId, 59, kFinal, kNone, kNotFound)                                 \
  X(kReassignmentInProgress, 60, kFinal, kNone, kFailedPrecondition)                  \
  X(kDelegationTokenAuthDisabled, 61, kFinal, kNone, kUnimplemented)                  \
  X(kDelegationTokenNotFound, 62, kFinal, kNone, kNotFound)                           \
  X(kDelegationTokenOwnerMismatch, 63, kFinal, kNone, kPermissionDenied)              \
  X(kDelegationTokenRequestNotAllowed, 64, kFinal, kNone, kPermissionDenied)          \
  X(kDelegationTokenAuthorizationFailed, 65, kFinal, kNone, kPermissionDenied)        \
  X(kDelegationTokenExpired, 66, kFinal, kNone, kPermissionDenied)                    \
  X(kInvalidPrincipalType, 67, kFinal, kNone, kInvalidArgument)                       \
  X(kNonEmptyGroup, 68, kFinal, kNone, kFailedPrecondition)                           \
  X(kGroupIdNotFound, 69, kFinal, kNone, kNotFound)                                   \
  X(kFetchSessionIdNotFound, 70, kRetry, kNone, kUnavailable)                         \
  X(kInvalidFetchSessionEpoch, 71, kRetry, kNone, kUnavailable)                       \
  X(kListenerNotFound, 72, kRetry, kNone, kNotFound)                                  \
  X(kTopicDeletionDisabled, 73, kFinal, kNone, kUnimplemented)                        \
  X(kFencedLeaderEpoch, 74, kRetry, kNone, kUnavailable)                              \
  X(kUnknownLeaderEpoch, 75, kRetry, kNone, kUnavailable)                             \
  X(kUnsupportedCompressionType, 76, kFinal, kNone, kUnimplemented)                   \
  X(kStaleBrokerEpoch, 77, kFinal, kNone, kUnavailable)                               \
  X(kOffsetNotAvailable, 78, kRetry, kNone, kUnavailable)                             \
  X(kMemberIdRequired, 79, kFinal, kNone, kFailedPrecondition)                        \
  X(kPreferredLeaderNotAvailable, 80, kRetry, kNone, kUnavailable)                    \
  X(kGroupMaxSizeReached, 81, kFinal, kNone, kResourceExhausted)                      \
  X(kFencedInstanceId, 82, kFinal, kNone, kFenced)                                    \
  X(kEligibleLeadersNotAvailable, 83, kRetry, kNone, kUnavailable)                    \
  X(kElectionNotNeeded, 84, kRetry, kNone, kUnavailable)                              \
  X(kNoReassignmentInProgress, 85, kFinal, kNone, kFailedPrecondition)                \
  X(kGroupSubscribedToTopic, 86, kFinal, kNone, kFailedPrecondition)                  \
  X(kInvalidRecord, 87, kFinal, kNone, kInvalidArgument)                              \
  X(kUnstableOffsetCommit, 88, kRetry, kNone, kUnavailable)                           \
  X(kThrottlingQuotaExceeded, 89, kRetry, kNone, kResourceExhausted)                  \
  X(kProducerFenced, 90, kFinal, kNone, kFenced)                                      \
  X(kResourceNotFound, 91, kFinal, kNone, kNotFound)                                  \
  X(kDuplicateResource, 92, kFinal, kNone, kInvalidArgument)                          \
  X(kUnacceptableCredential, 93, kFinal, kNone, kInvalidArgument)                     \
  X(kInconsistentVoterSet, 94, kFinal, kNone, kFailedPrecondition)                    \
  X(kInvalidUpdateVersion, 95, kFinal, kNone, kInvalidArgument)                       \
  X(kFeatureUpdateFailed, 96, kFinal, kNone, kFailedPrecondition)                     \
  X(kPrincipalDeserializationFailure, 97, kFinal, kNone, kFailedPrecondition)         \
  X(kSnapshotNotFound, 98, kFinal, kNone, kNotFound)                                  \
  X(kPositionOutOfRange, 99, kFinal, kNone, kInvalidArgument)                         \
  X(kUnknownTopicId, 100, kRetry, kNone, kNotFound)                                   \
  X(kDuplicateBrokerRegistration, 101, kFinal, kNone, kFailedPrecondition)            \
  X(kBrokerIdNotRegistered, 102, kFinal, kNone, kUnavailable)                         \
  X(kInconsistentTopicId, 103, kRetry, kNone, kUnavailable)                           \
  X(kInconsistentClusterId, 104, kFinal, kNone, kFailedPrecondition)                  \
  X(kTransactionalIdNotFound, 105, kFinal, kNone, kNotFound)                          \
  X(kFetchSessionTopicIdError, 106, kRetry, kNone, kUnavailable)                      \
  X(kIneligibleReplica, 107, kFinal, kNone, kFailedPrecondition)                      \
  X(kNewLeaderElected, 108, kFinal, kUnknown, kUnavailable)                           \
  X(kOffsetMovedToTieredStorage, 109, kFinal, kNone, kNotFound)                       \
  X(kFencedMemberEpoch, 110, kFinal, kNone, kFenced)                                  \
  X(kUnreleasedInstanceId, 111, kFinal, kNone, kFenced)                               \
  X(kUnsupportedAssignor, 112, kFinal, kNone, kUnimplemented)                         \
  X(kStaleMemberEpoch, 113, kFinal, kNone, kFenced)                                   \
  X(kMismatchedEndpointType, 114, kFinal, kNone, kFailedPrecondition)                 \
  X(kUnsupportedEndpointType, 115, kFinal, kNone, kUnimplemented)                     \
  X(kUnknownControllerId, 116, kFinal, kNone, kNotFound)                              \
  X(kUnknownSubscriptionId, 117, kFinal, kNone, kNotFound)                            \
  X(kTelemetryTooLarge, 118, kFinal, kNone, kInvalidArgument)                         \
  X(kInvalidRegistration, 119, kFinal, kNone, kInvalidArgument)                       \
  X(kTransactionAbortable, 120, kFinal, kNone, kAborted)                              \
  X(kInvalidRecordState, 121, kFinal, kNone, kFailedPrecondition)                     \
  X(kShareSessionNotFound, 122, kRetry, kNone, kUnavailable)                          \
  X(kInvalidShareSessionEpoch, 123, kRetry, kNone, kUnavailable)                      \
  X(kFencedStateEpoch, 124, kFinal, kNone, kFenced)                                   \
  X(kInvalidVoterKey, 125, kFinal, kNone, kInvalidArgument)                           \
  X(kDuplicateVoter, 126, kFinal, kNone, kFailedPrecondition)                         \
  X(kVoterNotFound, 127, kFinal, kNone, kNotFound)                                    \
  X(kInvalidRegularExpression, 128, kFinal, kNone, kInvalidArgument)                  \
  X(kRebootstrapRequired, 129, kFinal, kNone, kUnavailable)                           \
  X(kStreamsInvalidTopology, 130, kFinal, kNone, kInvalidArgument)                    \
  X(kStreamsInvalidTopologyEpoch, 131, kFinal, kNone, kFailedPrecondition)            \
  X(kStreamsTopologyFenced, 132, kFinal, kNone, kFenced)                              \
  X(kShareSessionLimitReached, 133, kRetry, kNone, kResourceExhausted)                \
  X(kGroupDeletionFailed, 134, kFinal, kNone, kFailedPrecondition)                    \
  X(kStreamsTopologyDescriptionUpdateFailed, 135, kFinal, kNone, kFailedPrecondition) \
  X(kControllerIdNotRegistered, 136, kFinal, kNone, kUnavailable)

namespace lockstep::wire {

/// Any value may arrive: a newer broker may know more.
enum class ErrorCode : std::int16_t {
  kNone = 0,
#define LOCKSTEP_X(constant, number, retriable, effect, code) constant = number,
  LOCKSTEP_KAFKA_ERRORS(LOCKSTEP_X)
#undef LOCKSTEP_X
};

struct ErrorInfo {
  ErrorCode error = ErrorCode::kNone;
  bool retriable = false;
  Effect effect = Effect::kUnknown;
  Code code = Code::kInternal;
};

/// What is known of an error code. One that this version does not know: final, effect Unknown,
/// kUnimplemented. Not to be asked for kNone.
ErrorInfo Info(ErrorCode error);

/// Kafka's name, "NOT_COORDINATOR"; "NONE"; "ERROR_1234" for one that this version does not know.
std::string Name(ErrorCode error);

/// All of the table, kNone left out.
const std::vector<ErrorInfo>& AllErrors();

/// The Error for a broker's answer: "WHAT: NOT_COORDINATOR (16)" and the broker's own message if it
/// gave one.
Error ToError(ErrorCode error, std::string_view what, std::string_view broker_message = {});

}  // namespace lockstep::wire
