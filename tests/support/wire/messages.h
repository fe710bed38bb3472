#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/protocol/codec.h"
#include "wire/protocol/shapes.h"

/// Messages with which a producer builds a transaction, and with which a test prepares a cluster:
/// Lockstep itself never sends them (librdkafka does), tests do it by hand.
namespace lockstep::testing {

using wire::ErrorCode;
using wire::protocol::Api;
using wire::protocol::ApiKey;
using wire::protocol::Reader;
using wire::protocol::TopicPartitions;
using wire::protocol::Writer;

/// As clients send it, up to v3; later versions are the brokers' own.
struct AddPartitionsToTxn {
  static constexpr Api kApi{ApiKey::kAddPartitionsToTxn, "AddPartitionsToTxn", 0, 3, 3};
  std::string transactional_id;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::vector<TopicPartitions> topics;
  void Encode(Writer& w) const;

  struct Partition {
    std::string topic;
    std::int32_t partition = 0;
    ErrorCode error = ErrorCode::kNone;
  };
  struct Response {
    std::vector<Partition> partitions;
  };
  static Response Decode(Reader& r);
};

/// One batch to one partition, acks=all. v12 (brokers with transaction.version 2) also adds the
/// partition to the transaction; below, AddPartitionsToTxn must come first.
struct Produce {
  static constexpr Api kApi{ApiKey::kProduce, "Produce", 9, 12, 9};
  std::optional<std::string> transactional_id;
  std::string topic;
  std::int32_t partition = 0;
  std::string records;  ///< See EncodeRecordBatch.
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::int64_t base_offset = -1;
    std::string error_message;
  };
  static Response Decode(Reader& r);
};

struct AddOffsetsToTxn {
  static constexpr Api kApi{ApiKey::kAddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 3};
  std::string transactional_id;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::string group_id;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
  };
  static Response Decode(Reader& r);
};

/// One partition's offset. v5 (transaction.version 2) also adds the group to the transaction;
/// below, AddOffsetsToTxn must come first.
struct TxnOffsetCommit {
  static constexpr Api kApi{ApiKey::kTxnOffsetCommit, "TxnOffsetCommit", 3, 5, 3};
  std::string transactional_id;
  std::string group_id;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::int32_t generation = -1;
  std::string member_id;
  std::optional<std::string> group_instance_id;
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
  };
  static Response Decode(Reader& r);
};

/// Joins a KIP-848 group as a new member: what makes one.
struct ConsumerGroupHeartbeat {
  static constexpr Api kApi{ApiKey{68}, "ConsumerGroupHeartbeat", 0, 0, 0};
  std::string group_id;
  std::string topic;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    std::string member_id;
    std::int32_t member_epoch = -1;
  };
  static Response Decode(Reader& r);
};

struct CreateTopics {
  static constexpr Api kApi{ApiKey::kCreateTopics, "CreateTopics", 5, 6, 5};
  std::string topic;
  std::int32_t partitions = 1;
  std::int16_t replication_factor = 1;
  std::vector<std::pair<std::string, std::string>> configs;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
  };
  static Response Decode(Reader& r);
};

/// Kafka's numbers: org.apache.kafka.common.resource, .acl.
enum class AclResource : std::int8_t { kTopic = 2, kGroup = 3, kCluster = 4, kTransactionalId = 5 };
enum class AclOperation : std::int8_t {
  kRead = 3,
  kWrite = 4,
  kAlter = 7,
  kDescribe = 8,
  kClusterAction = 9,
  kDescribeConfigs = 10,
  kIdempotentWrite = 12,
};
struct AclEntry {
  std::string principal;  ///< "User:lockstep".
  AclOperation operation = AclOperation::kRead;
  AclResource resource = AclResource::kTopic;
  std::string name;  ///< With a '*' at its end a prefix; "*": all. The cluster is "kafka-cluster".
};

struct CreateAcls {
  static constexpr Api kApi{ApiKey{30}, "CreateAcls", 3, 3, 2};
  std::vector<AclEntry> entries;  ///< What is allowed, from any host.
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;  ///< The first one.
    std::string error_message;
  };
  static Response Decode(Reader& r);
};

struct DeleteAcls {
  static constexpr Api kApi{ApiKey{31}, "DeleteAcls", 3, 3, 2};
  std::string principal;  ///< All of its.
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::size_t deleted = 0;
  };
  static Response Decode(Reader& r);
};

/// A record batch (format v2) with one record for each value, without keys, as an idempotent
/// producer writes it.
struct RecordBatch {
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::int32_t base_sequence = -1;
  bool transactional = true;
  std::vector<std::string> values;
};
std::string EncodeRecordBatch(const RecordBatch& batch);

/// A control batch, as a broker writes it: for tests without one.
std::string EncodeMarker(std::int64_t offset, std::int64_t producer_id, std::int16_t producer_epoch,
                         bool commit);

}  // namespace lockstep::testing
