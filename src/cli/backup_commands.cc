#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "cli/backup_file.h"
#include "cli/commands.h"
#include "log/backup_codec.h"
#include "log/restore.h"

/// Copies of the decision log: taking them from a server, and making a log of one.
namespace lockstep::cli {
namespace {

namespace stdfs = std::filesystem;

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

std::string Text(WallTime time, const char* format) {
  const auto seconds = static_cast<std::time_t>(time.ms / 1000);
  std::tm utc{};
  std::array<char, 40> text{};
  ::gmtime_r(&seconds, &utc);
  return {text.data(), std::strftime(text.data(), text.size(), format, &utc)};
}

std::string Iso(WallTime time) { return Text(time, "%Y-%m-%dT%H:%M:%SZ"); }

/// What it is called in a folder: unlike any other, and sorted by time.
std::string NameOf(const log::BackupInfo& info) {
  return "lockstep-" + info.log_id.get() + "-" + Text(info.taken_at, "%Y%m%dT%H%M%SZ") + ".backup";
}

/// Says how far it is, to people who wait.
class Progress {
 public:
  Progress(std::string what, std::ostream& err) : what_(std::move(what)), err_(err) {}

  void Add(std::size_t bytes) {
    bytes_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::seconds(2);
    err_ << what_ << ": " << (bytes_ >> 20) << " MiB" << std::endl;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::string what_;
  std::ostream& err_;
  std::uint64_t bytes_ = 0;
  SteadyTime next_ = std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

class WallClock final : public coordinator::Clock {
 public:
  MonoTime Now() const override {
    return MonoTime(std::chrono::steady_clock::now().time_since_epoch());
  }
  WallTime WallNow() const override {
    return WallTime{std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count()};
  }
};

nlohmann::ordered_json ToJson(const log::BackupInfo& info) {
  return {{"log_id", info.log_id.get()},
          {"incarnation", std::to_string(info.incarnation.get())},
          {"take_time", Iso(info.taken_at)}};
}

Error Exists(const stdfs::path& file) {
  return MakeError(Code::kFailedPrecondition,
                   file.string() + " exists, and is not overwritten: name another file");
}

}  // namespace

int Commands::Backup(const std::string& target) {
  const auto failed = [this](const Error& error) {
    err_ << "lockstepctl: " << ToString(error) << "\n";
    return kExitFailed;
  };
  std::error_code unknown;
  const bool into_folder = stdfs::is_directory(target, unknown);
  if (!into_folder && stdfs::exists(target, unknown)) return failed(Exists(target));

  BackupFile file;
  const stdfs::path beside =
      into_folder ? stdfs::path(target) / "lockstep.backup" : stdfs::path(target);
  if (lockstep::Status opened = file.Open(beside); !opened.ok()) return failed(opened.error());
  log::BackupDecoder decoder([](std::string_view, std::string_view) { return lockstep::Status(); });
  Progress progress("backup", err_);
  lockstep::Status status;
  const auto error = client_.Backup([&](const std::string& bytes) {
    progress.Add(bytes.size());
    status = decoder.Feed(bytes);
    if (status.ok()) status = file.Write(bytes);
    return status.ok();
  });
  if (!status.ok()) return failed(status.error());
  if (error) return Failed(*error);
  // Whatever the call said: only this tells that it is whole.
  if (status = decoder.Finish(); !status.ok()) return failed(status.error());
  const log::BackupInfo& info = *decoder.info();
  const stdfs::path name = into_folder ? stdfs::path(target) / NameOf(info) : stdfs::path(target);
  if (status = file.Keep(name); !status.ok()) return failed(status.error());
  if (json_) {
    nlohmann::ordered_json out = ToJson(info);
    out["file"] = name.string();
    out["bytes"] = std::to_string(progress.bytes());
    out_ << out.dump(2) << "\n";
  } else {
    out_ << name.string() << ": log " << info.log_id.get() << ", start " << info.incarnation.get()
         << ", as it was at " << Iso(info.taken_at) << ", " << progress.bytes() << " bytes\n";
  }
  return kExitOk;
}

int Commands::Restore(const std::string& file, const std::string& folder) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return WrongUsage(file + " cannot be read");
  Progress progress("restore", err_);
  const WallClock clock;
  log::OpenOptions options;
  options.path = folder;
  options.clock = &clock;
  const auto restored = log::Restore(options, [&]() -> Result<std::string> {
    std::string bytes(kReadBytes, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (in.bad()) return MakeError(Code::kUnavailable, file + " cannot be read");
    bytes.resize(static_cast<std::size_t>(in.gcount()));
    progress.Add(bytes.size());
    return bytes;
  });
  if (!restored.ok()) {
    err_ << "lockstepctl: " << ToString(restored.error()) << "\n";
    return kExitFailed;
  }
  if (json_) {
    nlohmann::ordered_json out;
    out["log_id"] = restored->log_id.get();
    out["restored_from"] = ToJson(restored->from);
    out["decisions"] = std::to_string(restored->decisions);
    out["pending"] = std::to_string(restored->incomplete);
    out["heuristic"] = std::to_string(restored->heuristic);
    out_ << out.dump(2) << "\n";
  } else {
    out_ << folder << ": log " << restored->log_id.get() << ", restored from log "
         << restored->from.log_id.get() << " as it was at " << Iso(restored->from.taken_at) << "; "
         << restored->decisions << " decisions, " << restored->incomplete << " to complete, "
         << restored->heuristic << " heuristic\n";
  }
  err_ << "lockstepctl: log " << restored->from.log_id.get()
       << " must not run any more, on no machine. What it decided after the backup is not known "
          "here: "
          "look at 'lockstepctl orphans' once the new one runs\n";
  return kExitOk;
}

}  // namespace lockstep::cli
