#include "wire/protocol/txn_messages.h"

namespace lockstep::wire::protocol {
namespace {

constexpr std::int64_t kLatestTimestamp = -1;
constexpr std::int32_t kNoReplica = -1;
constexpr std::int32_t kLeaderEpochNotKnown = -1;

}  // namespace

// ---- InitProducerId ---------------------------------------------------------------------------

void InitProducerId::Encode(Writer& w) const {
  w.String(transactional_id);
  w.Int32(timeout_ms);
  w.Int64(-1);  // no producer id and epoch that would have to be the current ones
  w.Int16(-1);
  w.NoTags();
}

InitProducerId::Response InitProducerId::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.error = r.Error();
  response.producer_id = r.Int64();
  response.producer_epoch = r.Int16();
  r.SkipTags();
  return response;
}

// ---- EndTxn -----------------------------------------------------------------------------------

void EndTxn::Encode(Writer& w) const {
  w.String(transactional_id);
  w.Int64(producer_id);
  w.Int16(producer_epoch);
  w.Bool(commit);
  w.NoTags();
}

EndTxn::Response EndTxn::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.error = r.Error();
  if (r.version() >= 5) {
    response.producer_id = r.Int64();
    response.producer_epoch = r.Int16();
  }
  r.SkipTags();
  return response;
}

// ---- DescribeTransactions ---------------------------------------------------------------------

void DescribeTransactions::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.String(transactional_id);
  w.NoTags();
}

DescribeTransactions::Response DescribeTransactions::Decode(Reader& r) {
  r.Int32();  // throttle time
  auto response = DecodeOnly<Response>(r, [&] {
    Response one;
    one.error = r.Error();
    one.transactional_id = r.String();
    one.state = r.String();
    one.timeout_ms = r.Int32();
    one.start_time_ms = r.Int64();
    one.producer_id = r.Int64();
    one.producer_epoch = r.Int16();
    one.topics = r.Array([&] {
      TopicPartitions topic;
      topic.topic = r.String();
      topic.partitions = r.Array([&] { return r.Int32(); });
      r.SkipTags();
      return topic;
    });
    return one;
  });
  r.SkipTags();
  return response;
}

// ---- ListTransactions -------------------------------------------------------------------------

void ListTransactions::Encode(Writer& w) const {
  w.Array(states, [&](const std::string& state) { w.String(state); });
  w.ArrayCount(0);  // producer ids: any
  w.NoTags();
}

ListTransactions::Response ListTransactions::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.error = r.Error();
  response.unknown_states = r.Array([&] { return r.String(); });
  response.transactions = r.Array([&] {
    Transaction transaction;
    transaction.transactional_id = r.String();
    transaction.producer_id = r.Int64();
    transaction.state = r.String();
    r.SkipTags();
    return transaction;
  });
  r.SkipTags();
  return response;
}

// ---- WriteTxnMarkers --------------------------------------------------------------------------

void WriteTxnMarkers::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.Int64(producer_id);
  w.Int16(producer_epoch);
  w.Bool(commit);
  EncodeTopics(w, topics);
  w.Int32(coordinator_epoch);
  w.NoTags();
  w.NoTags();
}

WriteTxnMarkers::Response WriteTxnMarkers::Decode(Reader& r) {
  auto response = DecodeOnly<Response>(r, [&] {
    r.Int64();  // producer id
    return Response{DecodePartitions<Partition>(r, [&] {
      Partition partition;
      partition.partition = r.Int32();
      partition.error = r.Error();
      return partition;
    })};
  });
  r.SkipTags();
  return response;
}

// ---- DescribeProducers ------------------------------------------------------------------------

void DescribeProducers::Encode(Writer& w) const {
  EncodeTopics(w, topics);
  w.NoTags();
}

DescribeProducers::Response DescribeProducers::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.partitions = DecodePartitions<Partition>(r, [&] {
    Partition partition;
    partition.partition = r.Int32();
    partition.error = r.Error();
    partition.error_message = r.NullableString().value_or("");
    partition.producers = r.Array([&] {
      Producer producer;
      producer.producer_id = r.Int64();
      producer.producer_epoch = r.Int32();
      r.Int32();  // last sequence
      r.Int64();  // last timestamp
      producer.coordinator_epoch = r.Int32();
      producer.txn_start_offset = r.Int64();
      r.SkipTags();
      return producer;
    });
    return partition;
  });
  r.SkipTags();
  return response;
}

// ---- ListOffsets ------------------------------------------------------------------------------

void ListOffsets::Encode(Writer& w) const {
  w.Int32(kNoReplica);
  w.Int8(isolation);
  w.Array(topics, [&](const TopicPartitions& topic) {
    w.String(topic.topic);
    w.Array(topic.partitions, [&](std::int32_t partition) {
      w.Int32(partition);
      w.Int32(kLeaderEpochNotKnown);
      w.Int64(kLatestTimestamp);
      w.NoTags();
    });
    w.NoTags();
  });
  w.NoTags();
}

ListOffsets::Response ListOffsets::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  response.partitions = DecodePartitions<Partition>(r, [&] {
    Partition partition;
    partition.partition = r.Int32();
    partition.error = r.Error();
    r.Int64();  // timestamp
    partition.offset = r.Int64();
    r.Int32();  // leader epoch
    return partition;
  });
  r.SkipTags();
  return response;
}

// ---- Fetch ------------------------------------------------------------------------------------

void Fetch::Encode(Writer& w) const {
  w.Int32(kNoReplica);
  w.Int32(0);  // max wait and min bytes: answer at once with what there is
  w.Int32(0);
  w.Int32(max_bytes);
  w.Int8(0);   // read uncommitted
  w.Int32(0);  // session id and epoch: no session
  w.Int32(-1);
  w.ArrayCount(1);
  w.String(topic);
  w.ArrayCount(1);
  w.Int32(partition);
  w.Int32(kLeaderEpochNotKnown);
  w.Int64(offset);
  w.Int32(kLeaderEpochNotKnown);  // of what was fetched last
  w.Int64(-1);                    // log start offset: for followers
  w.Int32(max_bytes);
  w.NoTags();
  w.NoTags();
  w.ArrayCount(0);  // forgotten topics
  w.String("");     // rack
  w.NoTags();
}

Fetch::Response Fetch::Decode(Reader& r) {
  r.Int32();  // throttle time
  const ErrorCode error = r.Error();
  r.Int32();  // session id
  Response response;
  r.SkipArray([&] {
    r.String();  // topic
    response = DecodeOnly<Response>(r, [&] {
      Response one;
      r.Int32();  // partition
      one.error = r.Error();
      one.high_watermark = r.Int64();
      one.last_stable_offset = r.Int64();
      one.log_start_offset = r.Int64();
      r.SkipArray([&] {  // aborted transactions
        r.Int64();
        r.Int64();
        r.SkipTags();
      });
      r.Int32();  // preferred read replica
      one.records = std::string(r.Bytes());
      return one;
    });
    r.SkipTags();
  });
  r.SkipTags();
  if (error != ErrorCode::kNone) response.error = error;
  return response;
}

}  // namespace lockstep::wire::protocol
