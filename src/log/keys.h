#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

/// Where each record stands in the database. One ordered key space; the first byte tells the kind;
/// numbers are big endian, so that batches are in their order and all of a batch stands together.
///
///     'd' batch(8)                       the decision
///     'd' batch(8) 'a'                   its acknowledgement by an operator
///     'd' batch(8) 'c' participant(4)    the completion of one participant
///     'd' batch(8) 'o' participant(4)    the latest order of an operator about one participant
///     'e' client's key                   batch(8), the batch one of whose members ran under it
///     'k' cluster name                   the Kafka cluster bound to that name
///     'm' "identity" | "start" | "forgotten" | "kept"
///     'o' batch(8)                       empty; there while the batch is open: a participant is
///                                        pending, or it is heuristic and not acknowledged
///     'p' length(4) cluster name, transactional.id
///                                        the enlistment of a client's own producer
///     't' transaction id                 batch(8), the batch whose member it is
namespace lockstep::log::keys {

inline constexpr std::string_view kIdentity = "midentity";
inline constexpr std::string_view kStart = "mstart";
inline constexpr std::string_view kForgotten = "mforgotten";
inline constexpr std::string_view kKept = "mkept";

inline constexpr std::string_view kDecisions = "d";
inline constexpr std::string_view kBindings = "k";
inline constexpr std::string_view kClientKeys = "e";
inline constexpr std::string_view kOpen = "o";
inline constexpr std::string_view kEnlistments = "p";
inline constexpr std::string_view kTxns = "t";

std::string Decision(BatchId batch);
std::string Acknowledgement(BatchId batch);
std::string Completion(BatchId batch, std::uint32_t participant);
std::string Order(BatchId batch, std::uint32_t participant);
std::string Binding(const ClusterName& cluster);
std::string Open(BatchId batch);
std::string Enlistment(const ClusterName& cluster, const TransactionalId& id);
std::string Txn(const GlobalTxnId& txn);
std::string ClientKey(std::string_view key);

/// What an index entry under Txn or ClientKey holds.
std::string BatchValue(BatchId batch);
std::optional<BatchId> ParseBatchValue(std::string_view value);

/// The batch of a key below kDecisions or kOpen. None: no such key.
std::optional<BatchId> BatchOf(std::string_view key);
/// The participant of a completion's or an order's key. None: no such key.
std::optional<std::uint32_t> ParticipantOf(std::string_view key);
bool IsOrder(std::string_view key);
bool IsDecision(std::string_view key);
bool IsAcknowledgement(std::string_view key);

/// The key in words, for errors: "completion of participant 1 of batch 7".
std::string Describe(std::string_view key);

}  // namespace lockstep::log::keys
