#include "client/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

namespace lockstep::client {
namespace {

// How often gRPC looks whether a certificate's file has changed.
constexpr unsigned int kLookSeconds = 5;

std::optional<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return std::nullopt;
  const auto end = token.find_last_not_of(" \t\r\n");
  token.erase(end == std::string::npos ? 0 : end + 1);
  return token;
}

/// Reads the file for each call: small, in the page cache, and never old.
class BearerToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(std::string path) : path_(std::move(path)) {}

  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "lockstep bearer token"; }
  // Else gRPC's debug log shows it.
  grpc::string DebugString() override { return GetType(); }

  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    const auto token = ReadToken(path_);
    if (!token || token->empty()) {
      return {grpc::StatusCode::UNAUTHENTICATED, path_ + ": holds no token, or cannot be read"};
    }
    metadata->emplace("authorization", "Bearer " + *token);
    return grpc::Status::OK;
  }

 private:
  const std::string path_;
};

bool WantsTls(const Security& security) { return security.tls || !security.ca_file.empty(); }

std::shared_ptr<grpc::ChannelCredentials> Tls(const Security& security) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsChannelCredentialsOptions options;
  const bool own = !security.certificate_file.empty();
  if (!security.ca_file.empty() || own) {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        security.key_file, security.certificate_file, security.ca_file, kLookSeconds));
  }
  if (!security.ca_file.empty()) options.watch_root_certs();
  if (own) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(const std::string& server,
                                                         const Security& security) {
  const bool tls = WantsTls(security);
  if (!tls && security.token_file.empty()) return grpc::InsecureChannelCredentials();
  // "Local" is plain text that gRPC refuses to send to another machine.
  const auto kind = server.starts_with("unix:") ? UDS : LOCAL_TCP;
  const auto channel = tls ? Tls(security) : grpc::experimental::LocalCredentials(kind);
  if (security.token_file.empty()) return channel;
  return grpc::CompositeChannelCredentials(
      channel, grpc::experimental::MetadataCredentialsFromPlugin(
                   std::make_unique<BearerToken>(security.token_file),
                   tls ? GRPC_PRIVACY_AND_INTEGRITY : GRPC_SECURITY_NONE));
}

}  // namespace

std::optional<Error> CheckSecurity(const Security& security) {
  const auto refuse = [](const std::string& message) {
    return Error{.code = Code::kInvalidArgument, .effect = Effect::kNone, .message = message};
  };
  if (security.certificate_file.empty() != security.key_file.empty()) {
    return refuse("certificate_file and key_file go together: give both or none");
  }
  if (!security.certificate_file.empty() && !WantsTls(security)) {
    return refuse("certificate_file needs TLS: give ca_file, or tls for the system's authorities");
  }
  for (const std::string& path :
       {security.ca_file, security.certificate_file, security.key_file, security.token_file}) {
    if (!path.empty() && !std::ifstream(path)) return refuse(path + ": " + std::strerror(errno));
  }
  return std::nullopt;
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& server, const Security& security,
                                         grpc::ChannelArguments arguments) {
  if (!security.server_name.empty()) arguments.SetSslTargetNameOverride(security.server_name);
  return grpc::CreateCustomChannel(server, CredentialsFor(server, security), arguments);
}

}  // namespace lockstep::client
