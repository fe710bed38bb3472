#include "wire/messages.h"

#include <chrono>

#include "wire/protocol/records.h"

namespace lockstep::testing {
namespace {

constexpr std::int32_t kTimeoutMs = 10'000;
constexpr std::int16_t kTransactionalBit = 0x10;
constexpr std::int16_t kControlBit = 0x20;

std::string EncodeRecord(std::int64_t offset_delta, const std::optional<std::string>& key,
                         const std::string& value) {
  Writer body(2, false);
  body.Int8(0);    // attributes
  body.Varint(0);  // timestamp delta
  body.Varint(offset_delta);
  body.Varint(key ? static_cast<std::int64_t>(key->size()) : -1);
  body.Raw(key.value_or(""));
  body.Varint(static_cast<std::int64_t>(value.size()));
  body.Raw(value);
  body.Varint(0);  // headers
  const std::string bytes = body.Take();
  Writer record(2, false);
  record.Varint(static_cast<std::int64_t>(bytes.size()));
  record.Raw(bytes);
  return record.Take();
}

std::string EncodeBatch(std::int64_t base_offset, std::int16_t attributes, const RecordBatch& batch,
                        std::int32_t count, const std::string& records) {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  Writer checked(2, false);
  checked.Int16(attributes);
  checked.Int32(count - 1);  // last offset delta
  checked.Int64(now);        // base and max timestamp
  checked.Int64(now);
  checked.Int64(batch.producer_id);
  checked.Int16(batch.producer_epoch);
  checked.Int32(batch.base_sequence);
  checked.Int32(count);
  checked.Raw(records);
  const std::string bytes = checked.Take();

  Writer whole(2, false);
  whole.Int64(base_offset);
  whole.Int32(static_cast<std::int32_t>(4 + 1 + 4 + bytes.size()));
  whole.Int32(-1);  // leader epoch
  whole.Int8(2);    // magic
  whole.Int32(static_cast<std::int32_t>(wire::protocol::Crc32c(bytes)));
  whole.Raw(bytes);
  return whole.Take();
}

}  // namespace

void AddPartitionsToTxn::Encode(Writer& w) const {
  w.String(transactional_id);
  w.Int64(producer_id);
  w.Int16(producer_epoch);
  EncodeTopics(w, topics);
  w.NoTags();
}

AddPartitionsToTxn::Response AddPartitionsToTxn::Decode(Reader& r) {
  r.Int32();  // throttle time
  Response response{wire::protocol::DecodePartitions<Partition>(r, [&] {
    Partition partition;
    partition.partition = r.Int32();
    partition.error = r.Error();
    return partition;
  })};
  r.SkipTags();
  return response;
}

void Produce::Encode(Writer& w) const {
  w.NullableString(transactional_id);
  w.Int16(-1);  // acks: all
  w.Int32(kTimeoutMs);
  w.ArrayCount(1);
  w.String(topic);
  w.ArrayCount(1);
  w.Int32(partition);
  w.Bytes(records);
  w.NoTags();
  w.NoTags();
  w.NoTags();
}

Produce::Response Produce::Decode(Reader& r) {
  Response response;
  r.SkipArray([&] {
    r.String();  // topic
    response = wire::protocol::DecodeOnly<Response>(r, [&] {
      Response one;
      r.Int32();  // partition
      one.error = r.Error();
      one.base_offset = r.Int64();
      r.Int64();         // log append time
      r.Int64();         // log start offset
      r.SkipArray([&] {  // errors of single records
        r.Int32();
        r.NullableString();
        r.SkipTags();
      });
      one.error_message = r.NullableString().value_or("");
      return one;
    });
    r.SkipTags();
  });
  r.Int32();  // throttle time
  r.SkipTags();
  return response;
}

void AddOffsetsToTxn::Encode(Writer& w) const {
  w.String(transactional_id);
  w.Int64(producer_id);
  w.Int16(producer_epoch);
  w.String(group_id);
  w.NoTags();
}

AddOffsetsToTxn::Response AddOffsetsToTxn::Decode(Reader& r) {
  r.Int32();  // throttle time
  Response response{r.Error()};
  r.SkipTags();
  return response;
}

void TxnOffsetCommit::Encode(Writer& w) const {
  w.String(transactional_id);
  w.String(group_id);
  w.Int64(producer_id);
  w.Int16(producer_epoch);
  w.Int32(generation);
  w.String(member_id);
  w.NullableString(group_instance_id);
  w.ArrayCount(1);
  w.String(topic);
  w.ArrayCount(1);
  w.Int32(partition);
  w.Int64(offset);
  w.Int32(-1);  // leader epoch
  w.NullableString(std::nullopt);
  w.NoTags();
  w.NoTags();
  w.NoTags();
}

TxnOffsetCommit::Response TxnOffsetCommit::Decode(Reader& r) {
  r.Int32();  // throttle time
  Response response;
  r.SkipArray([&] {
    r.String();  // topic
    response = wire::protocol::DecodeOnly<Response>(r, [&] {
      r.Int32();  // partition
      return Response{r.Error()};
    });
    r.SkipTags();
  });
  r.SkipTags();
  return response;
}

void ConsumerGroupHeartbeat::Encode(Writer& w) const {
  w.String(group_id);
  w.String("");  // member id: the coordinator makes one
  w.Int32(0);    // member epoch: joining
  w.NullableString(std::nullopt);
  w.NullableString(std::nullopt);
  w.Int32(kTimeoutMs);
  w.ArrayCount(1);
  w.String(topic);
  w.NullableString(std::nullopt);
  w.ArrayCount(0);
  w.NoTags();
}

ConsumerGroupHeartbeat::Response ConsumerGroupHeartbeat::Decode(Reader& r) {
  constexpr std::size_t kUuidSize = 16;
  Response response;
  r.Int32();  // throttle time
  response.error = r.Error();
  response.error_message = r.NullableString().value_or("");
  response.member_id = r.NullableString().value_or("");
  response.member_epoch = r.Int32();
  r.Int32();            // heartbeat interval
  if (r.Int8() >= 0) {  // an assignment, which may be null
    r.SkipArray([&] {
      r.Raw(kUuidSize);
      r.SkipArray([&] { r.Int32(); });
      r.SkipTags();
    });
    r.SkipTags();
  }
  r.SkipTags();
  return response;
}

void CreateTopics::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.String(topic);
  w.Int32(partitions);
  w.Int16(replication_factor);
  w.ArrayCount(0);  // assignments
  w.Array(configs, [&](const auto& config) {
    w.String(config.first);
    w.String(config.second);
    w.NoTags();
  });
  w.NoTags();
  w.Int32(kTimeoutMs);
  w.Bool(false);  // validate only
  w.NoTags();
}

