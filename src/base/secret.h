#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

/// Where a secret is to be found: in a file of its own or in an environment variable, one of them.
/// The secret itself is never part of a configuration, so that a configuration can be shown.
struct SecretSource {
  std::string file;
  std::string environment;  ///< The variable's name.

  bool given() const { return !file.empty() || !environment.empty(); }
  friend bool operator==(const SecretSource&, const SecretSource&) = default;
};

/// Reads it anew; blocking, but for a small file only. Line ends after it are not part of it.
/// Error: kFailedPrecondition, naming `what` (the setting) and the place: the secret cannot be
/// read, is empty, or is larger than 64 KiB. No message ever quotes what was read.
Result<std::string> ReadSecret(const SecretSource& source, std::string_view what);

/// Changes when the file is written or replaced; "-" while there is none. For "has it changed?".
std::string FileStamp(const std::string& path);

}  // namespace lockstep
