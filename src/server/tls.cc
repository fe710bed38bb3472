#include "server/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <atomic>
#include <utility>
#include <variant>
#include <vector>

#include "server/yaml_document.h"

namespace lockstep::server {
namespace {

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* value) const { Free(value); }
};
using X509Ptr = std::unique_ptr<X509, Freed<X509, X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO, BIO_free_all>>;

BioPtr Memory(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Error Unusable(const std::string& path, const std::string& why) {
  ERR_clear_error();
  return MakeError(Code::kInvalidArgument, path + ": " + why);
}

Result<std::string> ReadFile(const std::string& path) {
  auto read = ReadSmallFile(path);
  if (auto* text = std::get_if<std::string>(&read)) return std::move(*text);
  return MakeError(Code::kInvalidArgument, path + ": " + std::get<ConfigMistake>(read).message);
}

std::vector<X509Ptr> CertificatesOf(const std::string& pem) {
  std::vector<X509Ptr> all;
  const BioPtr bio = Memory(pem);
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  ERR_clear_error();  // That there is no further one.
  return all;
}

/// Nobody is there to be asked for one.
int NoPassPhrase(char*, int, int, void*) { return -1; }

/// None: the key is the certificate's.
std::optional<Error> CheckPair(const TlsFiles& files, const TlsIdentity::Material& material,
                               const std::vector<X509Ptr>& chain) {
  if (chain.empty()) return Unusable(files.certificate_file, "holds no certificate in PEM");
  const BioPtr bio = Memory(material.key);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (key == nullptr) {
    return Unusable(files.key_file, "holds no private key in PEM, or one with a pass phrase");
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    return Unusable(files.key_file,
                    "is not the key of the certificate in " + files.certificate_file);
  }
  return std::nullopt;
}

std::string Summary(const X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  BIO_puts(bio.get(), ", valid until ");
  ASN1_TIME_print(bio.get(), X509_get0_notAfter(certificate));
  const bool early = X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0;
  const bool late = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
  if (early) BIO_puts(bio.get(), ": NOT VALID YET, clients will refuse it");
  if (late) BIO_puts(bio.get(), ": EXPIRED, clients will refuse it");
  return TextOf(bio.get());
}

/// One listener's: remembers which material it has handed out.
class ListenerCredentials final : public grpc::ServerCredentials {
 public:
  explicit ListenerCredentials(std::shared_ptr<TlsIdentity> identity)
      : identity_(std::move(identity)) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  // grpc's C++ has static files, or an experimental watcher that takes up half of a pair that is
  // being replaced. Its C API asks us.
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    const TlsFiles& files = identity_->files();
    const auto request = files.client_ca_file.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                         : files.client_certificates == "optional"
                             ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    grpc_server_credentials* credentials = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, &Fetch, this));
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& mine = *static_cast<ListenerCredentials*>(self);
    const auto material = mine.identity_->material();
    if (mine.handed_out_.exchange(material->number) == material->number) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const grpc_ssl_pem_key_cert_pair pair{material->key.c_str(), material->certificate.c_str()};
    const char* ca = material->client_ca.empty() ? nullptr : material->client_ca.c_str();
    *config = grpc_ssl_server_certificate_config_create(ca, &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<TlsIdentity> identity_;
  std::atomic<std::uint64_t> handed_out_{0};
};

}  // namespace

std::string FileStamp(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return {};
  return std::to_string(file.st_dev) + "." + std::to_string(file.st_ino) + "." +
         std::to_string(file.st_size) + "." + std::to_string(file.st_mtim.tv_sec) + "." +
         std::to_string(file.st_mtim.tv_nsec) + "." + std::to_string(file.st_ctim.tv_sec) + "." +
         std::to_string(file.st_ctim.tv_nsec);
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(TlsFiles files) {
  auto identity = std::shared_ptr<TlsIdentity>(new TlsIdentity(std::move(files)));
  identity->stamp_ = identity->Stamp();
  if (Status status = identity->Read(); !status.ok()) return status.error();
  return identity;
}

std::string TlsIdentity::Stamp() const {
  return FileStamp(files_.certificate_file) + " " + FileStamp(files_.key_file) + " " +
         (files_.client_ca_file.empty() ? "" : FileStamp(files_.client_ca_file));
}

Result<bool> TlsIdentity::Reload() {
  // Before they are read: a change from now on is noticed the next time.
  std::string stamp = Stamp();
  if (stamp == stamp_) return false;
  stamp_ = std::move(stamp);
  if (Status status = Read(); !status.ok()) return status.error();
  return true;
}

Status TlsIdentity::Read() {
  auto fresh = std::make_shared<Material>();
  Result<std::string> certificate = ReadFile(files_.certificate_file);
  if (!certificate.ok()) return certificate.error();
  fresh->certificate = *std::move(certificate);
  Result<std::string> key = ReadFile(files_.key_file);
  if (!key.ok()) return key.error();
  fresh->key = *std::move(key);
  const auto chain = CertificatesOf(fresh->certificate);
  if (auto problem = CheckPair(files_, *fresh, chain)) return *std::move(problem);
  if (!files_.client_ca_file.empty()) {
    Result<std::string> client_ca = ReadFile(files_.client_ca_file);
    if (!client_ca.ok()) return client_ca.error();
    fresh->client_ca = *std::move(client_ca);
    if (CertificatesOf(fresh->client_ca).empty()) {
      return Unusable(files_.client_ca_file, "holds no certificate in PEM");
    }
  }
  fresh->summary = Summary(chain.front().get());
  const std::lock_guard lock(mutex_);
  fresh->number = material_ == nullptr ? 1 : material_->number + 1;
  material_ = std::move(fresh);
  return {};
}

std::shared_ptr<const TlsIdentity::Material> TlsIdentity::material() const {
  const std::lock_guard lock(mutex_);
  return material_;
}

std::shared_ptr<grpc::ServerCredentials> TlsIdentity::Credentials() {
  return std::make_shared<ListenerCredentials>(shared_from_this());
}

}  // namespace lockstep::server
