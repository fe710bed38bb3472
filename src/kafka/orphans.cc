#include "kafka/orphans.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kafka/lane_id.h"

namespace lockstep::kafka {
namespace {

using coordinator::Orphan;
using coordinator::OrphanListing;
using txn::KafkaTxnState;
using txn::TxnDescription;

constexpr std::size_t kMostDescribed = 1000;

bool IsOpen(KafkaTxnState state) {
  switch (state) {
    case KafkaTxnState::kOngoing:
    case KafkaTxnState::kPrepareCommit:
    case KafkaTxnState::kPrepareAbort:
    case KafkaTxnState::kPrepareEpochFence:
    case KafkaTxnState::kUnknown:
      return true;
    case KafkaTxnState::kEmpty:
    case KafkaTxnState::kCompleteCommit:
    case KafkaTxnState::kCompleteAbort:
    case KafkaTxnState::kDead:
      return false;
  }
  std::abort();
}

// The answers of one ListOrphans. Touched on the wire client's thread only.
struct Descriptions {
  OrphanListing listing;
  std::size_t missing = 0;
  coordinator::Callback<Result<OrphanListing>> done;

  void Take(const TransactionalId& id, const Result<TxnDescription>& answer) {
    if (!answer.ok()) {
      listing.problems.push_back(id.get() + ": " + answer.error().message);
    } else if (answer->exists && IsOpen(answer->state)) {  // Else it ended since it was listed.
      listing.orphans.push_back({id, ParseLaneId(id)->log, *answer});
    }
    if (--missing == 0) Finish();
  }
  void Finish() {
    std::sort(listing.orphans.begin(), listing.orphans.end(),
              [](const auto& a, const auto& b) { return a.transactional_id < b.transactional_id; });
    done(std::move(listing));
  }
};

std::vector<TransactionalId> OthersOpen(const wire::TransactionListing& listing, const LogId& own,
                                        const std::set<TransactionalId>& except) {
  std::vector<TransactionalId> ids;
  for (const wire::ListedTransaction& listed : listing.transactions) {
    const auto lane = ParseLaneId(listed.transactional_id);
    if (lane && lane->log != own && IsOpen(listed.state) &&
        !except.contains(listed.transactional_id)) {
      ids.push_back(listed.transactional_id);
    }
  }
  return ids;
}

/// Under TV1, which lanes speak, the epoch stays; only a time-out or a fence bumps it.
bool IsSame(const TxnDescription& seen, const TxnDescription& now) {
  return now.exists && now.producer_id == seen.producer_id &&
         now.producer_epoch == seen.producer_epoch && now.start_time_ms == seen.start_time_ms;
}

bool EndedAs(const TxnDescription& now, txn::Direction direction) {
  return direction == txn::Direction::kCommit ? now.state == KafkaTxnState::kPrepareCommit ||
                                                    now.state == KafkaTxnState::kCompleteCommit
                                              : now.state == KafkaTxnState::kPrepareAbort ||
                                                    now.state == KafkaTxnState::kCompleteAbort;
}

std::string Shown(const TransactionalId& id, const TxnDescription& now) {
  if (!now.exists) return "the brokers no longer know " + id.get();
  return id.get() + " is " + std::string(Name(now.state)) + ", producer " +
         std::to_string(now.producer_id.get()) + ", epoch " +
         std::to_string(now.producer_epoch.get());
}

/// One EndOrphan: look, end, look again. Touched on the wire client's thread only, once started.
class Ending : public std::enable_shared_from_this<Ending> {
 public:
  Ending(wire::Client& client, Orphan orphan, txn::Direction direction, Duration timeout,
         coordinator::Callback<Result<TxnDescription>> done)
      : client_(client),
        orphan_(std::move(orphan)),
        direction_(direction),
        timeout_(timeout),
        done_(std::move(done)) {}

  void Start() { Describe(&Ending::OnFirst); }

 private:
  void Describe(void (Ending::*then)(const TxnDescription&)) {
    client_.DescribeTransaction(
        orphan_.transactional_id, timeout_,
        [self = shared_from_this(), then](const Result<TxnDescription>& answer) {
          if (answer.ok()) return (self.get()->*then)(*answer);
          Error error = answer.error();
          if (self->sent_) error.effect = Effect::kUnknown;
          self->done_(std::move(error));
        });
  }

