#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "txn/types.h"

/// What became of one decided participant: a pure state machine that asks the broker until it
/// knows. Used after a lane's commit came back uncertain, and for everything recovery finds.
///
/// Under TV1 no answer to EndTxn is an outcome: DescribeTransactions is asked before and after each
/// one, and only what it shows under the participant's full name (producer id, epoch, start time)
/// counts. Under TV2 a name stands for one transaction, and the epoch moves with its end, over the
/// end of a producer id even: there NONE for EndTxn(commit) is the broker's word, and
/// INVALID_TXN_STATE for an aborted id means that it was aborted (rule M15). Where all that proves
/// nothing, the end-of-transaction markers are read.
namespace lockstep::txn {

/// Kafka's states of a transactional.id (TransactionState.java).
enum class KafkaTxnState : std::uint8_t {
  kEmpty,
  kOngoing,
  kPrepareCommit,
  kPrepareAbort,
  kCompleteCommit,
  kCompleteAbort,
  kDead,
  kPrepareEpochFence,
  kUnknown,  ///< A state that this version does not know.
};
std::string_view Name(KafkaTxnState state);

/// DescribeTransactions' answer for one transactional.id.
struct TxnDescription {
  bool exists = false;  ///< False: TRANSACTIONAL_ID_NOT_FOUND. The rest is then empty.
  KafkaTxnState state = KafkaTxnState::kUnknown;
  ProducerId producer_id;
  ProducerEpoch producer_epoch;
  std::int64_t start_time_ms = -1;
  std::int32_t timeout_ms = 0;
  std::vector<TopicPartition> partitions;  ///< Those that the caller may Describe.
};

/// What came back for one EndTxn.
struct EndTxnAnswer {
  enum class Kind : std::uint8_t {
    kDone,          ///< NONE: the broker's decision is durable.
    kInvalidState,  ///< INVALID_TXN_STATE.
    kFenced,        ///< The id is another producer's, of a later epoch, or not known.
    /// Any other answer, or none: it may have been done, be done now, or be done later.
    kUncertain,
  };
  Kind kind = Kind::kUncertain;
  ProducerId producer_id;        ///< kDone: the identity from now on. TV1: as sent.
  ProducerEpoch producer_epoch;  ///< kDone: the same.
  std::string problem;           ///< Not kDone: for people.
};

/// What a description proves about a decided (COMMIT) participant.
enum class Verdict : std::uint8_t {
  kCommitted,
  kAborted,        ///< The broker aborted it: a time-out, a fence, an operator.
  kOngoing,        ///< It is open under our name: EndTxn(commit) may be sent.
  kAskAgain,       ///< The id is between two states, or in one that we do not know.
  kAskByEndTxn,    ///< TV2: EndTxn(commit) tells, and can end nothing but ours.
  kProvesNothing,  ///< The id went on, expired, or shows something else: read the markers.
};
/// `asked` is what the latest EndTxn of this resolution was answered, if one was sent.
Verdict Judge(const ParticipantName& name, const TxnDescription& description,
              std::optional<EndTxnAnswer::Kind> asked = std::nullopt);

/// What the markers of one partition say of our producer id, from the evidence offset on.
enum class MarkerFound : std::uint8_t { kCommit, kAbort, kNone };

/// The markers, all partitions together. A missing marker proves nothing.
ParticipantOutcome JudgeMarkers(const std::vector<MarkerFound>& found);

// ---- The loop -----------------------------------------------------------------------------------

enum class ResolvePhase : std::uint8_t {
  kDescribing,
  kEnding,
  kReadingMarkers,   ///< DescribeTransactions proved nothing.
  kCheckingMarkers,  ///< Committed by the broker's word; are the markers there (KAFKA-20734)?
  kWaiting,          ///< Backing off.
  kConcluded,
};

struct Resolution {
  PreparedParticipant participant;
  bool check_markers = true;  ///< Unless no broker says CompleteCommit without its markers.
  ResolvePhase phase = ResolvePhase::kWaiting;
  ResolvePhase resume = ResolvePhase::kDescribing;  ///< After kWaiting.
  int attempt = 0;                                  ///< Failures and waits in a row, for backoff.
  std::optional<EndTxnAnswer::Kind> asked;          ///< The latest EndTxn's answer, if any.
  ParticipantOutcome outcome = ParticipantOutcome::kPending;
  std::string problem;  ///< Why it is still in doubt, for people; empty while all goes well.
  std::vector<TopicPartition> hanging;  ///< Partitions whose markers are late, or lost.
  std::optional<OperatorOrder> order;   ///< The latest; also set before the start, after a crash.
  bool declared = false;                ///< Concluded by a declaration: no broker proved it.
};

struct Described {
  Result<TxnDescription> answer;
};
struct EndTxnAnswered {
  EndTxnAnswer answer;
};
struct MarkersRead {
  Result<std::vector<MarkerFound>> answer;
};
/// Partitions without a COMMIT marker after the evidence; empty: all have theirs.
struct MarkersChecked {
  Result<std::vector<TopicPartition>> hanging;
};
struct WaitOver {};
/// An operator's order, durable. It takes effect once no answer is on its way, so that nothing is
/// ever asked of a broker beside it. A declaration ends the loop where it would wait; until then
/// brokers are still asked, and what they prove wins. In kWaiting the wait is over with it.
struct OrderGiven {
  OperatorOrder order;
};
using ResolveEvent =
    std::variant<Described, EndTxnAnswered, MarkersRead, MarkersChecked, WaitOver, OrderGiven>;

struct AskDescribe {};
/// EndTxn with the participant's own name and protocol. kCommit, unless an operator said otherwise.
struct SendEndTxn {
  Direction direction = Direction::kCommit;
};
struct ReadMarkers {};
struct CheckMarkers {};
struct Wait {
  Duration duration{};
};
struct Conclude {
  ParticipantOutcome outcome = ParticipantOutcome::kUnknown;
};
using ResolveEffect =
    std::variant<AskDescribe, SendEndTxn, ReadMarkers, CheckMarkers, Wait, Conclude>;

/// Nothing is known: starts by asking the broker.
std::vector<ResolveEffect> StartFromUnknown(Resolution& resolution);
/// The lane's own commit was answered OK: committed by the broker's word. Concludes at once unless
/// the markers must be checked.
std::vector<ResolveEffect> StartFromCommitted(Resolution& resolution);
/// One step. Events that the phase does not expect abort the process.
std::vector<ResolveEffect> Step(Resolution& resolution, const ResolveEvent& event);

}  // namespace lockstep::txn
