#include "server/audit_log.h"

#include <fcntl.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

namespace lockstep::server {
namespace {

constexpr std::size_t kMaxWaiting = 16'384;
constexpr auto kSyncWithin = std::chrono::seconds(1);

/// "2026-12-01T03:39:32.123Z".
std::string Now() {
  using google::protobuf::util::TimeUtil;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return TimeUtil::ToString(TimeUtil::MillisecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::milliseconds>(since).count()));
}

std::string LineOf(const AuditEvent& event) {
  nlohmann::ordered_json line;
  line["time"] = Now();
  line["event"] = event.what;
  for (const auto& [key, value] : event.fields) {
    if (!value.empty()) line[key] = value;
  }
  // A client's bytes need not be UTF-8.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status Failed(const std::string& path, const std::string& doing) {
  return MakeError(Code::kUnavailable,
                   "audit log " + path + ": " + doing + ": " + std::strerror(errno));
}

Result<int> OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return Failed(path, "opening it").error();
  return fd;
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::Open(std::string path) {
  const Result<int> fd = OpenFile(path);
  if (!fd.ok()) return fd.error();
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(path), *fd));
}

AuditLog::AuditLog(std::string path, int fd)
    : path_(std::move(path)), fd_(fd), thread_([this] { Run(); }) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
  close(fd_);
}

void AuditLog::Note(AuditEvent event) {
  std::string line = LineOf(event);
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back({std::move(line), nullptr});
  if (waiting_.size() == 1) changed_.notify_one();
}

void AuditLog::Record(AuditEvent event, std::function<void(const Status&)> stored) {
  std::string line = LineOf(event);
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(line), std::move(stored)});
  changed_.notify_one();
}

void AuditLog::Reopen() {
  const std::lock_guard lock(mutex_);
  reopen_ = true;
  changed_.notify_one();
}

void AuditLog::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto something = [this] { return !waiting_.empty() || reopen_ || stop_; };
    if (unsynced_) {
      if (!changed_.wait_for(lock, kSyncWithin, something)) {
        lock.unlock();
        if (const Status status = Sync(); !status.ok()) spdlog::error("{}", status.error().message);
        lock.lock();
        continue;
      }
    } else {
      changed_.wait(lock, something);
    }
    if (waiting_.empty() && stop_) break;
    std::vector<Waiting> batch = std::exchange(waiting_, {});
    const std::size_t dropped = std::exchange(dropped_, 0);
    const bool reopen = std::exchange(reopen_, false);
    lock.unlock();
    Write(std::move(batch), dropped, reopen);
    lock.lock();
  }
  lock.unlock();
  (void)Sync().ok();
}

void AuditLog::Write(std::vector<Waiting> batch, std::size_t dropped, bool reopen) {
  std::string lines;
  bool waited_for = false;
  for (const Waiting& waiting : batch) {
    lines += waiting.line;
    waited_for = waited_for || waiting.stored != nullptr;
  }
  if (dropped > 0) lines += LineOf({"dropped", {{"events", std::to_string(dropped)}}});
  Status status = Append(lines, reopen);
  if (status.ok() && waited_for) status = Sync();
  if (!status.ok())
    spdlog::error("{}: {} events are not in it", status.error().message, batch.size());
  for (const Waiting& waiting : batch) {
    if (waiting.stored != nullptr) waiting.stored(status);
  }
}

Status AuditLog::Append(const std::string& lines, bool reopen) {
  if (reopen) {
    if (unsynced_) (void)Sync().ok();
    const Result<int> fresh = OpenFile(path_);
    if (!fresh.ok()) return fresh.error();  // The old file goes on with what comes next.
    close(fd_);
    fd_ = *fresh;
    torn_ = false;
  }
  // What a full disk cut short is a line of its own.
  const std::string text = (torn_ && !lines.empty() ? "\n" : "") + lines;
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(path_, "writing");
    unsynced_ = true;
    torn_ = static_cast<std::size_t>(written) < rest.size();
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status AuditLog::Sync() {
  unsynced_ = false;
  // What is no file, such as a pipe, cannot be synced, nor need it be.
  if (fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) return Failed(path_, "syncing");
  return {};
}

}  // namespace lockstep::server
