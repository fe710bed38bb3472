#include "log/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "log/errors.h"
#include "log/record_file.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kFormatFile = "FORMAT";
constexpr std::string_view kCreatingFile = "CREATING";
constexpr std::string_view kOwnerFile = "OWNER";
constexpr std::string_view kFormatTitle = "Lockstep decision log\nformat ";

std::string Named(const stdfs::path& folder) {
  return "decision log folder '" + folder.string() + "'";
}

std::string File(const stdfs::path& folder, std::string_view name) {
  return (folder / name).string();
}

Status SyncFolder(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  std::unique_ptr<rocksdb::FSDirectory> directory;
  rocksdb::IOStatus io = fs.NewDirectory(folder.string(), {}, &directory, nullptr);
  if (io.ok()) io = directory->FsyncWithDirOptions({}, nullptr, {});
  if (!io.ok()) return FromRocks(folder, "syncing the folder", io);
  return {};
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

/// Who holds the lock, by its own word. Empty if it has not got round to it.
std::string ReadOwner(int fd) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return {};
  const std::string_view line(text.data(), static_cast<std::size_t>(size));
  return std::string(line.substr(0, line.find('\n')));
}

/// What RocksDB and we make: what a crashed creation may have left.
bool IsOurs(std::string_view name) {
  for (const std::string_view start : {"MANIFEST-", "OPTIONS-", "FORMAT."}) {
    if (name.starts_with(start)) return true;
  }
  for (const std::string_view end : {".log", ".sst", ".dbtmp"}) {
    if (name.ends_with(end)) return true;
  }
  return name == "CURRENT" || name == "IDENTITY";
}

Result<std::vector<std::string>> List(const stdfs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (stdfs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return FromErrno(folder, "listing the folder", error.value());
  return names;
}

Result<int> ReadFormat(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  std::string text;
  const auto io = rocksdb::ReadFileToString(&fs, File(folder, kFormatFile), &text);
  if (!io.ok()) return FromRocks(folder, "reading FORMAT", io);
  int format = 0;
  if (text.starts_with(kFormatTitle) && text.ends_with('\n')) {
    const char* begin = text.data() + kFormatTitle.size();
    const char* end = text.data() + text.size() - 1;
    const auto parsed = std::from_chars(begin, end, format);
    if (parsed.ec == std::errc{} && parsed.ptr == end && format > 0) return format;
  }
  return Damaged(folder, "the file FORMAT does not name a format");
}

Result<FolderState> UnfinishedState(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  std::string text;
  const auto io = rocksdb::ReadFileToString(&fs, File(folder, kCreatingFile), &text);
  if (!io.ok()) return FromRocks(folder, "reading CREATING", io);
  return text.empty() ? FolderState::kUnfinished : FolderState::kUnfinishedRestore;
}

Error NotOurs(const stdfs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "CURRENT") {
      return MakeError(Code::kInvalidArgument,
                       Named(folder) +
                           " holds a RocksDB database that is not a decision log (it has no file "
                           "FORMAT): name another folder");
    }
  }
  return MakeError(Code::kInvalidArgument,
                   Named(folder) + " holds other files ('" + names.front() +
                       "') and no decision log: name a folder that is empty or does not exist");
}

}  // namespace

Error RestoreAgain(const stdfs::path& folder) {
  return MakeError(Code::kFailedPrecondition,
                   "a restore into " + Named(folder) +
                       " did not end: restore again, or empty the folder for a new log");
}

