#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "wire/calls.h"
#include "wire/protocol/records.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::wire {
namespace {

using txn::TopicPartition;

std::vector<protocol::TopicPartitions> GroupByTopic(const std::vector<TopicPartition>& partitions) {
  std::map<std::string, std::vector<std::int32_t>> topics;
  for (const TopicPartition& each : partitions) topics[each.topic].push_back(each.partition);
  std::vector<protocol::TopicPartitions> grouped;
  grouped.reserve(topics.size());
  for (auto& [topic, numbers] : topics) grouped.push_back({topic, std::move(numbers)});
  return grouped;
}

// ---- Asking many partitions' leaders ----------------------------------------------------------

/// What one partition's leader answered.
struct LeaderAnswer {
  TopicPartition partition;
  Result<std::int64_t> value;
  bool ask_again = false;  ///< The error passes, or another broker leads by now.
};
using LeaderAnswers = std::vector<LeaderAnswer>;
using AskLeader =
    std::function<Task<LeaderAnswers>(Call, std::int32_t node, std::vector<TopicPartition>)>;
using ByPartition = std::map<TopicPartition, Result<std::int64_t>>;

LeaderAnswers AllFail(const std::vector<TopicPartition>& partitions, const Error& error) {
  LeaderAnswers answers;
  for (const TopicPartition& each : partitions) {
    answers.push_back({each, error, IsTransient(error)});
  }
  return answers;
}

/// A partition's error code, as an answer; `value` if there is none.
template <typename Request>
LeaderAnswer ToAnswer(TopicPartition partition, ErrorCode code, std::int64_t value = 0) {
  if (code == ErrorCode::kNone) return {std::move(partition), value};
  Error error =
      Refusal<Request>(code, std::string(Request::kApi.name) + " of " + ToString(partition));
  return {std::move(partition), std::move(error), Info(code).retriable};
}

/// Partitions that metadata rule out get their error in `settled`.
void SettleMissing(const protocol::Metadata::Response& metadata, std::set<TopicPartition>& open,
                   ByPartition& settled) {
  for (const auto& topic : metadata.topics) {
    if (topic.error == ErrorCode::kLeaderNotAvailable) continue;
    std::set<std::int32_t> exist;
    for (const auto& partition : topic.partitions) exist.insert(partition.partition);
    std::erase_if(open, [&](const TopicPartition& each) {
      if (each.topic != topic.name || exist.contains(each.partition)) return false;
      const bool topic_failed = topic.error != ErrorCode::kNone;
      const ErrorCode code = topic_failed ? topic.error : ErrorCode::kUnknownTopicOrPartition;
      settled.emplace(each, Refusal<protocol::Metadata>(code, "partition " + ToString(each)));
      return true;
    });
  }
}

/// One round: everyone who is known to lead some of the partitions, side by side.
Task<LeaderAnswers> AskKnownLeaders(Network& network, Call& call,
                                    const std::set<TopicPartition>& open, const AskLeader& ask) {
  std::map<std::int32_t, std::vector<TopicPartition>> by_leader;
  LeaderAnswers answers;
  for (const TopicPartition& each : open) {
    if (const auto leader = network.KnownLeader(each)) {
      by_leader[*leader].push_back(each);
    } else {
      const std::string problem = "partition " + ToString(each) + " has no leader";
      answers.push_back({each, MakeError(Code::kUnavailable, problem), true});
    }
  }
  std::vector<Task<LeaderAnswers>> asked;
  asked.reserve(by_leader.size());
  for (auto& [leader, partitions] : by_leader) {
    asked.push_back(ask(call, leader, std::move(partitions)));
  }
  for (LeaderAnswers& each : co_await All(std::move(asked))) {
    std::move(each.begin(), each.end(), std::back_inserter(answers));
  }
  co_return answers;
}

/// Asks until every partition has an answer, or an error that stays, or the deadline.
Task<ByPartition> AskLeaders(Network& network, Call& call, std::set<TopicPartition> open,
                             AskLeader ask) {
  ByPartition settled;
  std::map<TopicPartition, Error> last;
  std::set<TopicPartition> uncertain;
  for (;;) {
    std::set<std::string> topics;
    for (const TopicPartition& each : open) {
      if (!network.KnownLeader(each)) topics.insert(each.topic);
    }
    if (!topics.empty()) {
      std::vector<std::string> names(topics.begin(), topics.end());
      auto metadata = co_await network.Refresh(call, std::move(names));
      if (metadata.ok()) {
        SettleMissing(*metadata, open, settled);
      } else {
        for (const TopicPartition& each : open) last[each] = metadata.error();
      }
    }
    for (LeaderAnswer& answer : co_await AskKnownLeaders(network, call, open, ask)) {
      if (!answer.ask_again) {
        settled.emplace(answer.partition, std::move(answer.value));
        open.erase(answer.partition);
        continue;
      }
      last[answer.partition] = answer.value.error();
      if (answer.value.error().effect != Effect::kNone) uncertain.insert(answer.partition);
      network.ForgetLeader(answer.partition);
    }
    if (open.empty()) co_return settled;
    const bool go_on = co_await network.Pause(call);
    if (go_on) continue;
    for (const TopicPartition& each : open) {
      call.last = last[each];
      Error error = network.GiveUp(call);
      if (uncertain.contains(each)) error.effect = Effect::kUnknown;
      settled.emplace(each, std::move(error));
    }
    co_return settled;
  }
}

/// One question to one leader, once. Its answer has a code (and perhaps an offset) a partition.
template <typename Request, typename ValueOf>
Task<LeaderAnswers> AskOneLeader(Network& network, Call& call, std::int32_t node,
                                 std::vector<TopicPartition> partitions, Request request,
                                 ValueOf value_of) {
  const Route route = NodeId{node};
  Versions versions = AllVersions<Request>();
  auto response = co_await network.Ask(call, route, request, versions, Attempts::kOnce);
  if (!response.ok()) co_return AllFail(partitions, response.error());
  LeaderAnswers answers;
  for (const auto& partition : response->partitions) {
    const TopicPartition name{partition.topic, partition.partition};
    // An answer that was not asked for counts for nothing; one that is missing, as an error.
    if (std::erase(partitions, name) == 0) continue;
    answers.push_back(ToAnswer<Request>(name, partition.error, value_of(partition)));
  }
  const Error missing =
      MakeError(Code::kCorrupt, std::string(Request::kApi.name) + " left out a partition",
                Request::kApi.changes ? Effect::kUnknown : Effect::kNone);
  for (const TopicPartition& each : partitions) answers.push_back({each, missing});
  co_return answers;
}

// ---- ListOffsets ------------------------------------------------------------------------------

Task<LeaderAnswers> ListOffsetsAt(Network& network, Call call, std::int32_t node,
                                  std::vector<TopicPartition> partitions, Isolation isolation) {
  protocol::ListOffsets request;
  request.isolation = static_cast<std::int8_t>(isolation);
  request.topics = GroupByTopic(partitions);
  const auto offset = [](const protocol::ListOffsets::Partition& each) { return each.offset; };
  co_return co_await AskOneLeader(network, call, node, std::move(partitions), std::move(request),
                                  offset);
}

// ---- WriteTxnMarkers --------------------------------------------------------------------------

using EvidenceOffsets = std::map<TopicPartition, std::int64_t>;

/// The coordinator epoch that a marker needs, for an open transaction that covers the evidence.
LeaderAnswer FindOpenTxn(const protocol::DescribeProducers::Partition& described,
                         const MarkerWrite& write, std::int64_t evidence) {
  TopicPartition name{described.topic, described.partition};
  if (described.error != ErrorCode::kNone) {
    return ToAnswer<protocol::DescribeProducers>(std::move(name), described.error);
  }
  for (const auto& producer : described.producers) {
    const bool open = producer.txn_start_offset >= 0 && producer.txn_start_offset <= evidence;
    if (producer.producer_id != write.producer_id.get() || !open) continue;
    // A marker with a lower epoch than the partition's last one is refused; -1 is "none yet".
    return {std::move(name), std::max(producer.coordinator_epoch, 0)};
  }
  Error error = MakeError(Code::kFailedPrecondition,
                          "partition " + ToString(name) + ": producer " +
                              std::to_string(write.producer_id.get()) +
                              " has no open transaction that began by offset " +
                              std::to_string(evidence) + ": there is no marker to write");
  return {std::move(name), std::move(error)};
}

Task<LeaderAnswers> WriteMarkersAt(Network& network, Call call, std::int32_t node,
                                   std::vector<TopicPartition> partitions, const MarkerWrite& write,
                                   const EvidenceOffsets& evidence) {
  protocol::DescribeProducers describe;
  describe.topics = GroupByTopic(partitions);
  const Route route = NodeId{node};
  Versions versions = AllVersions<protocol::DescribeProducers>();
  auto described = co_await network.Ask(call, route, describe, versions, Attempts::kOnce);
  if (!described.ok()) co_return AllFail(partitions, described.error());

  LeaderAnswers answers;
  std::map<std::int64_t, std::vector<TopicPartition>> by_epoch;
  for (const auto& partition : described->partitions) {
    const auto asked = evidence.find({partition.topic, partition.partition});
    if (asked == evidence.end()) continue;
    LeaderAnswer found = FindOpenTxn(partition, write, asked->second);
    if (found.value.ok()) {
      by_epoch[*found.value].push_back(std::move(found.partition));
    } else {
      answers.push_back(std::move(found));
    }
  }
  for (auto& [epoch, repairable] : by_epoch) {
    protocol::WriteTxnMarkers request;
    request.producer_id = write.producer_id.get();
    request.producer_epoch = write.producer_epoch.get();
    request.commit = write.direction == txn::Direction::kCommit;
    request.coordinator_epoch = static_cast<std::int32_t>(epoch);
    request.topics = GroupByTopic(repairable);
    const auto nothing = [](const auto&) { return std::int64_t{0}; };
    auto written = co_await AskOneLeader(network, call, node, std::move(repairable),
                                         std::move(request), nothing);
    std::move(written.begin(), written.end(), std::back_inserter(answers));
  }
  co_return answers;
}

// ---- FindMarker -------------------------------------------------------------------------------

constexpr std::int32_t kFetchBytes = 1 << 20;

const protocol::Marker* MarkerOf(const std::vector<protocol::Marker>& markers,
                                 const MarkerQuery& query) {
  const auto found = std::find_if(markers.begin(), markers.end(), [&](const auto& marker) {
    return marker.producer_id == query.producer_id.get() && marker.offset >= query.from_offset;
  });
  return found == markers.end() ? nullptr : &*found;
}

MarkerAnswer Answer(MarkerAnswer::Kind kind, std::int64_t offset) {
  return {kind, offset, ProducerEpoch(-1)};
}

}  // namespace

