#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

/// The EndTxn table of docs/design: what a broker answers to EndTxn(pid, e) in each state. The
/// fake and every real broker are held to this one copy of it.
namespace lockstep::contract {

enum class Answer : std::uint8_t {
  kNone,        ///< NONE: the broker's decision is durable, or was before.
  kNoneBumped,  ///< NONE, and the id is at the next epoch, CompleteAbort: an empty transaction
                ///< ended.
  kCt,          ///< CONCURRENT_TRANSACTIONS.
  kIts,         ///< INVALID_TXN_STATE.
  kFenced,      ///< INVALID_PRODUCER_EPOCH from v0-1, PRODUCER_FENCED from v2 on.
  kMapping,     ///< INVALID_PRODUCER_ID_MAPPING.
};

/// How the id gets into the row's state; (pid, e) is what its first InitProducerId gave.
enum class Setup : std::uint8_t {
  kEmpty,            ///< Nothing else.
  kOngoing,          ///< One record written.
  kPrepareCommitV4,  ///< EndTxn v4; the markers cannot be written.
  kPrepareCommitV5,
  kPrepareAbortV4,
  kPrepareAbortV5,
  kPrepareAbortFence,  ///< An InitProducerId found it Ongoing; the markers cannot be written.
  kCompleteCommitV4,
  kCompleteCommitV5,
  kCompleteAbortV4,
  kCompleteAbortV5,
  kCompleteAbortFence,
  kCompleteAbortTimeout,
  kNextEmpty,     ///< A second InitProducerId.
  kNextOngoing,   ///< A second InitProducerId, one record written under it.
  kLaterCommit,   ///< A third InitProducerId, and a transaction committed under it with v4.
  kOtherPid,      ///< Ongoing, and asked with another producer id.
  kUnknownId,     ///< Asked about a transactional.id that does not exist.
  kNextCommitV4,  ///< A second InitProducerId, and a transaction committed under it with v4.
  kNextAbortV4,
};

struct EndTxnRow {
  std::string_view state;
  Setup setup;
  Answer v4_commit;  ///< Version 0 to 4.
  Answer v4_abort;
  Answer v5_commit;
  Answer v5_abort;
};

inline const std::vector<EndTxnRow>& EndTxnTable() {
  using enum Answer;
  static const std::vector<EndTxnRow> table = {
      {"Ongoing e", Setup::kOngoing, kNone, kNone, kNone, kNone},
      {"PrepareCommit e (v4)", Setup::kPrepareCommitV4, kCt, kCt, kCt, kCt},
      {"PrepareCommit e+1 (v5)", Setup::kPrepareCommitV5, kFenced, kFenced, kCt, kCt},
      {"PrepareAbort e (v4)", Setup::kPrepareAbortV4, kCt, kCt, kCt, kCt},
      {"PrepareAbort e+1 (v5)", Setup::kPrepareAbortV5, kFenced, kFenced, kCt, kCt},
      {"PrepareAbort e+1 (fence)", Setup::kPrepareAbortFence, kFenced, kFenced, kCt, kCt},
      {"CompleteCommit e (v4)", Setup::kCompleteCommitV4, kNone, kIts, kIts, kNoneBumped},
      {"CompleteCommit e+1 (v5)", Setup::kCompleteCommitV5, kFenced, kFenced, kNone, kIts},
      {"CompleteAbort e (v4)", Setup::kCompleteAbortV4, kIts, kNone, kIts, kNoneBumped},
      {"CompleteAbort e+1 (v5)", Setup::kCompleteAbortV5, kFenced, kFenced, kIts, kNone},
      {"CompleteAbort e+1 (fence)", Setup::kCompleteAbortFence, kFenced, kFenced, kIts, kNone},
      {"CompleteAbort e+1 (timeout)", Setup::kCompleteAbortTimeout, kFenced, kFenced, kIts, kNone},
      {"Empty e", Setup::kEmpty, kIts, kIts, kIts, kNoneBumped},
      {"Empty e+1", Setup::kNextEmpty, kFenced, kFenced, kFenced, kFenced},
      {"Ongoing e+1", Setup::kNextOngoing, kFenced, kFenced, kFenced, kFenced},
      {"CompleteCommit e+2", Setup::kLaterCommit, kFenced, kFenced, kFenced, kFenced},
      {"other pid", Setup::kOtherPid, kMapping, kMapping, kMapping, kMapping},
      {"unknown id", Setup::kUnknownId, kMapping, kMapping, kMapping, kMapping},
      // Not in the design's table: v5 takes the next epoch's v4 end for a retry of its own.
      {"CompleteCommit e+1 (v4)", Setup::kNextCommitV4, kFenced, kFenced, kNone, kIts},
      {"CompleteAbort e+1 (v4)", Setup::kNextAbortV4, kFenced, kFenced, kIts, kNone},
  };
  return table;
}

}  // namespace lockstep::contract
