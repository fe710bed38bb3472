#include "kafka/resolution_calls.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep::kafka {
namespace {

// The answers of one ReadMarkers. Touched on the wire client's thread only.
struct MarkerAnswers {
  std::vector<txn::MarkerFound> found;
  std::size_t missing = 0;
  bool any_marker = false;
  std::optional<Error> error;
  coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done;

  void Take(std::size_t index, const Result<wire::MarkerAnswer>& answer) {
    using Kind = wire::MarkerAnswer::Kind;
    if (!answer.ok()) {
      // "Unknown partition" among them: a broker that has just started says so of those that it
      // does not know yet.
      error = answer.error();
    } else if (answer->kind == Kind::kCommit || answer->kind == Kind::kAbort) {
      any_marker = true;
      found[index] =
          answer->kind == Kind::kCommit ? txn::MarkerFound::kCommit : txn::MarkerFound::kAbort;
    }
    if (--missing > 0) return;
    if (error && !any_marker) return done(std::move(*error));
    done(std::move(found));
  }
};

std::vector<txn::TopicPartition> PartitionsOf(const txn::PreparedParticipant& participant) {
  std::vector<txn::TopicPartition> partitions;
  for (const txn::Evidence& evidence : participant.evidence) {
    partitions.push_back(evidence.partition);
  }
  return partitions;
}

txn::EndTxnAnswer::Kind KindOf(wire::ErrorCode error) {
  using Kind = txn::EndTxnAnswer::Kind;
  switch (error) {
    case wire::ErrorCode::kNone:
      return Kind::kDone;
    case wire::ErrorCode::kInvalidTxnState:
      return Kind::kInvalidState;
    case wire::ErrorCode::kInvalidProducerEpoch:
    case wire::ErrorCode::kProducerFenced:
    case wire::ErrorCode::kInvalidProducerIdMapping:
      return Kind::kFenced;
    default:
      return Kind::kUncertain;
  }
}

}  // namespace

void EndTxn(wire::Client& client, const txn::ParticipantName& name, txn::Direction direction,
            Duration timeout, coordinator::Callback<txn::EndTxnAnswer> done) {
  // Once: whoever resolves asks what became of it before sending another.
  client.EndTxn(
      {name.transactional_id, name.producer_id, name.producer_epoch, direction, name.protocol},
      wire::Attempts::kOnce, timeout,
      [done = std::move(done)](const Result<wire::EndTxnAnswer>& answer) {
        using Kind = txn::EndTxnAnswer::Kind;
        if (!answer.ok()) return done({Kind::kUncertain, {}, {}, answer.error().message});
        const Kind kind = KindOf(answer->error);
        if (kind != Kind::kDone) {
          return done({kind, {}, {}, wire::ToError(answer->error, "EndTxn").message});
        }
        done({kind, answer->identity.producer_id, answer->identity.producer_epoch, {}});
      });
}

void LogEnds(wire::Client& client, std::vector<txn::TopicPartition> partitions, Duration timeout,
             coordinator::Callback<Result<std::vector<txn::Evidence>>> done) {
  client.ListOffsets(
      std::move(partitions), wire::Isolation::kReadUncommitted, timeout,
      [done = std::move(done)](const Result<std::vector<wire::PartitionOffset>>& ends) {
        if (!ends.ok()) return done(ends.error());
        std::vector<txn::Evidence> evidence;
        for (const wire::PartitionOffset& end : *ends) {
          if (!end.offset.ok()) {
            Error error = end.offset.error();
            error.message = ToString(end.partition) + ": " + error.message;
            return done(std::move(error));
          }
          evidence.push_back({end.partition, *end.offset});
        }
        done(std::move(evidence));
      });
}

void ReadMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                 Duration timeout,
                 coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done) {
  const auto answers = std::make_shared<MarkerAnswers>();
  answers->found.assign(participant.evidence.size(), txn::MarkerFound::kNone);
  answers->missing = participant.evidence.size();
  answers->done = std::move(done);
  for (std::size_t i = 0; i < participant.evidence.size(); ++i) {
    const txn::Evidence& evidence = participant.evidence[i];
    client.FindMarker(
        {evidence.partition, evidence.offset, participant.name.producer_id}, timeout,
        [answers, i](const Result<wire::MarkerAnswer>& answer) { answers->Take(i, answer); });
  }
}

// The last stable offset is not asked: strangers' open transactions hold it back, and what moves it
// on need not be a marker of ours.
void CheckMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                  Duration timeout,
                  coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) {
  ReadMarkers(client, participant, timeout,
              [partitions = PartitionsOf(participant),
               done = std::move(done)](const Result<std::vector<txn::MarkerFound>>& found) {
                if (!found.ok()) return done(found.error());
                std::vector<txn::TopicPartition> missing;
                for (std::size_t i = 0; i < found->size(); ++i) {
                  if ((*found)[i] != txn::MarkerFound::kCommit) missing.push_back(partitions[i]);
                }
                done(std::move(missing));
              });
}

void RepairMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                   const std::vector<txn::TopicPartition>& partitions, Duration timeout,
                   coordinator::Callback<Status> done) {
  wire::MarkerWrite write;
  write.producer_id = participant.name.producer_id;
  write.producer_epoch = participant.name.producer_epoch;
  write.direction = txn::Direction::kCommit;
  for (const txn::Evidence& evidence : participant.evidence) {
    const bool wanted = std::count(partitions.begin(), partitions.end(), evidence.partition) > 0;
    if (wanted) write.evidence.push_back(evidence);
  }
  client.WriteTxnMarkers(
      std::move(write), timeout,
      [done = std::move(done)](const Result<std::vector<wire::MarkerWritten>>& written) {
        if (!written.ok()) return done(written.error());
        for (const wire::MarkerWritten& marker : *written) {
          if (marker.status.ok()) continue;
          const Error& error = marker.status.error();
          return done(
              Error{error.code, error.effect, ToString(marker.partition) + ": " + error.message});
        }
        done({});
      });
}

}  // namespace lockstep::kafka
