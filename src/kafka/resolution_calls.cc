#include "kafka/resolution_calls.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep::kafka {
namespace {

using MarkerKind = wire::MarkerAnswer::Kind;

/// The questions of one call. Touched on the wire client's thread only.
struct MarkerQuestions {
  MarkerAnswers answers;
  std::size_t open = 0;
  std::function<void(const MarkerAnswers&)> done;
};

void AskForMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                   Duration timeout, std::function<void(const MarkerAnswers&)> done) {
  const auto questions = std::make_shared<MarkerQuestions>();
  questions->open = participant.evidence.size();
  questions->answers.resize(participant.evidence.size(), wire::MarkerAnswer());
  questions->done = std::move(done);
  for (std::size_t i = 0; i < participant.evidence.size(); ++i) {
    const txn::Evidence& evidence = participant.evidence[i];
    client.FindMarker({evidence.partition, evidence.offset, participant.name.producer_id}, timeout,
                      [questions, i](const Result<wire::MarkerAnswer>& answer) {
                        questions->answers[i] = answer;
                        if (--questions->open == 0) questions->done(questions->answers);
                      });
  }
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

// "Unknown partition" is an error, too: a broker that has just started says so of those that it
// does not know yet.
Result<std::vector<txn::MarkerFound>> MarkersFound(const MarkerAnswers& answers) {
  std::vector<txn::MarkerFound> found;
  const Error* error = nullptr;
  bool any = false;
  for (const auto& answer : answers) {
    found.push_back(txn::MarkerFound::kNone);
    if (!answer.ok()) {
      error = &answer.error();
    } else if (answer->kind == MarkerKind::kCommit || answer->kind == MarkerKind::kAbort) {
      any = true;
      found.back() = answer->kind == MarkerKind::kCommit ? txn::MarkerFound::kCommit
                                                         : txn::MarkerFound::kAbort;
    }
  }
  if (error != nullptr && !any) return *error;
  return found;
}

Result<std::vector<txn::TopicPartition>> MarkersMissing(const std::vector<txn::Evidence>& evidence,
                                                        const MarkerAnswers& answers) {
  std::vector<txn::TopicPartition> missing;
  std::optional<Error> not_asked;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) {
      const Error& error = answers[i].error();
      not_asked = Error{error.code, error.effect,
                        "whether a COMMIT marker stands on " + ToString(evidence[i].partition) +
                            " could not be asked: " + error.message};
    } else if (answers[i]->kind != MarkerKind::kCommit) {
      missing.push_back(evidence[i].partition);
    }
  }
  if (missing.empty() && not_asked) return *std::move(not_asked);
  return missing;
}

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
  AskForMarkers(
      client, participant, timeout,
      [done = std::move(done)](const MarkerAnswers& answers) { done(MarkersFound(answers)); });
}

// The last stable offset is not asked: strangers' open transactions hold it back, and what moves it
// on need not be a marker of ours.
void CheckMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                  Duration timeout,
                  coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) {
  AskForMarkers(client, participant, timeout,
                [evidence = participant.evidence, done = std::move(done)](
                    const MarkerAnswers& answers) { done(MarkersMissing(evidence, answers)); });
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
