#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "wire/security.h"

/// TLS towards brokers on OpenSSL: the settings, and what a failure means.
namespace lockstep::wire {

struct SslCtxDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslCtx = std::unique_ptr<SSL_CTX, SslCtxDeleter>;

/// TLS 1.2 or later, the broker's certificate checked, ours loaded if there is one. Reads the
/// files. Error: kFailedPrecondition with the setting, the file and what is wrong with it.
Result<SslCtx> MakeTlsContext(const TlsConfig& config);

/// Of the first certificate in a PEM file, as Java writes names (RFC 2253): "CN=me,O=us". Empty if
/// it cannot be read.
std::string CertificateSubject(const std::string& file);

/// Why a broker's certificate was not accepted, kept while the handshake runs.
struct CertificateProblem {
  std::string text;  ///< Empty: none.
};

/// For one connection: which host its certificate must name (if that is to be checked), and where
/// to put the reason if it is not accepted. `problem` must live as long as `ssl`.
void ExpectHost(SSL* ssl, const std::string& host, bool check, CertificateProblem* problem);

}  // namespace lockstep::wire