Task<Result<std::vector<PartitionOffset>>> ListOffsets(Network& network, Call& call,
                                                       std::vector<TopicPartition> partitions,
                                                       Isolation isolation) {
  std::set<TopicPartition> open(partitions.begin(), partitions.end());
  AskLeader ask = [&network, isolation](Call one, std::int32_t node,
                                        std::vector<TopicPartition> led) {
    return ListOffsetsAt(network, std::move(one), node, std::move(led), isolation);
  };
  const ByPartition offsets = co_await AskLeaders(network, call, std::move(open), std::move(ask));
  std::vector<PartitionOffset> answer;
  answer.reserve(partitions.size());
  for (const TopicPartition& each : partitions) answer.push_back({each, offsets.at(each)});
  co_return answer;
}

Task<Result<std::vector<MarkerWritten>>> WriteTxnMarkers(Network& network, Call& call,
                                                         MarkerWrite write) {
  EvidenceOffsets evidence;
  std::set<TopicPartition> open;
  for (const txn::Evidence& each : write.evidence) {
    evidence[each.partition] = each.offset;
    open.insert(each.partition);
  }
  AskLeader ask = [&](Call one, std::int32_t node, std::vector<TopicPartition> led) {
    return WriteMarkersAt(network, std::move(one), node, std::move(led), write, evidence);
  };
  ByPartition results = co_await AskLeaders(network, call, std::move(open), std::move(ask));
  std::vector<MarkerWritten> answer;
  for (auto& [partition, result] : results) {
    answer.push_back({partition, result.ok() ? Status() : Status(result.error())});
  }
  co_return answer;
}

