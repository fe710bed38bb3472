// Preloaded into a process, this makes a disk full, or bad, without a disk of its own, and without
// any right:
//
//   LD_PRELOAD=...  LOCKSTEP_FULL_DISK=FOLDER  program
//
// While the file FOLDER.full exists, the program's writes to files in FOLDER fail with ENOSPC; the
// first one of the process is cut short before, as by a disk that fills up in the middle of it.
// While FOLDER.bad exists, its syncs there fail with EIO; while FOLDER.slow exists, each takes a
// fifth of a second longer.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// Whether `fd` is a file in the folder and FOLDER.`how` exists.
bool Is(const char* how, int fd) {
  const char* folder = std::getenv("LOCKSTEP_FULL_DISK");
  if (folder == nullptr) return false;
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%s.%s", folder, how);
  if (::access(path, F_OK) != 0) return false;
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  const std::size_t length = std::strlen(folder);
  return size > static_cast<ssize_t>(length) && std::memcmp(path, folder, length) == 0 &&
         path[length] == '/';
}

bool Full(int fd) { return Is("full", fd); }

/// How much of a write there is room for.
size_t Room(int fd, size_t size) {
  static std::atomic<bool> cut_short{false};
  if (!Full(fd)) return size;
  return size > 1 && !cut_short.exchange(true) ? size / 2 : 0;
}

ssize_t NoSpace() {
  errno = ENOSPC;
  return -1;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// 0: go on.
int BeforeSync(int fd) {
  if (Is("bad", fd)) {
    errno = EIO;
    return -1;
  }
  if (Is("slow", fd)) ::usleep(200'000);
  return 0;
}

}  // namespace

extern "C" {

int fsync(int fd) {
  static auto* const next = Next<decltype(fsync)>("fsync");
  return BeforeSync(fd) == 0 ? next(fd) : -1;
}

int fdatasync(int fd) {
  static auto* const next = Next<decltype(fdatasync)>("fdatasync");
  return BeforeSync(fd) == 0 ? next(fd) : -1;
}

ssize_t write(int fd, const void* data, size_t size) {
  static auto* const next = Next<decltype(write)>("write");
  const size_t room = Room(fd, size);
  return room == 0 && size > 0 ? NoSpace() : next(fd, data, room);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static auto* const next = Next<decltype(pwrite)>("pwrite");
  const size_t room = Room(fd, size);
  return room == 0 && size > 0 ? NoSpace() : next(fd, data, room, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static auto* const next = Next<decltype(fallocate)>("fallocate");
  return Full(fd) ? static_cast<int>(NoSpace()) : next(fd, mode, offset, size);
}

}  // extern "C"
