#include "certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdlib>

namespace lockstep::testing_support {
namespace {

void Require(bool ok) {
  if (!ok) std::abort();
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Pem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_X509(bio, certificate) == 1);
  return TextOf(bio);
}

std::string Pem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return TextOf(bio);
}

void Extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  Require(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* Make(EVP_PKEY* key, const CertificateOptions& options) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  std::uint64_t serial = 0;
  Require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  const auto seconds = [](std::chrono::hours hours) {
    return static_cast<long>(std::chrono::seconds(hours).count());
  };
  X509_gmtime_adj(X509_getm_notBefore(certificate), seconds(options.valid_from));
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds(options.valid_until));
  X509_set_pubkey(certificate, key);
  const auto* name = reinterpret_cast<const unsigned char*>(options.common_name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, name, -1, -1,
                             0);
  return certificate;
}

}  // namespace

struct TestCa::Impl {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = nullptr;
};

TestCa::TestCa(const std::string& name) : impl_(std::make_unique<Impl>()) {
  X509* ca = impl_->certificate =
      Make(impl_->key, {.common_name = name, .valid_until = std::chrono::hours(240)});
  X509_set_issuer_name(ca, X509_get_subject_name(ca));
  Extend(ca, ca, NID_basic_constraints, "critical,CA:TRUE");
  Extend(ca, ca, NID_subject_key_identifier, "hash");
  Require(X509_sign(ca, impl_->key, EVP_sha256()) > 0);
  pem_ = Pem(ca);
}

TestCa::~TestCa() {
  X509_free(impl_->certificate);
  EVP_PKEY_free(impl_->key);
}

KeyPair TestCa::Issue(const CertificateOptions& options) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Make(key, options);
  X509_set_issuer_name(certificate, X509_get_subject_name(impl_->certificate));
  std::string names;
  for (const auto& name : options.alternative_names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) Extend(certificate, impl_->certificate, NID_subject_alt_name, names);
  Require(X509_sign(certificate, impl_->key, EVP_sha256()) > 0);
  KeyPair pair{Pem(certificate), Pem(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

}  // namespace lockstep::testing_support
