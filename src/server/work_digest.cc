#include "server/work_digest.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace lockstep::server {
namespace {

std::string Serialized(const v1::Work& work) {
  std::string bytes;
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.SetSerializationDeterministic(true);
  work.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

void Require(int ok) {
  if (ok != 1) std::abort();  // OpenSSL without SHA-256.
}

}  // namespace

std::string DigestOf(const google::protobuf::RepeatedPtrField<v1::Work>& work) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  Require(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr));
  for (const v1::Work& part : work) {
    const std::string bytes = Serialized(part);
    std::array<unsigned char, 8> size{};
    for (std::size_t i = 0; i < size.size(); ++i) {
      size[i] = static_cast<unsigned char>(std::uint64_t{bytes.size()} >> (8 * i));
    }
    Require(EVP_DigestUpdate(context.get(), size.data(), size.size()));
    Require(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  Require(EVP_DigestFinal_ex(context.get(), digest.data(), &length));
  return {digest.begin(), digest.begin() + length};
}

}  // namespace lockstep::server