  void OnFirst(const TxnDescription& now) {
    const bool same = IsSame(orphan_.description, now);
    if (same && EndedAs(now, direction_)) return done_(now);
    if (!same || now.state != KafkaTxnState::kOngoing) {
      return done_(MakeError(
          Code::kFailedPrecondition,
          "not the open transaction that was named: " + Shown(orphan_.transactional_id, now) +
              "; list the orphans again"));
    }
    sent_ = true;
    client_.EndTxn({orphan_.transactional_id, now.producer_id, now.producer_epoch, direction_,
                    txn::EndTxnProtocol::kTv1},
                   wire::Attempts::kUntilDeadline, timeout_,
                   [self = shared_from_this()](const Result<wire::EndTxnAnswer>& answer) {
                     // As everywhere: the answer is no outcome, a description is.
                     if (!answer.ok()) {
                       self->why_ = answer.error();
                     } else if (answer->error != wire::ErrorCode::kNone) {
                       self->why_ = wire::ToError(answer->error, "EndTxn");
                     }
                     self->Describe(&Ending::OnLast);
                   });
  }

  void OnLast(const TxnDescription& now) {
    const bool same = IsSame(orphan_.description, now);
    if (same && EndedAs(now, direction_)) return done_(now);
    // Refused with no effect, and still as it was: that is the answer. Else nothing is known.
    const bool untouched = same && now.state == KafkaTxnState::kOngoing;
    if (why_ && why_->effect == Effect::kNone && untouched) return done_(*why_);
    done_(MakeError(Code::kUnavailable,
                    "not seen to have ended: " + Shown(orphan_.transactional_id, now) +
                        (why_ ? " (" + why_->message + ")" : ""),
                    Effect::kUnknown));
  }

  wire::Client& client_;
  const Orphan orphan_;
  const txn::Direction direction_;
  const Duration timeout_;
  const coordinator::Callback<Result<TxnDescription>> done_;
  bool sent_ = false;
  std::optional<Error> why_;
};

}  // namespace

void ListOrphans(wire::Client& client, const LogId& own, std::set<TransactionalId> except,
                 Duration timeout, coordinator::Callback<Result<OrphanListing>> done) {
  client.ListTransactions(
      {{}, std::string(kLanePrefix)}, timeout,
      [&client, own, except = std::move(except), timeout,
       done = std::move(done)](const Result<wire::TransactionListing>& listing) {
        if (!listing.ok()) return done(listing.error());
        const auto descriptions = std::make_shared<Descriptions>();
        descriptions->done = done;
        for (const wire::BrokerFailure& failure : listing->failures) {
          descriptions->listing.problems.push_back(failure.error.message);
        }
        std::vector<TransactionalId> ids = OthersOpen(*listing, own, except);
        if (ids.size() > kMostDescribed) {
          descriptions->listing.problems.push_back(
              std::to_string(ids.size() - kMostDescribed) +
              " more are not shown: end some of these, or use Kafka's own tools");
          ids.resize(kMostDescribed);
        }
        descriptions->missing = ids.size();
        if (ids.empty()) return descriptions->Finish();
        for (const TransactionalId& id : ids) {
          client.DescribeTransaction(id, timeout,
                                     [descriptions, id](const Result<TxnDescription>& answer) {
                                       descriptions->Take(id, answer);
                                     });
        }
      });
}

Status CheckOrphanId(const TransactionalId& id, const LogId& own) {
  const auto lane = ParseLaneId(id);
  if (!lane) {
    return MakeError(Code::kInvalidArgument,
                     "'" + id.get().substr(0, 200) + "' is not the transactional.id of a lane");
  }
  if (lane->log != own) return {};
  return MakeError(Code::kInvalidArgument,
                   id.get() + " is a lane of this server's own log, which looks after it itself");
}

void EndOrphan(wire::Client& client, Orphan orphan, txn::Direction direction, Duration timeout,
               coordinator::Callback<Result<TxnDescription>> done) {
  std::make_shared<Ending>(client, std::move(orphan), direction, timeout, std::move(done))->Start();
}

}  // namespace lockstep::kafka
