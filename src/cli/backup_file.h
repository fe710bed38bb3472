#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::cli {

/// A file that appears under its name only once it is whole and durable, and never in the place of
/// another one. Until then it has a name of its own beside it; it goes with this if it was not
/// kept. Blocking. Errors name the file.
class BackupFile {
 public:
  BackupFile() = default;
  ~BackupFile();
  BackupFile(const BackupFile&) = delete;
  BackupFile& operator=(const BackupFile&) = delete;

  /// `beside`: the name that it is to have in the end, or another one in the same folder.
  Status Open(const std::filesystem::path& beside);
  Status Write(std::string_view bytes);
  /// Nothing may be written after it. kFailedPrecondition if there is such a file by now.
  Status Keep(const std::filesystem::path& name);

 private:
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace lockstep::cli
