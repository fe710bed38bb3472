#include "bench/server_counters.h"

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/admin.grpc.pb.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "client/credentials.h"

namespace lockstep::bench {
namespace {

constexpr std::chrono::seconds kPatience(30);
constexpr std::chrono::milliseconds kPoll(50);

}  // namespace

class ServerCounters::Impl {
 public:
  Impl(const std::string& server, const client::Security& security)
      : server_(server), stub_(v1::Admin::NewStub(client::ChannelTo(server, security))) {}

  v1::GetStatusResponse Status() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::GetStatusResponse status;
    Check(stub_->GetStatus(&context, {}, &status));
    return status;
  }

  std::uint64_t Syncs() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::LogInfoResponse info;
    Check(stub_->LogInfo(&context, {}, &info));
    return info.syncs();
  }

 private:
  void Check(const grpc::Status& status) const {
    if (status.ok()) return;
    throw std::runtime_error("lockstepd at " + server_ + ": " + status.error_message());
  }

  const std::string server_;
  const std::unique_ptr<v1::Admin::Stub> stub_;
};

ServerCounters::ServerCounters(const std::string& server, const client::Security& security)
    : impl_(std::make_unique<Impl>(server, security)) {}
ServerCounters::~ServerCounters() = default;

std::string ServerCounters::AwaitReady(const std::vector<std::string>& clusters) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const v1::GetStatusResponse status = impl_->Status();
    std::string missing;
    for (const std::string& name : clusters) {
      const auto found = std::ranges::find(status.clusters(), name, &v1::ClusterStatus::name);
      if (found == status.clusters().end()) {
        throw std::runtime_error("lockstepd has no cluster '" + name + "'");
      }
      if (found->state() != v1::CLUSTER_STATE_READY) {
        missing = "cluster '" + name + "' is not ready: " + found->problem();
      }
    }
    if (missing.empty()) return status.version();
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error(missing);
    std::this_thread::sleep_for(kPoll);
  }
}

ServerCounts ServerCounters::Read() {
  ServerCounts counts{.syncs = impl_->Syncs()};
  const v1::GetStatusResponse status = impl_->Status();
  for (const v1::ClusterStatus& cluster : status.clusters()) {
    counts.kafka_requests += cluster.kafka_requests();
  }
  return counts;
}

}  // namespace lockstep::bench
