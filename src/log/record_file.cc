#include "log/record_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::log {
namespace {

constexpr std::size_t kBlock = 32 * 1024;
constexpr std::size_t kHeader = 7;
constexpr std::uint8_t kFirstType = 1;  // A whole record, ...
constexpr std::uint8_t kLastType = 4;   // ... or the first, a middle or the last part of one.

constexpr std::array<std::uint32_t, 256> MakeCrc32cTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}

/// CRC-32C, one byte after the other, in the masked form that RocksDB stores.
class Checksum {
 public:
  void Add(char c) {
    static constexpr std::array<std::uint32_t, 256> kTable = MakeCrc32cTable();
    crc_ = kTable[(crc_ ^ static_cast<std::uint8_t>(c)) & 0xff] ^ (crc_ >> 8);
  }
  std::uint32_t masked() const {
    const std::uint32_t crc = ~crc_;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  }

 private:
  std::uint32_t crc_ = ~std::uint32_t{0};
};

std::uint8_t ByteAt(std::string_view file, std::size_t at) {
  return static_cast<std::uint8_t>(file[at]);
}

struct Header {
  std::uint32_t checksum;
  std::size_t length;
  std::uint8_t type;
};

Header HeaderAt(std::string_view file, std::size_t at) {
  std::uint32_t checksum = 0;
  for (std::size_t i = 4; i-- > 0;) checksum = checksum << 8 | ByteAt(file, at + i);
  const std::size_t length = ByteAt(file, at + 4) | std::size_t{ByteAt(file, at + 5)} << 8;
  return {checksum, length, ByteAt(file, at + 6)};
}

/// How many bytes a payload that begins behind a header at `at` may have.
std::size_t RoomAt(std::string_view file, std::size_t at) {
  return std::min(kBlock - at % kBlock, file.size() - at) - kHeader;
}

bool HasRoomForHeader(std::string_view file, std::size_t at) {
  return kBlock - at % kBlock >= kHeader && file.size() - at >= kHeader;
}

bool IsType(std::uint8_t type) { return type >= kFirstType && type <= kLastType; }

bool IsRecord(std::string_view file, std::size_t at) {
  const Header header = HeaderAt(file, at);
  if (!IsType(header.type) || header.length == 0 || header.length > RoomAt(file, at)) return false;
  Checksum checksum;
  for (std::size_t i = 0; i <= header.length; ++i) checksum.Add(file[at + kHeader - 1 + i]);
  return checksum.masked() == header.checksum;
}

/// The record is all there, only its length or its type says otherwise.
bool IsRecordUnderAnotherHeader(std::string_view file, std::size_t at) {
  const std::uint32_t stored = HeaderAt(file, at).checksum;
  for (std::uint8_t type = kFirstType; type <= kLastType; ++type) {
    Checksum checksum;
    checksum.Add(static_cast<char>(type));
    for (std::size_t i = 0; i < RoomAt(file, at); ++i) {
      checksum.Add(file[at + kHeader + i]);
      if (checksum.masked() == stored) return true;
    }
  }
  return false;
}

/// Where the records end: at the end of the file, or before something that cannot be a record
/// there.
std::size_t EndOfRecords(std::string_view file) {
  std::size_t at = 0;
  while (at < file.size()) {
    if (kBlock - at % kBlock < kHeader) {
      at += kBlock - at % kBlock;
      continue;
    }
    if (!HasRoomForHeader(file, at)) return at;
    const Header header = HeaderAt(file, at);
    if (!IsType(header.type) || header.length > RoomAt(file, at)) return at;
    at += kHeader + header.length;
  }
  return file.size();
}

}  // namespace

std::optional<std::string> FindHiddenDamage(std::string_view file) {
  const std::size_t end = EndOfRecords(file);
  if (end >= file.size()) return std::nullopt;
  const std::string place = "at byte " + std::to_string(end) + " of " + std::to_string(file.size());
  if (HasRoomForHeader(file, end) && IsRecordUnderAnotherHeader(file, end)) {
    return "a record's header is damaged, " + place;
  }
  for (std::size_t at = end + 1; at + kHeader <= file.size(); ++at) {
    if (HasRoomForHeader(file, at) && IsRecord(file, at)) {
      return "no record " + place + ", but whole ones behind it";
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::log
