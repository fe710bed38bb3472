#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

/// Certificates for tests, made on the spot.
namespace lockstep::testing_support {

struct KeyPair {
  std::string certificate;  ///< PEM.
  std::string key;          ///< PEM.
};

struct CertificateOptions {
  std::string common_name = "test";
  /// As OpenSSL writes them: "DNS:localhost", "IP:127.0.0.1", "URI:spiffe://x/y".
  std::vector<std::string> alternative_names;
  std::chrono::hours valid_from{-24};  ///< From now.
  std::chrono::hours valid_until{24};
};

/// A certificate authority of its own.
class TestCa {
 public:
  explicit TestCa(const std::string& name = "Test CA");
  ~TestCa();
  TestCa(const TestCa&) = delete;
  TestCa& operator=(const TestCa&) = delete;

  const std::string& certificate() const { return pem_; }
  KeyPair Issue(const CertificateOptions& options) const;
  /// One that fits a server on this machine.
  KeyPair IssueForServer() const {
    return Issue(
        {.common_name = "lockstepd", .alternative_names = {"DNS:localhost", "IP:127.0.0.1"}});
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string pem_;
};

}  // namespace lockstep::testing_support
