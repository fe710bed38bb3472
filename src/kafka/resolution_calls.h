#pragma once

#include <vector>

#include "base/time.h"
#include "coordinator/ports.h"
#include "txn/resolve.h"
#include "txn/types.h"
#include "wire/client.h"

/// The questions and deeds of resolution by name, as wire requests: what coordinator::Cluster
/// promises of them, for a client that is pinned to the right cluster. Each returns at once and
/// calls back on the wire client's thread.
namespace lockstep::kafka {

void EndTxn(wire::Client& client, const txn::ParticipantName& name, txn::Direction direction,
            Duration timeout, coordinator::Callback<txn::EndTxnAnswer> done);

void LogEnds(wire::Client& client, std::vector<txn::TopicPartition> partitions, Duration timeout,
             coordinator::Callback<Result<std::vector<txn::Evidence>>> done);

/// There must be some evidence. A partition that is gone has no marker. Fails only if no
/// partition's marker is found and one could not be asked: one marker of a transaction tells them
/// all.
void ReadMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                 Duration timeout,
                 coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done);

/// There must be some evidence. The partitions on which no COMMIT marker of the participant stands
/// after the evidence. Fails if none is known to be missing, and one could not be asked, a
/// partition that is unknown among them.
void CheckMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                  Duration timeout,
                  coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done);

/// What each partition of the evidence answered, in its order.
using MarkerAnswers = std::vector<Result<wire::MarkerAnswer>>;
/// What ReadMarkers and CheckMarkers make of the answers.
Result<std::vector<txn::MarkerFound>> MarkersFound(const MarkerAnswers& answers);
Result<std::vector<txn::TopicPartition>> MarkersMissing(const std::vector<txn::Evidence>& evidence,
                                                        const MarkerAnswers& answers);

void RepairMarkers(wire::Client& client, const txn::PreparedParticipant& participant,
                   const std::vector<txn::TopicPartition>& partitions, Duration timeout,
                   coordinator::Callback<Status> done);

}  // namespace lockstep::kafka
