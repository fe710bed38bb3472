#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/protocol/codec.h"

/// Messages about the cluster, its brokers and its groups; see txn_messages.h for the others.
///
/// Each struct is a request: `Encode`, the api it belongs to, and its `Response` with `Decode`.
/// Field by field after the JSON schemas in the kafka-clients jar (common/message), for the
/// versions in kApi only; what nobody needs is skipped when decoding. Which versions, and why:
/// docs/design/wire.md.
namespace lockstep::wire::protocol {

struct ApiVersions {
  static constexpr Api kApi{ApiKey::kApiVersions, "ApiVersions", 3, 3, 3};
  void Encode(Writer& w) const;

  struct Range {
    std::int16_t key = 0;
    std::int16_t min_version = 0;
    std::int16_t max_version = 0;
  };
  struct Feature {
    std::string name;
    std::int16_t min_version = 0;
    std::int16_t max_version = 0;
  };
  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::vector<Range> apis;
    std::vector<Feature> supported;
    std::vector<Feature> finalized;
  };
  static Response Decode(Reader& r);
};

struct Metadata {
  static constexpr Api kApi{ApiKey::kMetadata, "Metadata", 9, 9, 9};
  std::vector<std::string> topics;  ///< Empty: none, only the cluster.
  bool operations = false;          ///< Tell what we may do.
  void Encode(Writer& w) const;

  struct Broker {
    std::int32_t node_id = -1;
    std::string host;
    std::int32_t port = 0;
  };
  struct Partition {
    ErrorCode error = ErrorCode::kNone;
    std::int32_t partition = 0;
    std::int32_t leader = -1;
    std::size_t replicas = 0;
  };
  struct Topic {
    ErrorCode error = ErrorCode::kNone;
    std::string name;
    std::vector<Partition> partitions;
    std::int32_t operations = 0;  ///< Bits; see Operations.
  };
  struct Response {
    std::vector<Broker> brokers;
    std::string cluster_id;
    std::vector<Topic> topics;
    std::int32_t operations = 0;  ///< On the cluster.
  };
  static Response Decode(Reader& r);
};

struct FindCoordinator {
  static constexpr Api kApi{ApiKey::kFindCoordinator, "FindCoordinator", 3, 3, 3};
  std::string coordinator_key;
  std::int8_t type = 0;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    Metadata::Broker broker;
  };
  static Response Decode(Reader& r);
};

struct GroupMember {
  std::string member_id;
  std::optional<std::string> instance_id;
  std::int32_t epoch = -1;
};

struct DescribeGroups {
  static constexpr Api kApi{ApiKey::kDescribeGroups, "DescribeGroups", 5, 5, 5};
  std::string group_id;
  bool operations = false;  ///< Tell what we may do.
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string state;
    std::vector<GroupMember> members;
    std::int32_t operations = 0;  ///< Bits; see Operations.
  };
  static Response Decode(Reader& r);
};

struct ConsumerGroupDescribe {
  static constexpr Api kApi{ApiKey::kConsumerGroupDescribe, "ConsumerGroupDescribe", 0, 0, 0};
  std::string group_id;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    std::string state;
    std::int32_t group_epoch = -1;
    std::vector<GroupMember> members;
  };
  static Response Decode(Reader& r);
};

struct DescribeConfigs {
  static constexpr Api kApi{ApiKey::kDescribeConfigs, "DescribeConfigs", 4, 4, 4};
  std::int32_t node_id = -1;
  std::vector<std::string> names;
  void Encode(Writer& w) const;

  struct Config {
    std::string name;
    std::optional<std::string> value;
  };
  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    std::vector<Config> configs;
  };
  static Response Decode(Reader& r);
};

/// Of the metadata log: its leader is the controller, and tells the time by its clock.
struct DescribeQuorum {
  static constexpr Api kApi{ApiKey::kDescribeQuorum, "DescribeQuorum", 1, 1, 0};
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    /// The leader's own entry: when it answered, in milliseconds since 1970. -1: not told.
    std::int64_t leader_time_ms = -1;
  };
  static Response Decode(Reader& r);
};

}  // namespace lockstep::wire::protocol
