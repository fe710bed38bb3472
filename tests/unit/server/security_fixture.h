#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "api_fixture.h"
#include "certificates.h"
#include "temp_dir.h"

namespace lockstep::server {

using testing_support::KeyPair;
using testing_support::TestCa;

/// The server with TLS and a policy, its files in a folder of its own, and clients of several
/// identities.
class SecurityFixture : public ApiFixture {
 protected:
  SecurityFixture() {
    WriteFile("server.crt", server_.certificate);
    WriteFile("server.key", server_.key);
    WriteFile("ca.crt", ca_.certificate());
    config_.tls = {.certificate_file = folder_ / "server.crt",
                   .key_file = folder_ / "server.key",
                   .client_ca_file = folder_ / "ca.crt",
                   .client_certificates = "optional"};
    config_.policy_file = folder_ / "policy.yaml";
    config_.audit_log = folder_ / "audit.log";
    WritePolicy(kPolicy);
  }
  ~SecurityFixture() override {
    StopServer();
    daemon_.reset();  // Its audit log is in the folder.
  }

  static constexpr const char* kPolicy =
      "principals:\n"
      "  - name: alice\n"
      "    certificates: ['uri:spiffe://test/alice']\n"
      "    allow: [{clusters: [east, west], topics: [orders], groups: [g], "
      "transactional_ids: [alice-*]}]\n"
      "  - name: bob\n"
      "    certificates: ['uri:spiffe://test/bob']\n"
      "    allow: [{clusters: [east, west], topics: [orders], groups: [g], "
      "transactional_ids: [bob-*]}]\n"
      "  - name: idle\n"
      "    certificates: ['uri:spiffe://test/idle']\n"
      "  - name: watcher\n"
      "    role: observer\n"
      "    certificates: ['uri:spiffe://test/watcher']\n"
      "  - name: ops\n"
      "    role: operator\n"
      "    certificates: ['uri:spiffe://test/ops']\n";

  void WriteFile(const std::string& name, const std::string& text) const {
    const auto path = folder_ / name;
    std::ofstream(path.string() + ".new") << text;
    std::filesystem::rename(path.string() + ".new", path);
  }
  void WritePolicy(const std::string& yaml) const { WriteFile("policy.yaml", yaml); }
  std::string ReadAudit() const {
    std::ifstream file(folder_ / "audit.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  KeyPair CertificateOf(const std::string& name) const {
    return ca_.Issue({.common_name = name, .alternative_names = {"URI:spiffe://test/" + name}});
  }

  /// By address: what looks up a name for gRPC (c-ares 1.18) leaks a little each time, and the
  /// sanitizer would tell of nothing else.
  std::shared_ptr<grpc::Channel> ConnectWith(const std::string& ca, const KeyPair& client) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                     grpc::SslCredentials({ca, client.key, client.certificate}),
                                     arguments);
  }
  /// As this principal; empty: without a certificate.
  std::shared_ptr<grpc::Channel> ConnectAs(const std::string& name) const {
    return ConnectWith(ca_.certificate(), name.empty() ? KeyPair() : CertificateOf(name));
  }
  /// The next calls of ApiFixture's are this principal's.
  void Become(const std::string& name) {
    channel_ = ConnectAs(name);
    coordinator_ = v1::Coordinator::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }

  /// Any method with any request, as one message; a stream's answers are thrown away.
  static grpc::Status CallAny(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const std::string& request,
                              const std::string& authorization = "") {
    grpc::GenericStub stub(channel);
    CallContext context(std::chrono::seconds(5));
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    grpc::Slice slice(request);
    grpc::ByteBuffer sent(&slice, 1);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    int pending = 0;
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && (--pending, ok);
    };
    const auto begin = [&] {
      ++pending;
      return nullptr;
    };
    call->StartCall(begin());
    (void)wait();
    call->WriteLast(sent, {}, begin());
    (void)wait();
    for (bool more = true; more;) {
      grpc::ByteBuffer answer;
      call->Read(&answer, begin());
      more = wait();
    }
    grpc::Status status;
    call->Finish(&status, begin());
    (void)wait();
    queue.Shutdown();
    return status;
  }

  TestCa ca_;
  KeyPair server_ = ca_.IssueForServer();
  const testing_support::TempDir dir_;
  const std::filesystem::path& folder_ = dir_.path();
};

}  // namespace lockstep::server
