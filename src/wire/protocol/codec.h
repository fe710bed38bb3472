#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/errors.h"

/// Kafka's wire encoding (KIP-482): big-endian numbers, and for strings and arrays either the
/// classic form (length as int16 or int32) or the flexible one (unsigned varint of length + 1, and
/// tagged fields after each structure).
namespace lockstep::wire::protocol {

/// Api keys, as the schemas in the kafka-clients jar (common/message/*.json) number them.
enum class ApiKey : std::int16_t {
  kProduce = 0,
  kFetch = 1,
  kListOffsets = 2,
  kMetadata = 3,
  kFindCoordinator = 10,
  kDescribeGroups = 15,
  kSaslHandshake = 17,
  kApiVersions = 18,
  kCreateTopics = 19,
  kInitProducerId = 22,
  kAddPartitionsToTxn = 24,
  kAddOffsetsToTxn = 25,
  kEndTxn = 26,
  kWriteTxnMarkers = 27,
  kTxnOffsetCommit = 28,
  kDescribeConfigs = 32,
  kSaslAuthenticate = 36,
  kDescribeQuorum = 55,
  kDescribeProducers = 61,
  kDescribeTransactions = 65,
  kListTransactions = 66,
  kConsumerGroupDescribe = 69,
};

/// One API and the versions of it that are spoken here.
struct Api {
  ApiKey key;
  const char* name;  ///< For messages.
  std::int16_t min_version;
  std::int16_t max_version;
  std::int16_t flexible_from;
  bool changes = false;  ///< A lost answer leaves an effect unknown.
};

/// Writes one request or part of it. `flexible` picks the form; `version` is for the encoders.
class Writer {
 public:
  Writer(std::int16_t version, bool flexible) : version_(version), flexible_(flexible) {}

  std::int16_t version() const { return version_; }

  void Bool(bool value) { Int8(value ? 1 : 0); }
  void Int8(std::int8_t value);
  void Int16(std::int16_t value);
  void Int32(std::int32_t value);
  void Int64(std::int64_t value);
  void Error(ErrorCode value) { Int16(static_cast<std::int16_t>(value)); }
  void UnsignedVarint(std::uint32_t value);
  void Varint(std::int64_t value);  ///< Zigzag, as in record batches.
  void Raw(std::string_view bytes) { bytes_ += bytes; }

  void String(std::string_view value);
  void NullableString(const std::optional<std::string>& value);
  void Bytes(std::string_view value);
  void ArrayCount(std::size_t count);
  void NullArray();
  /// Closes a structure: no tagged fields. Writes nothing in the classic form.
  void NoTags();

  template <typename Items, typename EncodeItem>
  void Array(const Items& items, EncodeItem encode) {
    ArrayCount(items.size());
    for (const auto& item : items) encode(item);
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::int16_t version_;
  bool flexible_;
  std::string bytes_;
};

/// Reads one response or part of it, and trusts no length in it. The first read that does not fit
/// makes it failed: from then on every read returns zero or nothing, and `Finish` tells. So
/// decoders need no checks of their own, and never allocate more than what was received.
class Reader {
 public:
  /// `bytes` must outlive the reader.
  Reader(std::string_view bytes, std::int16_t version, bool flexible)
      : bytes_(bytes), version_(version), flexible_(flexible) {}

  std::int16_t version() const { return version_; }
  bool ok() const { return problem_ == nullptr; }
  std::size_t remaining() const { return bytes_.size(); }

  bool Bool() { return Int8() != 0; }
  std::int8_t Int8() { return static_cast<std::int8_t>(Number(1)); }
  std::int16_t Int16() { return static_cast<std::int16_t>(Number(2)); }
  std::int32_t Int32() { return static_cast<std::int32_t>(Number(4)); }
  std::int64_t Int64() { return static_cast<std::int64_t>(Number(8)); }
  ErrorCode Error() { return static_cast<ErrorCode>(Int16()); }
  std::uint32_t UnsignedVarint();
  std::int64_t Varint();  ///< Zigzag, as in record batches.
  std::string_view Raw(std::size_t size);

  std::string String();
  std::optional<std::string> NullableString();
  /// A view into what the reader reads; empty for null.
  std::string_view Bytes();
  void SkipTags();

  /// Calls handle(tag, Reader of the field's bytes) for each tagged field.
  template <typename Handle>
  void Tags(Handle handle) {
    if (!flexible_) return;
    for (std::uint32_t left = UnsignedVarint(); left > 0 && ok(); --left) {
      const std::uint32_t tag = UnsignedVarint();
      Reader field(Raw(UnsignedVarint()), version_, flexible_);
      if (!ok()) return;
      handle(tag, field);
      if (!field.ok()) Fail(field.problem_);
    }
  }

  /// Reads an array, empty for null; `decode` reads one item.
  template <typename DecodeItem>
  auto Array(DecodeItem decode) {
    std::vector<decltype(decode())> items;
    for (std::size_t left = ArrayCount(); left > 0 && ok(); --left) items.push_back(decode());
    if (!ok()) items.clear();
    return items;
  }
  /// The same, and drops what was read.
  template <typename DecodeItem>
  void SkipArray(DecodeItem decode) {
    for (std::size_t left = ArrayCount(); left > 0 && ok(); --left) decode();
  }

  /// `problem` is a string constant.
  void Fail(const char* problem);

  /// OK if everything fitted and nothing is left over; else kCorrupt, effect Unknown, naming
  /// `what`.
  Status Finish(std::string_view what) const;

 private:
  std::uint64_t Number(std::size_t size);
  /// The claimed size + 1 of a string or bytes, 0 for null.
  std::size_t SizePlusOne(bool wide);
  std::size_t ArrayCount();

  std::string_view bytes_;
  std::int16_t version_;
  bool flexible_;
  const char* problem_ = nullptr;
};

/// The header of a request, up to its body.
std::string EncodeHeader(const Api& api, std::int16_t version, std::int32_t correlation_id,
                         const std::string& client_id);
/// Whether the answer's header has tagged fields. ApiVersions' never has, so that it can be read
/// before the versions are known.
inline bool HasFlexibleResponseHeader(const Api& api, std::int16_t version) {
  return version >= api.flexible_from && api.key != ApiKey::kApiVersions;
}

}  // namespace lockstep::wire::protocol
