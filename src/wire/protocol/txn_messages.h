#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/codec.h"
#include "wire/protocol/shapes.h"

/// Messages about transactions and what they leave in partitions; the form is that of
/// cluster_messages.h.
namespace lockstep::wire::protocol {

struct InitProducerId {
  static constexpr Api kApi{ApiKey::kInitProducerId, "InitProducerId", 3, 4, 2, true};
  std::string transactional_id;
  std::int32_t timeout_ms = 0;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::int64_t producer_id = -1;
    std::int16_t producer_epoch = -1;
  };
  static Response Decode(Reader& r);
};

struct EndTxn {
  static constexpr Api kApi{ApiKey::kEndTxn, "EndTxn", 0, 5, 3, true};
  std::string transactional_id;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  bool commit = false;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::int64_t producer_id = -1;     ///< v5
    std::int16_t producer_epoch = -1;  ///< v5
  };
  static Response Decode(Reader& r);
};

struct DescribeTransactions {
  static constexpr Api kApi{ApiKey::kDescribeTransactions, "DescribeTransactions", 0, 0, 0};
  std::string transactional_id;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::string transactional_id;
    std::string state;
    std::int32_t timeout_ms = 0;
    std::int64_t start_time_ms = -1;
    std::int64_t producer_id = -1;
    std::int16_t producer_epoch = -1;
    std::vector<TopicPartitions> topics;
  };
  static Response Decode(Reader& r);
};

struct ListTransactions {
  static constexpr Api kApi{ApiKey::kListTransactions, "ListTransactions", 0, 0, 0};
  std::vector<std::string> states;
  void Encode(Writer& w) const;

  struct Transaction {
    std::string transactional_id;
    std::int64_t producer_id = -1;
    std::string state;
  };
  struct Response {
    ErrorCode error = ErrorCode::kNone;
    std::vector<std::string> unknown_states;
    std::vector<Transaction> transactions;
  };
  static Response Decode(Reader& r);
};

struct WriteTxnMarkers {
  static constexpr Api kApi{ApiKey::kWriteTxnMarkers, "WriteTxnMarkers", 1, 1, 1, true};
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  bool commit = false;
  std::int32_t coordinator_epoch = 0;
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

struct DescribeProducers {
  static constexpr Api kApi{ApiKey::kDescribeProducers, "DescribeProducers", 0, 0, 0};
  std::vector<TopicPartitions> topics;
  void Encode(Writer& w) const;

  struct Producer {
    std::int64_t producer_id = -1;
    std::int32_t producer_epoch = -1;
    std::int32_t coordinator_epoch = -1;  ///< Of the last marker; -1: none yet.
    std::int64_t txn_start_offset = -1;   ///< Of the open transaction; -1: none.
  };
  struct Partition {
    std::string topic;
    std::int32_t partition = 0;
    ErrorCode error = ErrorCode::kNone;
    std::string error_message;
    std::vector<Producer> producers;
  };
  struct Response {
    std::vector<Partition> partitions;
  };
  static Response Decode(Reader& r);
};

struct ListOffsets {
  static constexpr Api kApi{ApiKey::kListOffsets, "ListOffsets", 6, 6, 6};
  std::int8_t isolation = 0;
  std::vector<TopicPartitions> topics;  ///< Always their latest offsets.
  void Encode(Writer& w) const;

  struct Partition {
    std::string topic;
    std::int32_t partition = 0;
    ErrorCode error = ErrorCode::kNone;
    std::int64_t offset = -1;
  };
  struct Response {
    std::vector<Partition> partitions;
  };
  static Response Decode(Reader& r);
};

struct Fetch {
  static constexpr Api kApi{ApiKey::kFetch, "Fetch", 12, 12, 12};
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::int32_t max_bytes = 0;
  void Encode(Writer& w) const;

  struct Response {
    ErrorCode error = ErrorCode::kNone;  ///< The request's or the partition's.
    std::int64_t high_watermark = -1;
    std::int64_t last_stable_offset = -1;
    std::int64_t log_start_offset = -1;
    std::string records;  ///< Record batches; the last one may be cut off.
  };
  static Response Decode(Reader& r);
};

}  // namespace lockstep::wire::protocol