Task<Result<MarkerAnswer>> FindMarker(Network& network, Call& call, MarkerQuery query) {
  using Kind = MarkerAnswer::Kind;
  const Route route = LeaderOf{query.partition};
  const std::string what = "Fetch of " + ToString(query.partition);
  std::int64_t at = query.from_offset;
  for (std::size_t bytes = 0; bytes <= query.max_bytes;) {
    protocol::Fetch request;
    request.topic = query.partition.topic;
    request.partition = query.partition.partition;
    request.offset = at;
    request.max_bytes = kFetchBytes;
    auto response = co_await network.Ask(call, route, std::move(request));
    if (!response.ok()) co_return response.error();
    if (response->error == ErrorCode::kOffsetOutOfRange) {
      co_return Answer(Kind::kOffsetOutOfRange, at);
    }
    if (response->error != ErrorCode::kNone) {
      co_return Refusal<protocol::Fetch>(response->error, what);
    }
    const auto scanned = protocol::ScanRecords(response->records);
    if (!scanned.ok()) {
      co_return MakeError(Code::kCorrupt, what + ": " + scanned.error().message);
    }
    if (const protocol::Marker* marker = MarkerOf(scanned->markers, query)) {
      co_return MarkerAnswer{marker->commit ? Kind::kCommit : Kind::kAbort, marker->offset,
                             ProducerEpoch(marker->producer_epoch)};
    }
    if (response->records.empty()) co_return Answer(Kind::kNone, at);
    if (scanned->next_offset <= at) {
      co_return MakeError(Code::kCorrupt, what + ": it brought no whole batch");
    }
    at = scanned->next_offset;
    if (at >= response->high_watermark) co_return Answer(Kind::kNone, at);
    bytes += response->records.size();
  }
  co_return MakeError(Code::kResourceExhausted, what + ": no marker within " +
                                                    std::to_string(query.max_bytes) +
                                                    " bytes, up to offset " + std::to_string(at));
}

}  // namespace lockstep::wire
