#include "cli/backup_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace lockstep::cli {
namespace {

Error Failed(const std::string& doing, const std::string& name, int error_number) {
  return MakeError(error_number == ENOSPC ? Code::kResourceExhausted : Code::kUnavailable,
                   doing + " " + name + ": " + std::strerror(error_number));
}

Status SyncFolder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed("opening", folder.string(), errno);
  const bool synced = ::fsync(fd) == 0;
  const int why = errno;
  ::close(fd);
  if (!synced) return Failed("syncing", folder.string(), why);
  return {};
}

}  // namespace

BackupFile::~BackupFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status BackupFile::Open(const std::filesystem::path& beside) {
  temporary_ = beside.string() + ".unfinished-XXXXXX";
  fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) return Failed("making", temporary_, errno);
  return {};
}

Status BackupFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("writing", temporary_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status BackupFile::Keep(const std::filesystem::path& name) {
  if (::fsync(fd_) != 0) return Failed("syncing", temporary_, errno);
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EEXIST) return Failed("renaming to", name.string(), errno);
    return MakeError(Code::kFailedPrecondition,
                     name.string() + " exists, and is not overwritten: name another file");
  }
  ::close(std::exchange(fd_, -1));
  return SyncFolder(std::filesystem::absolute(name).parent_path());
}

}  // namespace lockstep::cli
