#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "wire/protocol/codec.h"

/// Shapes that recur in Kafka's messages.
namespace lockstep::wire::protocol {

/// A topic and some of its partitions.
struct TopicPartitions {
  std::string topic;
  std::vector<std::int32_t> partitions;
};

inline void EncodeTopics(Writer& w, const std::vector<TopicPartitions>& topics) {
  w.Array(topics, [&](const TopicPartitions& topic) {
    w.String(topic.topic);
    w.Array(topic.partitions, [&](std::int32_t partition) { w.Int32(partition); });
    w.NoTags();
  });
}

/// An array of exactly one structure, for single questions put to APIs that take many. `decode`
/// reads the structure up to its tagged fields.
template <typename Answer, typename Decode>
Answer DecodeOnly(Reader& r, Decode decode) {
  auto answers = r.Array([&] {
    Answer answer = decode();
    r.SkipTags();
    return answer;
  });
  if (r.ok() && answers.size() != 1) r.Fail("it does not answer exactly what was asked");
  return r.ok() ? std::move(answers.front()) : Answer{};
}

/// Topics with partitions, flattened. `decode_partition` reads one up to its tagged fields.
template <typename Partition, typename DecodePartition>
std::vector<Partition> DecodePartitions(Reader& r, DecodePartition decode_partition) {
  std::vector<Partition> all;
  r.SkipArray([&] {
    const std::string topic = r.String();
    r.SkipArray([&] {
      Partition partition = decode_partition();
      partition.topic = topic;
      r.SkipTags();
      all.push_back(std::move(partition));
    });
    r.SkipTags();
  });
  return all;
}

}  // namespace lockstep::wire::protocol