Result<FolderLock> FolderLock::Take(const stdfs::path& folder) {
  const int fd = ::open(File(folder, kOwnerFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return FromErrno(folder, "opening the file OWNER", errno);
  FolderLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno(folder, "locking the file OWNER", errno);
    const std::string owner = ReadOwner(fd);
    return MakeError(Code::kFailedPrecondition,
                     Named(folder) + " is in use by " +
                         (owner.empty() ? std::string("another process") : owner) +
                         ": one lockstepd a folder; stop that one, or name another folder");
  }
  // Only for people: a full disk must not turn this into a failure, nor a stale line mislead.
  const std::string owner = "pid " + std::to_string(::getpid()) + " on " + HostName() + "\n";
  if (::ftruncate(fd, 0) == 0 &&
      ::pwrite(fd, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    std::ignore = ::ftruncate(fd, 0);
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FolderState> Inspect(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  std::error_code error;
  const stdfs::file_status status = stdfs::status(folder, error);
  if (status.type() == stdfs::file_type::not_found) {
    return MakeError(Code::kNotFound,
                     Named(folder) + " does not exist: if there was one, is its volume mounted?");
  }
  if (error) return FromErrno(folder, "looking at the folder", error.value());
  if (!stdfs::is_directory(status)) {
    return MakeError(Code::kInvalidArgument,
                     Named(folder) + " is not a folder: name a folder of its own for the log");
  }
  const Result<std::vector<std::string>> names = List(folder);
  if (!names.ok()) return names.error();
  std::vector<std::string> others;
  bool creating = false;
  for (const std::string& name : *names) {
    if (name == kFormatFile) {
      const Result<int> format = ReadFormat(fs, folder);
      if (!format.ok()) return format.error();
      if (*format <= kFolderFormat) return FolderState::kReady;
      return MakeError(Code::kFailedPrecondition,
                       Named(folder) + " has format " + std::to_string(*format) +
                           ", this lockstepd reads up to " + std::to_string(kFolderFormat) +
                           ": run the newer lockstepd; nothing was changed");
    }
    if (name == kCreatingFile) creating = true;
    // A volume's root has lost+found; OWNER alone is left by a crash before anything was made.
    if (name != kOwnerFile && name != "lost+found") others.push_back(name);
  }
  if (creating) return UnfinishedState(fs, folder);
  if (others.empty()) return FolderState::kEmpty;
  return NotOurs(folder, others);
}

Status MakeFolder(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  const stdfs::path parent = stdfs::absolute(folder).parent_path();
  std::error_code error;
  if (!stdfs::exists(parent, error) && !error) {
    return MakeError(Code::kNotFound, Named(folder) + " cannot be made: its parent folder '" +
                                          parent.string() + "' does not exist");
  }
  const rocksdb::IOStatus io = fs.CreateDirIfMissing(folder.string(), {}, nullptr);
  if (!io.ok()) return FromRocks(folder, "making the folder", io);
  return SyncFolder(fs, parent);
}

Status CheckRecordFiles(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  const Result<std::vector<std::string>> names = List(folder);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    if (!name.ends_with(".log") && !name.starts_with("MANIFEST-")) continue;
    std::string bytes;
    const auto io = rocksdb::ReadFileToString(&fs, File(folder, name), &bytes);
    if (io.IsPathNotFound()) continue;  // Dump only: the log is open elsewhere, and went on.
    if (!io.ok()) return FromRocks(folder, "reading the file " + name, io);
    if (const auto damage = FindHiddenDamage(bytes)) return Damaged(folder, name + ": " + *damage);
  }
  return {};
}

Status BeginCreation(rocksdb::FileSystem& fs, const stdfs::path& folder, Creation creation) {
  // Durable before the first file of the database: what is found beside it later is ours to remove.
  const auto io =
      rocksdb::WriteStringToFile(&fs, creation == Creation::kRestore ? "of a backup\n" : "",
                                 File(folder, kCreatingFile), true);
  if (!io.ok()) return FromRocks(folder, "writing the file CREATING", io);
  if (Status synced = SyncFolder(fs, folder); !synced.ok()) return synced;
  const Result<std::vector<std::string>> names = List(folder);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    if (!IsOurs(name)) continue;
    const auto removed = fs.DeleteFile(File(folder, name), {}, nullptr);
    if (!removed.ok()) return FromRocks(folder, "removing an unfinished log", removed);
  }
  return SyncFolder(fs, folder);
}

Status FinishCreation(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  const std::string temporary = File(folder, "FORMAT.tmp");
  const std::string text = std::string(kFormatTitle) + std::to_string(kFolderFormat) + "\n";
  auto io = rocksdb::WriteStringToFile(&fs, text, temporary, true);
  if (io.ok()) io = fs.RenameFile(temporary, File(folder, kFormatFile), {}, nullptr);
  if (!io.ok()) return FromRocks(folder, "writing the file FORMAT", io);
  if (Status synced = SyncFolder(fs, folder); !synced.ok()) return synced;
  return EndCreation(fs, folder);
}

Status EndCreation(rocksdb::FileSystem& fs, const stdfs::path& folder) {
  const std::string creating = File(folder, kCreatingFile);
  if (fs.FileExists(creating, {}, nullptr).IsNotFound()) return {};
  const auto io = fs.DeleteFile(creating, {}, nullptr);
  if (!io.ok()) return FromRocks(folder, "removing the file CREATING", io);
  return SyncFolder(fs, folder);
}

}  // namespace lockstep::log
