#include "log/errors.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace lockstep::log {
namespace {

std::string Prefix(const std::filesystem::path& folder, std::string_view doing) {
  return "decision log '" + folder.string() + "': " + std::string(doing) + ": ";
}

Error PermissionDenied(const std::filesystem::path& folder, std::string_view doing,
                       std::string_view text) {
  return MakeError(Code::kPermissionDenied,
                   Prefix(folder, doing) + std::string(text) + " (running as uid " +
                       std::to_string(::geteuid()) +
                       "): let this user read and write the folder and every file in it");
}

Error DiskFull(const std::filesystem::path& folder, std::string_view doing) {
  return MakeError(Code::kResourceExhausted,
                   Prefix(folder, doing) +
                       "no space left on the device: free some or enlarge the volume, then start "
                       "again; nothing that was acknowledged is lost");
}

Error DiskFailed(const std::filesystem::path& folder, std::string_view doing,
                 std::string_view text) {
  return MakeError(Code::kUnavailable, Prefix(folder, doing) + std::string(text) +
                                           ": check the disk and the kernel's messages, then "
                                           "start again");
}

/// RocksDB keeps errno only as text, and wraps it into other failures.
bool Mentions(const std::string& text, int error_number) {
  return text.find(std::strerror(error_number)) != std::string::npos;
}

}  // namespace

Error FromErrno(const std::filesystem::path& folder, std::string_view doing, int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(folder, doing, std::strerror(error_number));
    case ENOSPC:
    case EDQUOT:
      return DiskFull(folder, doing);
    default:
      return DiskFailed(folder, doing, std::strerror(error_number));
  }
}

Error FromRocks(const std::filesystem::path& folder, std::string_view doing,
                const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (status.IsNoSpace() || Mentions(text, EDQUOT)) return DiskFull(folder, doing);
  for (const int denied : {EACCES, EPERM, EROFS}) {
    if (Mentions(text, denied)) return PermissionDenied(folder, doing, text);
  }
  if (status.IsIOError()) {
    if (text.find("/LOCK:") != std::string::npos || text.find("lock hold") != std::string::npos) {
      return MakeError(Code::kFailedPrecondition,
                       Prefix(folder, doing) + text +
                           ": another program holds RocksDB's own lock on it; stop that program");
    }
    // Every file that the database names was there, durably, before it was named.
    if (status.IsPathNotFound()) return Damaged(folder, text);
    return DiskFailed(folder, doing, text);
  }
  if (status.IsCorruption() || status.IsNotFound()) return Damaged(folder, text);
  // What RocksDB says where CURRENT is missing, or tells another database than the one we made.
  if (status.IsInvalidArgument()) return Damaged(folder, text);
  if (status.IsNotSupported()) {
    return MakeError(Code::kFailedPrecondition,
                     Prefix(folder, doing) + text +
                         ": written by a newer RocksDB; run the lockstepd that wrote it");
  }
  return MakeError(Code::kInternal, Prefix(folder, doing) + text);
}

Error Damaged(const std::filesystem::path& folder, std::string_view what) {
  return MakeError(
      Code::kCorrupt,
      "decision log '" + folder.string() + "' is damaged: " + std::string(what) +
          ". It is not repaired by guessing: keep the folder as it is, look into it with "
          "'lockstepctl log dump " +
          folder.string() +
          "', and put back a copy of it if the disk can give one. An empty "
          "folder would start another log, with another identity, that leaves to Kafka's "
          "transaction timeout what this one has left open");
}

}  // namespace lockstep::log
