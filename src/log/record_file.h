#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::log {

/// Looks through a record file of RocksDB (a write-ahead log, a MANIFEST) for damage that RocksDB
/// takes for the end of the file. Returns what is wrong; none if nothing is.
///
/// RocksDB checks a record's checksum only after it has believed the length and the type. A damaged
/// length that reaches beyond the end of the file looks like a write that a crash cut short; a
/// header of zeros like space that was never written; a type with one bit flipped like a left-over
/// of a recycled file. Each time RocksDB drops, without a word, every record from there on, synced
/// ones included (7.8, in all recovery modes but kAbsoluteConsistency, which refuses after a
/// crash). So: where the records end before the file does, what is left must be a part of one
/// record. It is damage if the record is all there under another header, or if whole records
/// follow.
///
/// The format: blocks of 32 KiB; in each, records of checksum(4), length(2), type(1) and payload.
std::optional<std::string> FindHiddenDamage(std::string_view file);

}  // namespace lockstep::log
