#include "server/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "certificates.h"
#include "temp_dir.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing_support::KeyPair;
using testing_support::TestCa;

class TlsIdentityTest : public testing::Test {
 protected:
  TlsIdentityTest() {
    files_ = {.certificate_file = folder_ / "tls.crt",
              .key_file = folder_ / "tls.key",
              .client_ca_file = folder_ / "ca.crt",
              .client_certificates = "required"};
    Write(files_.client_ca_file, ca_.certificate());
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void Write(const KeyPair& pair) const {
    Write(files_.certificate_file, pair.certificate);
    Write(files_.key_file, pair.key);
  }
  std::string Refused() const {
    const auto loaded = TlsIdentity::Load(files_);
    return loaded.ok() ? "not refused" : loaded.error().message;
  }

  TestCa ca_;
  const testing_support::TempDir dir_;
  const std::filesystem::path& folder_ = dir_.path();
  TlsFiles files_;
};

TEST_F(TlsIdentityTest, NamesTheFileThatCannotBeUsed) {
  const KeyPair pair = ca_.IssueForServer();
  EXPECT_THAT(Refused(), HasSubstr("tls.crt: cannot be read: No such file"));
  Write(pair);
  EXPECT_EQ(Refused(), "not refused");
  Write(files_.certificate_file, pair.key);
  EXPECT_THAT(Refused(), HasSubstr("tls.crt: holds no certificate"));
  Write(files_.certificate_file, pair.certificate);
  Write(files_.key_file, "nonsense");
  EXPECT_THAT(Refused(), HasSubstr("tls.key: holds no private key"));
  Write(files_.key_file, ca_.IssueForServer().key);
  EXPECT_THAT(Refused(), HasSubstr("tls.key: is not the key of the certificate in "));
  Write(files_.key_file, pair.key);
  Write(files_.client_ca_file, "");
  EXPECT_THAT(Refused(), HasSubstr("ca.crt: holds no certificate"));
}

TEST_F(TlsIdentityTest, SaysThatClientsWillRefuseIt) {
  using std::chrono::hours;
  Write(ca_.Issue({.common_name = "old", .valid_from = hours(-48), .valid_until = hours(-24)}));
  EXPECT_THAT((*TlsIdentity::Load(files_))->material()->summary, HasSubstr("CN=old, valid until"));
  EXPECT_THAT((*TlsIdentity::Load(files_))->material()->summary, HasSubstr("EXPIRED"));
  Write(ca_.Issue({.common_name = "new", .valid_from = hours(24), .valid_until = hours(48)}));
  EXPECT_THAT((*TlsIdentity::Load(files_))->material()->summary, HasSubstr("NOT VALID YET"));
}

TEST_F(TlsIdentityTest, TakesUpWholePairsOnly) {
  const KeyPair before = ca_.IssueForServer();
  const KeyPair after = ca_.IssueForServer();
  Write(before);
  const auto identity = *TlsIdentity::Load(files_);
  EXPECT_FALSE(*identity->Reload()) << "nothing has changed";

  Write(files_.certificate_file, after.certificate);
  const auto half = identity->Reload();
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(half.error().message, HasSubstr("is not the key of"));
  EXPECT_EQ(identity->material()->certificate, before.certificate);
  EXPECT_EQ(identity->material()->key, before.key);
  EXPECT_FALSE(*identity->Reload()) << "said once";

  Write(files_.key_file, after.key);
  EXPECT_TRUE(*identity->Reload());
  EXPECT_EQ(identity->material()->certificate, after.certificate);
  EXPECT_EQ(identity->material()->key, after.key);
  EXPECT_EQ(identity->material()->number, 2U);
}

}  // namespace
}  // namespace lockstep::server
