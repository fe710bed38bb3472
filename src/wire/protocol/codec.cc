#include "wire/protocol/codec.h"

#include <limits>

#include "base/planted.h"

namespace lockstep::wire::protocol {
namespace {

constexpr int kVarintBits = 7;
constexpr std::uint8_t kVarintMore = 0x80;

void AppendBigEndian(std::string& bytes, std::uint64_t value, int size) {
  for (int shift = (size - 1) * 8; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  }
}

void AppendVarint(std::string& bytes, std::uint64_t value) {
  while (value >= kVarintMore) {
    bytes += static_cast<char>(value | kVarintMore);
    value >>= kVarintBits;
  }
  bytes += static_cast<char>(value);
}

}  // namespace

void Writer::Int8(std::int8_t value) { bytes_ += static_cast<char>(value); }
void Writer::Int16(std::int16_t value) {
  AppendBigEndian(bytes_, static_cast<std::uint16_t>(value), 2);
}
void Writer::Int32(std::int32_t value) {
  AppendBigEndian(bytes_, static_cast<std::uint32_t>(value), 4);
}
void Writer::Int64(std::int64_t value) {
  AppendBigEndian(bytes_, static_cast<std::uint64_t>(value), 8);
}
void Writer::UnsignedVarint(std::uint32_t value) { AppendVarint(bytes_, value); }
void Writer::Varint(std::int64_t value) {
  AppendVarint(bytes_,
               (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63));
}

void Writer::String(std::string_view value) {
  if (flexible_) {
    UnsignedVarint(static_cast<std::uint32_t>(value.size()) + 1);
  } else {
    Int16(static_cast<std::int16_t>(value.size()));
  }
  Raw(value);
}

void Writer::NullableString(const std::optional<std::string>& value) {
  if (value) {
    String(*value);
  } else if (flexible_) {
    UnsignedVarint(0);
  } else {
    Int16(-1);
  }
}

void Writer::Bytes(std::string_view value) {
  ArrayCount(value.size());
  Raw(value);
}

void Writer::ArrayCount(std::size_t count) {
  if (flexible_) {
    UnsignedVarint(static_cast<std::uint32_t>(count) + 1);
  } else {
    Int32(static_cast<std::int32_t>(count));
  }
}

void Writer::NullArray() {
  if (flexible_) {
    UnsignedVarint(0);
  } else {
    Int32(-1);
  }
}

void Writer::NoTags() {
  if (flexible_) UnsignedVarint(0);
}

void Reader::Fail(const char* problem) {
  if (problem_ == nullptr) problem_ = problem;
  bytes_ = {};
}

std::string_view Reader::Raw(std::size_t size) {
  if (size > bytes_.size() + (Planted(PlantedBug::kLengthOneTooFar) ? 1 : 0)) {
    Fail("it ends too early");
    return {};
  }
  const std::string_view taken = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return taken;
}

std::uint64_t Reader::Number(std::size_t size) {
  std::uint64_t value = 0;
  for (char byte : Raw(size)) value = (value << 8U) | static_cast<std::uint8_t>(byte);
  return value;
}

std::uint32_t Reader::UnsignedVarint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 5 * kVarintBits; shift += kVarintBits) {
    const auto byte = static_cast<std::uint8_t>(Number(1));
    value |= static_cast<std::uint64_t>(byte & ~kVarintMore) << shift;
    if ((byte & kVarintMore) == 0) {
      if (value <= std::numeric_limits<std::uint32_t>::max()) {
        return static_cast<std::uint32_t>(value);
      }
      break;
    }
  }
  Fail("a varint is too long");
  return 0;
}

std::int64_t Reader::Varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += kVarintBits) {
    const auto byte = static_cast<std::uint8_t>(Number(1));
    value |= static_cast<std::uint64_t>(byte & ~kVarintMore) << shift;
    if ((byte & kVarintMore) == 0) {
      return static_cast<std::int64_t>(value >> 1U) ^ -static_cast<std::int64_t>(value & 1U);
    }
  }
  Fail("a varint is too long");
  return 0;
}

std::size_t Reader::SizePlusOne(bool wide) {
  if (flexible_) return UnsignedVarint();
  const std::int64_t size = wide ? Int32() : Int16();
  if (size < -1) Fail("a size is negative");
  return ok() ? static_cast<std::size_t>(size + 1) : 0;
}

std::string Reader::String() {
  const std::size_t size = SizePlusOne(false);
  if (size == 0) {
    Fail("a string that must be there is null");
    return {};
  }
  return std::string(Raw(size - 1));
}

std::optional<std::string> Reader::NullableString() {
  const std::size_t size = SizePlusOne(false);
  if (size == 0 || !ok()) return std::nullopt;
  return std::string(Raw(size - 1));
}

std::string_view Reader::Bytes() {
  const std::size_t size = SizePlusOne(true);
  return size == 0 ? std::string_view{} : Raw(size - 1);
}

std::size_t Reader::ArrayCount() {
  const std::size_t size = SizePlusOne(true);
  if (size == 0) return 0;
  // Each item takes a byte at least, so a count beyond that is a lie: refused before any loop.
  if (size - 1 > remaining()) {
    Fail("an array claims more items than there are bytes");
    return 0;
  }
  return size - 1;
}

void Reader::SkipTags() {
  Tags([](std::uint32_t, Reader&) {});
}

Status Reader::Finish(std::string_view what) const {
  const char* problem = problem_;
  if (problem == nullptr && remaining() > 0) problem = "it is longer than its version allows";
  if (problem == nullptr) return {};
  return MakeError(Code::kCorrupt, std::string(what) + " cannot be decoded: " + problem,
                   Effect::kUnknown);
}

std::string EncodeHeader(const Api& api, std::int16_t version, std::int32_t correlation_id,
                         const std::string& client_id) {
  Writer w(version, false);
  w.Int16(static_cast<std::int16_t>(api.key));
  w.Int16(version);
  w.Int32(correlation_id);
  w.String(client_id);  // Classic even in the flexible header, so that any broker can read it.
  if (version >= api.flexible_from) w.UnsignedVarint(0);
  return w.Take();
}

}  // namespace lockstep::wire::protocol
