#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep::server {

/// One line of the audit log. No secrets: neither tokens nor records.
struct AuditEvent {
  std::string what;  ///< As "Commit", "refused".
  /// In their order; a value that is empty is left out.
  std::vector<std::pair<std::string, std::string>> fields;
};

/// A file that is only appended to: who decided, resolved, drained and was refused, a JSON object a
/// line. A thread of its own writes what waits, in order, and syncs it to the disk: at once if
/// somebody waits for it, else within a second. Thread-safe.
class AuditLog {
 public:
  /// Blocking. An error names the file.
  static Result<std::unique_ptr<AuditLog>> Open(std::string path);
  /// Writes what waits.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Never blocks. What comes faster than the disk takes it is dropped beyond some thousands, and
  /// the file says how many were. A crash may lose the last second.
  void Note(AuditEvent event);
  /// Never dropped. `stored` is called once, on a thread of this: OK means on the disk. It must not
  /// block.
  void Record(AuditEvent event, std::function<void(const Status&)> stored);
  /// Goes on in a new file of this name: after a rotation.
  void Reopen();

 private:
  struct Waiting {
    std::string line;
    std::function<void(const Status&)> stored;  // Null: nobody waits.
  };

  AuditLog(std::string path, int fd);
  void Add(Waiting waiting);
  void Run();
  void Write(std::vector<Waiting> batch, std::size_t dropped, bool reopen);
  Status Append(const std::string& lines, bool reopen);
  Status Sync();

  const std::string path_;
  int fd_;                 // The thread's.
  bool unsynced_ = false;  // The thread's.
  bool torn_ = false;      // The thread's: the last line is not whole.

  std::mutex mutex_;
  std::condition_variable changed_;
  // All below is guarded by mutex_.
  std::vector<Waiting> waiting_;
  std::size_t dropped_ = 0;
  bool reopen_ = false;
  bool stop_ = false;
  std::thread thread_;  // Last: it runs from the start.
};

}  // namespace lockstep::server
