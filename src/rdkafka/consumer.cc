#include <cstring>
#include <map>
#include <string_view>

#include "lockstep/rdkafka.h"
#include "rdkafka/c_values.h"
#include "rdkafka/failure.h"

namespace lockstep::rdkafka {
namespace {

using client::Code;
using client::Effect;
using client::Error;
using client::Result;
using client::Status;

using Place = std::pair<std::string, std::int32_t>;
Place PlaceOf(const rd_kafka_message_t& message) {
  return {rd_kafka_topic_name(message.rkt), message.partition};
}

/// librdkafka tells a consumer's generation in its serialised form only: the mark, the generation
/// as int32, group\0, member\0, a byte that is 1 where there is no instance id, the instance id\0.
/// Releases that write another form have another mark. A group without an id: not understood.
client::ConsumerGroup Parse(std::string_view text) {
  constexpr std::string_view kMark = "CGMDv2:";
  client::ConsumerGroup group;
  if (text.substr(0, kMark.size()) != kMark) return group;
  text.remove_prefix(kMark.size());
  if (text.size() < sizeof group.generation) return group;
  std::memcpy(&group.generation, text.data(), sizeof group.generation);
  text.remove_prefix(sizeof group.generation);
  const auto next = [&text] {
    const std::string_view word = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    return std::string(word);
  };
  group.id = next();
  group.member_id = next();
  if (!text.empty() && text[0] == 0)
    group.instance_id = std::string(text.substr(1, text.find('\0', 1) - 1));
  return group;
}

client::ConsumerGroup MembershipOf(rd_kafka_t* consumer) {
  const GroupPtr metadata(rd_kafka_consumer_group_metadata(consumer));
  if (metadata == nullptr) return {};
  void* buffer = nullptr;
  std::size_t size = 0;
  if (auto* error = rd_kafka_consumer_group_metadata_write(metadata.get(), &buffer, &size)) {
    rd_kafka_error_destroy(error);
    return {};
  }
  auto group = Parse({static_cast<const char*>(buffer), size});
  rd_kafka_mem_free(nullptr, buffer);
  return group;
}

/// What the group has committed for the assigned ones of these partitions.
Result<ListPtr> CommittedOf(rd_kafka_t* consumer, const std::map<Place, std::int64_t>& places,
                            const Deadline& deadline) {
  rd_kafka_topic_partition_list_t* raw = nullptr;
  if (const auto code = rd_kafka_assignment(consumer, &raw); code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Failed("the consumer's assignment", code);
  }
  const ListPtr assigned(raw);
  ListPtr mine(rd_kafka_topic_partition_list_new(assigned->cnt));
  for (int i = 0; i < assigned->cnt; ++i) {
    const auto& at = assigned->elems[i];
    if (!places.contains({at.topic, at.partition})) continue;
    rd_kafka_topic_partition_list_add(mine.get(), at.topic, at.partition);
  }
  if (mine->cnt == 0) return mine;
  if (const auto code = rd_kafka_committed(consumer, mine.get(), deadline.Whole());
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Failed("the group's committed offsets", code);
  }
  return mine;
}

}  // namespace

Batch Poll(rd_kafka_t* consumer, std::size_t most, std::chrono::milliseconds wait) {
  Batch batch;
  const Deadline deadline(wait);
  while (batch.messages.size() < most) {
    Message message(
        rd_kafka_consumer_poll(consumer, batch.messages.empty() ? deadline.Whole() : 0));
    if (message == nullptr) break;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (batch.messages.empty() && !deadline.passed()) continue;
      break;
    }
    // Now: the next poll may rebalance.
    if (batch.messages.empty()) batch.group = MembershipOf(consumer);
    batch.messages.push_back(std::move(message));
  }
  return batch;
}

Result<client::GroupOffsets> OffsetsOf(rd_kafka_t* consumer, const Batch& batch,
                                       client::Timeout timeout) {
  if (batch.group.id.empty() || batch.group.generation < 0) {
    // Without a generation brokers take offsets from anybody.
    return Error{.code = Code::kWrongState,
                 .effect = Effect::kNone,
                 .message = batch.group.id.empty()
                                ? "this release of librdkafka describes groups in another way"
                                : "the consumer was no member of group " + batch.group.id};
  }
  // Not rd_kafka_position: it does not go back with a seek.
  std::map<Place, std::int64_t> next;
  for (const Message& message : batch.messages) {
    auto& at = next[PlaceOf(*message)];
    at = std::max(at, message->offset + 1);
  }
  client::GroupOffsets offsets{.group = batch.group, .offsets = {}, .kafka_cluster_id = {}};
  for (const auto& [place, offset] : next) {
    offsets.offsets.push_back({.topic = place.first, .partition = place.second, .offset = offset});
  }
  if (char* id = rd_kafka_clusterid(consumer, Deadline(timeout).Whole())) {
    offsets.kafka_cluster_id = id;
    rd_kafka_mem_free(consumer, id);
  }
  return offsets;
}

Status Rewind(rd_kafka_t* consumer, const Batch& batch, client::Timeout timeout) {
  const Deadline deadline(timeout);
  std::map<Place, std::int64_t> first;
  for (const Message& message : batch.messages) {
    auto& at = first.try_emplace(PlaceOf(*message), message->offset).first->second;
    at = std::min(at, message->offset);
  }
  // Not simply to the batch's first: a partition may have been another member's meanwhile, and have
  // come back further on.
  auto committed = CommittedOf(consumer, first, deadline);
  if (!committed) return committed.error();
  const ListPtr& list = *committed;
  if (list->cnt == 0) return {};
  for (int i = 0; i < list->cnt; ++i) {
    auto& at = list->elems[i];
    if (at.err != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed("a committed offset", at.err);
    if (at.offset < 0) at.offset = first.at({at.topic, at.partition});  // Nobody has begun with it.
  }
  if (auto* error = rd_kafka_seek_partitions(consumer, list.get(), deadline.Whole())) {
    return Failed("seek", error);
  }
  for (int i = 0; i < list->cnt; ++i) {
    if (list->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed("seek", list->elems[i].err);
  }
  return {};
}

}  // namespace lockstep::rdkafka
