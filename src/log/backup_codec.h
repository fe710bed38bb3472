#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

/// The bytes of a backup: the entries of a decision log's database, and a mark at the end with the
/// digest of all that came before it, so that a part of a backup is never taken for the whole. See
/// docs/design/log_format.md. Both classes: one thread, no I/O.
namespace lockstep::log {

/// What a backup says of itself.
struct BackupInfo {
  int folder_format = 0;
  LogId log_id;
  Incarnation incarnation;  ///< The start of lockstepd that took it.
  WallTime taken_at;
  std::uint64_t decisions = 0;  ///< About how many it holds: to show progress by.
};

class BackupEncoder {
 public:
  explicit BackupEncoder(const BackupInfo& info);
  ~BackupEncoder();

  void Add(std::string_view key, std::string_view value);
  /// Nothing more comes. Call once.
  void Finish();

  /// How much there is to take.
  std::size_t size() const { return ready_.size(); }
  /// The next `most` bytes, or what there is.
  std::string Take(std::size_t most);

 private:
  struct State;
  void Emit(const std::string& frame);
  void EmitRecords();

  std::string ready_;
  std::uint64_t records_ = 0;
  std::unique_ptr<State> state_;
};

/// Reads a backup in pieces of any size. What it tells on the way is certain only once Finish says
/// OK. After an error nothing more may be fed.
class BackupDecoder {
 public:
  /// Takes one entry; an error ends the reading with it.
  using OnRecord = std::function<Status(std::string_view key, std::string_view value)>;

  explicit BackupDecoder(OnRecord on_record);
  ~BackupDecoder();

  /// kCorrupt: not the bytes of a backup, or changed ones. kFailedPrecondition: a newer
  /// lockstepd's.
  Status Feed(std::string_view bytes);
  /// There are no more bytes. kCorrupt if the end of the backup is missing.
  Status Finish() const;

  /// From the first frame on.
  const std::optional<BackupInfo>& info() const { return info_; }
  std::uint64_t records() const { return records_; }

 private:
  struct State;
  Status TakeTitle();
  Status TakeFrame(std::string_view length, std::string_view frame);

  OnRecord on_record_;
  std::string pending_;  // Not yet a whole frame.
  bool titled_ = false;
  bool ended_ = false;
  std::optional<BackupInfo> info_;
  std::uint64_t records_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::log
