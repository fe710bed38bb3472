#include "wire/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <ctime>
#include <utility>

namespace lockstep::wire {
namespace {

/// The first of OpenSSL's errors, which is the cause of the others; forgets them all.
std::string SslReason() {
  const unsigned long error = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) return std::strerror(ERR_GET_REASON(error));
  return reason != nullptr ? reason : "not PEM, or damaged";
}

Error BadFile(const char* setting, const std::string& file, const std::string& why) {
  return MakeError(Code::kFailedPrecondition, std::string(setting) + ": " + file + ": " + why);
}

int GivePassword(char* to, int size, int /*writing*/, void* password) {
  const auto& text = *static_cast<const std::string*>(password);
  if (text.size() > static_cast<std::size_t>(size)) return -1;
  std::memcpy(to, text.data(), text.size());
  return static_cast<int>(text.size());
}

Status UseKey(SSL_CTX* context, const TlsConfig& config) {
  std::string password;  // Empty, and not OpenSSL's default, which asks at the terminal.
  if (config.key_password.given()) {
    auto read = ReadSecret(config.key_password, "tls.key_password");
    if (!read.ok()) return read.error();
    password = *std::move(read);
  }
  SSL_CTX_set_default_passwd_cb(context, GivePassword);
  SSL_CTX_set_default_passwd_cb_userdata(context, &password);
  const int used = SSL_CTX_use_PrivateKey_file(context, config.key_file.c_str(), SSL_FILETYPE_PEM);
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  if (used != 1) {
    return BadFile("tls.key_file", config.key_file,
                   SslReason() +
                       " (is it another key's password, or none at all? See "
                       "tls.key_password_file)");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return BadFile(
        "tls.key_file", config.key_file,
        "is not the key of the certificate in " + config.certificate_file + ": " + SslReason());
  }
  return {};
}

std::string OneLine(const X509_NAME* name) {
  char text[256];
  X509_NAME_oneline(name, text, sizeof text);
  return text;
}

std::string Date(const ASN1_TIME* time) {
  tm parts{};
  char text[32];
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  return std::string(text, ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

/// What to do about it.
std::string WayOut(int error) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "renew the broker's certificate, unless this machine's clock is wrong";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the certificate must name the host in bootstrap_servers and in the broker's "
             "advertised.listeners; tls.check_hostname: false takes any";
    default:
      return "tls.ca_file must hold the CA that issued it";
  }
}

int ProblemIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

int OnCertificate(int accepted, X509_STORE_CTX* store) {
  if (accepted == 1) return 1;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* problem = static_cast<CertificateProblem*>(SSL_get_ex_data(ssl, ProblemIndex()));
  const int error = X509_STORE_CTX_get_error(store);
  std::string text = X509_verify_cert_error_string(error);
  if (const X509* certificate = X509_STORE_CTX_get_current_cert(store)) {
    text += " (" + OneLine(X509_get_subject_name(certificate)) + ", issued by " +
            OneLine(X509_get_issuer_name(certificate)) + ", valid from " +
            Date(X509_get0_notBefore(certificate)) + " to " +
            Date(X509_get0_notAfter(certificate)) + ")";
  }
  if (problem != nullptr) problem->text = text + ": " + WayOut(error);
  return 0;
}

}  // namespace

Result<SslCtx> MakeTlsContext(const TlsConfig& config) {
  ERR_clear_error();
  SslCtx context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return MakeError(Code::kInternal, "OpenSSL: " + SslReason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, OnCertificate);
  if (config.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_file(context.get(), config.ca_file.c_str()) != 1) {
    return BadFile("tls.ca_file", config.ca_file, SslReason());
  }
  if (config.certificate_file.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(context.get(), config.certificate_file.c_str()) != 1) {
    return BadFile("tls.certificate_file", config.certificate_file, SslReason());
  }
  if (Status used = UseKey(context.get(), config); !used.ok()) return used.error();
  return context;
}

std::string CertificateSubject(const std::string& file) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> in(BIO_new_file(file.c_str(), "r"), BIO_free);
  if (in == nullptr) return ERR_clear_error(), "";
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  ERR_clear_error();
  if (certificate == nullptr || out == nullptr) return "";
  X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

void ExpectHost(SSL* ssl, const std::string& host, bool check, CertificateProblem* problem) {
  SSL_set_ex_data(ssl, ProblemIndex(), problem);
  X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
  // An address stands in certificates as an address, and has no name to ask for.
  const std::unique_ptr<ASN1_OCTET_STRING, decltype(&ASN1_OCTET_STRING_free)> address(
      a2i_IPADDRESS(host.c_str()), ASN1_OCTET_STRING_free);
  ERR_clear_error();
  if (address == nullptr) {
    // What OpenSSL's macro does, whose cast is old style.
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(host.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  if (!check) return;
  if (address != nullptr) {
    X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str());
  } else {
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), 0);
  }
}

}  // namespace lockstep::wire