CreateTopics::Response CreateTopics::Decode(Reader& r) {
  r.Int32();  // throttle time
  auto response = wire::protocol::DecodeOnly<Response>(r, [&] {
    Response one;
    r.String();  // topic
    one.error = r.Error();
    one.error_message = r.NullableString().value_or("");
    r.Int32();         // partitions
    r.Int16();         // replication factor
    r.SkipArray([&] {  // configs
      r.String();
      r.NullableString();
      r.Bool();
      r.Int8();
      r.Bool();
      r.SkipTags();
    });
    return one;
  });
  r.SkipTags();
  return response;
}

std::string EncodeRecordBatch(const RecordBatch& batch) {
  std::string records;
  std::int32_t count = 0;
  for (const std::string& value : batch.values) {
    records += EncodeRecord(count++, std::nullopt, value);
  }
  return EncodeBatch(0, batch.transactional ? kTransactionalBit : 0, batch, count, records);
}

std::string EncodeMarker(std::int64_t offset, std::int64_t producer_id, std::int16_t producer_epoch,
                         bool commit) {
  Writer key(0, false);
  key.Int16(0);  // version
  key.Int16(commit ? 1 : 0);
  Writer value(0, false);
  value.Int16(0);  // version
  value.Int32(0);  // coordinator epoch
  RecordBatch batch;
  batch.producer_id = producer_id;
  batch.producer_epoch = producer_epoch;
  return EncodeBatch(offset, kTransactionalBit | kControlBit, batch, 1,
                     EncodeRecord(0, key.Take(), value.Take()));
}

// ---- ACLs ---------------------------------------------------------------------------------------

namespace {
constexpr std::int8_t kAny = 1;
constexpr std::int8_t kAllow = 3;
constexpr std::int8_t kLiteral = 3;
constexpr std::int8_t kPrefixed = 4;
}  // namespace

void CreateAcls::Encode(Writer& w) const {
  w.Array(entries, [&](const AclEntry& entry) {
    const bool prefix = entry.name.size() > 1 && entry.name.back() == '*';
    w.Int8(static_cast<std::int8_t>(entry.resource));
    w.String(prefix ? entry.name.substr(0, entry.name.size() - 1) : entry.name);
    w.Int8(prefix ? kPrefixed : kLiteral);
    w.String(entry.principal);
    w.String("*");
    w.Int8(static_cast<std::int8_t>(entry.operation));
    w.Int8(kAllow);
    w.NoTags();
  });
  w.NoTags();
}

CreateAcls::Response CreateAcls::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  r.SkipArray([&] {
    const ErrorCode error = r.Error();
    const std::string message = r.NullableString().value_or("");
    r.SkipTags();
    if (error != ErrorCode::kNone && response.error == ErrorCode::kNone) {
      response = {error, message};
    }
  });
  r.SkipTags();
  return response;
}

void DeleteAcls::Encode(Writer& w) const {
  w.ArrayCount(1);
  w.Int8(kAny);  // resource type
  w.NullableString(std::nullopt);
  w.Int8(kAny);  // pattern type
  w.NullableString(principal);
  w.NullableString(std::nullopt);
  w.Int8(kAny);  // operation
  w.Int8(kAny);  // permission
  w.NoTags();
  w.NoTags();
}

DeleteAcls::Response DeleteAcls::Decode(Reader& r) {
  Response response;
  r.Int32();  // throttle time
  r.SkipArray([&] {
    response.error = r.Error();
    r.NullableString();
    r.SkipArray([&] {
      r.Error();
      r.NullableString();
      r.Int8();
      r.String();
      r.Int8();
      r.String();
      r.String();
      r.Int8();
      r.Int8();
      r.SkipTags();
      ++response.deleted;
    });
    r.SkipTags();
  });
  r.SkipTags();
  return response;
}

}  // namespace lockstep::testing
