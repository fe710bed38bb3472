#include "base/secret.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace lockstep {
namespace {

constexpr std::size_t kMaxSecretBytes = 65'536;

Error Unreadable(std::string_view what, const std::string& place, const std::string& why) {
  return MakeError(Code::kFailedPrecondition, std::string(what) + ": " + place + ": " + why);
}

Result<std::string> ReadFile(const std::string& path, std::string_view what) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable(what, path, std::strerror(errno));
  std::string secret(kMaxSecretBytes + 1, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (file.bad()) return Unreadable(what, path, "cannot be read");  // A folder, for one.
  secret.resize(static_cast<std::size_t>(file.gcount()));
  if (secret.size() > kMaxSecretBytes) return Unreadable(what, path, "is larger than 64 KiB");
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return Unreadable(what, path, "is empty, or no plain file");
  return secret;
}

}  // namespace

Result<std::string> ReadSecret(const SecretSource& source, std::string_view what) {
  if (source.environment.empty()) return ReadFile(source.file, what);
  const char* value = std::getenv(source.environment.c_str());
  const std::string place = "environment variable " + source.environment;
  if (value == nullptr) return Unreadable(what, place, "is not set");
  if (*value == '\0') return Unreadable(what, place, "is empty");
  return std::string(value);
}

std::string FileStamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "-";
  return std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

}  // namespace lockstep
