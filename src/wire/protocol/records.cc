#include "wire/protocol/records.h"

#include <array>
#include <optional>

#include "base/planted.h"
#include "wire/protocol/codec.h"

namespace lockstep::wire::protocol {
namespace {

constexpr std::uint32_t kCastagnoliReversed = 0x82F63B78;

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kCastagnoliReversed : 0U);
    }
    table.at(byte) = crc;
  }
  return table;
}
constexpr auto kCrcTable = MakeCrcTable();

constexpr std::size_t kSizeEnd = 12;      // base offset, size: what every format begins with
constexpr std::size_t kMagicOffset = 16;  // after them, the leader epoch (or an old format's CRC)
constexpr std::int64_t kMaxOffset = std::int64_t{1} << 62U;  // leaves room to add
constexpr std::int8_t kMagicV2 = 2;
constexpr std::uint16_t kControlBit = 0x20;
constexpr std::int16_t kAbortMarker = 0;
constexpr std::int16_t kCommitMarker = 1;

Error Corrupt(const char* problem) {
  return MakeError(Code::kCorrupt, std::string("a record batch: ") + problem, Effect::kUnknown);
}

/// Whether a control record's key names a commit or an abort; none for other control records.
std::optional<bool> DecodeControlRecord(Reader& r) {
  r.Varint();  // length
  r.Int8();    // attributes
  r.Varint();  // timestamp and offset deltas
  r.Varint();
  const std::int64_t key_size = r.Varint();
  if (key_size < 0) r.Fail("a control record has no key");
  Reader key(r.Raw(r.ok() ? static_cast<std::size_t>(key_size) : 0), r.version(), false);
  key.Int16();  // version
  const std::int16_t type = key.Int16();
  if (!key.ok()) r.Fail("a control record's key is too short");
  if (type != kAbortMarker && type != kCommitMarker) return std::nullopt;
  return type == kCommitMarker;
}

/// The batch's end offset; a marker, if it is one, is added to `markers`.
Result<std::int64_t> ScanBatch(std::string_view batch, std::vector<Marker>& markers) {
  Reader r(batch, kMagicV2, false);
  const std::int64_t base_offset = r.Int64();
  r.Int32();  // size
  r.Int32();  // leader epoch
  if (base_offset < 0 || base_offset > kMaxOffset) return Corrupt("its offset is out of range");
  if (r.Int8() != kMagicV2) return base_offset + 1;
  const auto crc = static_cast<std::uint32_t>(r.Int32());
  const std::string_view checked = batch.substr(batch.size() - r.remaining());
  const auto attributes = static_cast<std::uint16_t>(r.Int16());
  const std::int32_t last_offset_delta = r.Int32();
  r.Int64();  // base timestamp
  r.Int64();  // max timestamp
  Marker marker;
  marker.offset = base_offset;
  marker.producer_id = r.Int64();
  marker.producer_epoch = r.Int16();
  r.Int32();  // base sequence
  const std::int32_t count = r.Int32();
  if (!r.ok() || last_offset_delta < 0) return Corrupt("its header is broken");
  // Compaction may leave a control batch without its record; it is then nobody's marker any more.
  if ((attributes & kControlBit) != 0 && count > 0) {
    if (Crc32c(checked) != crc) return Corrupt("a control batch has a wrong checksum");
    const std::optional<bool> commit = DecodeControlRecord(r);
    if (!r.ok()) return Corrupt("a control record is broken");
    if (commit) {
      marker.commit = *commit;
      markers.push_back(marker);
    }
  }
  return base_offset + last_offset_delta + 1;
}

}  // namespace

std::uint32_t Crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (char byte : bytes) {
    crc = (crc >> 8U) ^ kCrcTable.at((crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU);
  }
  return ~crc;
}

Result<ScannedRecords> ScanRecords(std::string_view records) {
  ScannedRecords scanned;
  while (records.size() > kMagicOffset) {
    Reader r(records, kMagicV2, false);
    const std::int64_t base_offset = r.Int64();
    const std::int32_t size = r.Int32();
    if (size < static_cast<std::int32_t>(kMagicOffset + 1 - kSizeEnd)) {
      return Corrupt("its size is too small");
    }
    const std::size_t whole = kSizeEnd + static_cast<std::size_t>(size);
    if (whole > records.size()) break;
    // Else a later marker could stand before an earlier one, and be taken for the first.
    if (base_offset < scanned.next_offset && !Planted(PlantedBug::kOverlapUnseen)) {
      return Corrupt("its offset goes backwards");
    }
    Result<std::int64_t> next = ScanBatch(records.substr(0, whole), scanned.markers);
    if (!next.ok()) return next.error();
    scanned.next_offset = *next;
    records.remove_prefix(whole);
  }
  return scanned;
}

}  // namespace lockstep::wire::protocol
