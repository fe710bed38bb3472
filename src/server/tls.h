#pragma once

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "server/config.h"

namespace lockstep::server {

/// The server's certificate and key, and whose client certificates it accepts, as files that may
/// change while it runs. Only what fits together is ever used: a connection never sees a
/// certificate without its key. Thread-safe.
class TlsIdentity : public std::enable_shared_from_this<TlsIdentity> {
 public:
  /// Reads the files. kInvalidArgument, naming the file, if they cannot be used. Blocking.
  static Result<std::shared_ptr<TlsIdentity>> Load(TlsFiles files);

  /// Reads the files again if one of them has changed. True: connections from now on get what they
  /// hold now. An error: they go on with what was read before. Blocking.
  Result<bool> Reload();

  /// For one of gRPC's listeners, which asks it at each new connection: outlives the server.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

  /// What the files held, and its number, which grows. gRPC's own threads.
  struct Material {
    std::string certificate;
    std::string key;
    std::string client_ca;
    std::string summary;  ///< "CN=lockstep, valid until 2027-01-01T00:00:00Z", for people.
    std::uint64_t number = 0;
  };
  std::shared_ptr<const Material> material() const;
  const TlsFiles& files() const { return files_; }

 private:
  explicit TlsIdentity(TlsFiles files) : files_(std::move(files)) {}
  Status Read();
  std::string Stamp() const;

  const TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Material> material_;  // Guarded by mutex_.
  std::string stamp_;                         // Of the files when they were last looked at.
};

/// Tells whether a file was replaced or changed since: its inode, size and time. Empty: not there.
std::string FileStamp(const std::string& path);

}  // namespace lockstep::server
