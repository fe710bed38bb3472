#pragma once

#include <librdkafka/rdkafka.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

/// What librdkafka's C calls take, made from plain values: for the server's lanes and for the
/// client's helper alike, so it knows the types of neither.
namespace lockstep::rdkafka {

struct ValueDeleter {
  void operator()(rd_kafka_headers_t* headers) const { rd_kafka_headers_destroy(headers); }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
  void operator()(rd_kafka_consumer_group_metadata_t* group) const {
    rd_kafka_consumer_group_metadata_destroy(group);
  }
};
using HeadersPtr = std::unique_ptr<rd_kafka_headers_t, ValueDeleter>;
using ListPtr = std::unique_ptr<rd_kafka_topic_partition_list_t, ValueDeleter>;
using GroupPtr = std::unique_ptr<rd_kafka_consumer_group_metadata_t, ValueDeleter>;

/// Each has a `key` and an optional `value`; null and empty differ. None: null.
template <typename Headers>
HeadersPtr HeadersOf(const Headers& from) {
  if (from.empty()) return nullptr;
  HeadersPtr headers(rd_kafka_headers_new(from.size()));
  for (const auto& header : from) {
    rd_kafka_header_add(headers.get(), header.key.data(), static_cast<ssize_t>(header.key.size()),
                        header.value ? header.value->data() : nullptr,
                        header.value ? static_cast<ssize_t>(header.value->size()) : 0);
  }
  return headers;
}

/// Copies a record (key, value, partition, headers) into the producer's queue. Null where it went
/// well; else the caller's to destroy.
template <typename Record>
rd_kafka_error_t* Enqueue(rd_kafka_t* producer, rd_kafka_topic_t* topic, const Record& record,
                          std::optional<std::int64_t> timestamp_ms, void* opaque) {
  HeadersPtr headers = HeadersOf(record.headers);
  std::array<rd_kafka_vu_t, 8> args{};
  std::size_t count = 0;
  const auto add = [&](rd_kafka_vtype_t type) -> auto& {
    args[count].vtype = type;
    return args[count++].u;
  };
  // Null and empty differ, and librdkafka tells them apart by the pointer.
  const auto add_bytes = [&](rd_kafka_vtype_t type, const std::optional<std::string>& text) {
    auto& mem = add(type).mem;
    mem.ptr = text ? const_cast<char*>(text->data()) : nullptr;
    mem.size = text ? text->size() : 0;
  };
  add(RD_KAFKA_VTYPE_RKT).rkt = topic;
  add(RD_KAFKA_VTYPE_PARTITION).i32 = record.partition.value_or(RD_KAFKA_PARTITION_UA);
  add(RD_KAFKA_VTYPE_MSGFLAGS).i = RD_KAFKA_MSG_F_COPY;
  add_bytes(RD_KAFKA_VTYPE_KEY, record.key);
  add_bytes(RD_KAFKA_VTYPE_VALUE, record.value);
  add(RD_KAFKA_VTYPE_OPAQUE).ptr = opaque;
  if (timestamp_ms) add(RD_KAFKA_VTYPE_TIMESTAMP).i64 = *timestamp_ms;
  if (headers != nullptr) add(RD_KAFKA_VTYPE_HEADERS).headers = headers.get();
  rd_kafka_error_t* error = rd_kafka_produceva(producer, args.data(), count);
  if (error == nullptr) headers.release();  // The message has them.
  return error;
}

/// `leader_epoch`: -1, not known.
inline void AddOffset(rd_kafka_topic_partition_list_t& list, const std::string& topic,
                      std::int32_t partition, std::int64_t offset,
                      [[maybe_unused]] std::int32_t leader_epoch, const std::string& metadata) {
  auto* added = rd_kafka_topic_partition_list_add(&list, topic.c_str(), partition);
  added->offset = offset;
#if RD_KAFKA_VERSION >= 0x020100ff
  // 2.0 sends -1, "not known".
  rd_kafka_topic_partition_set_leader_epoch(added, leader_epoch);
#endif
  if (metadata.empty()) return;
  added->metadata = std::malloc(metadata.size());  // The list frees it with free().
  if (added->metadata == nullptr) std::abort();
  metadata.copy(static_cast<char*>(added->metadata), metadata.size());
  added->metadata_size = metadata.size();
}

/// A group of which nobody is a member, as far as the broker is told.
inline GroupPtr StandaloneGroup(const std::string& group_id) {
  return GroupPtr(rd_kafka_consumer_group_metadata_new(group_id.c_str()));
}
inline GroupPtr MemberOfGroup(const std::string& group_id, std::int32_t generation,
                              const std::string& member_id,
                              const std::optional<std::string>& instance_id) {
  return GroupPtr(rd_kafka_consumer_group_metadata_new_with_genid(
      group_id.c_str(), generation, member_id.c_str(),
      instance_id ? instance_id->c_str() : nullptr));
}

}  // namespace lockstep::rdkafka
