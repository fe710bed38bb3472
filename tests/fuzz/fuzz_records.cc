// Record batches and the control records in them. A control batch is believed only with its
// checksum, which no search by chance finds: the first byte tells whether all are mended first.

#include "fuzz.h"
#include "wire/protocol/records.h"

namespace lockstep::wire::protocol {
namespace {

using fuzz::Require;

constexpr std::size_t kSizeAt = 8;
constexpr std::size_t kBatchAt = 12;
constexpr std::size_t kCrcAt = 17;
constexpr std::size_t kCheckedAt = 21;

void MendChecksums(std::string& records) {
  std::size_t at = 0;
  while (records.size() - at >= kCheckedAt) {
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      size = size << 8U | static_cast<std::uint8_t>(records[at + kSizeAt + i]);
    }
    const std::size_t whole = kBatchAt + size;
    if (whole < kCheckedAt || whole > records.size() - at) return;
    const std::uint32_t crc =
        Crc32c(std::string_view(records).substr(at + kCheckedAt, whole - kCheckedAt));
    for (std::size_t i = 0; i < 4; ++i) {
      records[at + kCrcAt + i] = static_cast<char>(crc >> (24 - 8 * i));
    }
    at += whole;
  }
}

void Check(const ScannedRecords& scanned) {
  std::int64_t last = -1;
  for (const Marker& marker : scanned.markers) {
    Require(marker.offset > last, "markers come in the order of their offsets");
    Require(marker.offset < scanned.next_offset, "a marker stands before the end");
    last = marker.offset;
  }
}

}  // namespace
}  // namespace lockstep::wire::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::wire::protocol;
  lockstep::fuzz::Input input(data, size);
  const bool mend = input.Byte() % 2 == 0;
  std::string records(input.Rest());
  if (mend) MendChecksums(records);
  const auto scanned = ScanRecords(records);
  if (!scanned.ok()) return 0;
  Check(*scanned);
  // A broker cuts an answer off anywhere: what was seen of it stays true.
  records.resize(records.size() / 2);
  const auto half = ScanRecords(records);
  lockstep::fuzz::Require(half.ok() && half->markers.size() <= scanned->markers.size(),
                          "half of what can be read can be read, and shows no more");
  return 0;
}
