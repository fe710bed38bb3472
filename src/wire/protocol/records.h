#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Record batches (format v2, KIP-98), as far as end-of-transaction markers need them: headers are
/// read, records are not, except those of control batches.
namespace lockstep::wire::protocol {

/// CRC-32C (Castagnoli), as record batches carry it.
std::uint32_t Crc32c(std::string_view bytes);

/// A control batch that ends a transaction.
struct Marker {
  std::int64_t offset = 0;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  bool commit = false;
};

struct ScannedRecords {
  std::vector<Marker> markers;    ///< Oldest first.
  std::int64_t next_offset = -1;  ///< After the last whole batch; -1 if there is none.
};

/// Walks over the batches of a fetch answer. A batch that is cut off at the end is left out, as
/// brokers cut answers wherever their limit falls. Control batches that end no transaction, and
/// batches of the older formats (which know no transactions), are passed over. Anything that
/// contradicts itself, a control batch's checksum included: kCorrupt.
Result<ScannedRecords> ScanRecords(std::string_view records);

}  // namespace lockstep::wire::protocol
