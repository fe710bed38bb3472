#include "fake_coordinator.h"

#include <google/protobuf/any.pb.h>
#include <lockstep/internal/rpc_status.pb.h>

#include <cstdlib>
#include <utility>

namespace lockstep::client {

grpc::Status Refusal(grpc::StatusCode code, const std::string& reason, const std::string& message) {
  internal::RpcErrorInfo info;
  info.set_domain("lockstep");
  info.set_reason(reason);
  internal::RpcStatus status;
  auto& detail = *status.add_details();
  detail.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail.set_value(info.SerializeAsString());
  return {code, message, status.SerializeAsString()};
}

FakeCoordinator::FakeCoordinator() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
}

FakeCoordinator::~FakeCoordinator() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FakeCoordinator::Fail(const std::string& method, std::vector<grpc::Status> statuses) {
  const std::lock_guard lock(mutex_);
  failures_[method] = {statuses.begin(), statuses.end()};
}

void FakeCoordinator::Say(std::vector<v1::Outcome> outcomes) {
  const std::lock_guard lock(mutex_);
  outcomes_ = {outcomes.begin(), outcomes.end()};
}

void FakeCoordinator::RequireReinit(bool required) {
  const std::lock_guard lock(mutex_);
  reinit_ = required;
}

void FakeCoordinator::Restart() {
  const std::lock_guard lock(mutex_);
  ++incarnation_;
  clusters_.clear();
}

void FakeCoordinator::TellIncarnation(std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  incarnation_ = incarnation;
}

void FakeCoordinator::ForgetBeginEnlisted() {
  const std::lock_guard lock(mutex_);
  begin_enlists_ = false;
}

void FakeCoordinator::OnEnd(std::function<void()> hook) {
  const std::lock_guard lock(mutex_);
  on_end_ = std::move(hook);
}

int FakeCoordinator::calls(const std::string& method) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<v1::CommitRequest> FakeCoordinator::commits() const {
  const std::lock_guard lock(mutex_);
  return commits_;
}

std::vector<v1::EnlistRequest> FakeCoordinator::enlists() const {
  const std::lock_guard lock(mutex_);
  return enlists_;
}

std::vector<v1::BeginGlobalTxnRequest> FakeCoordinator::begins() const {
  const std::lock_guard lock(mutex_);
  return begins_;
}

int FakeCoordinator::managed_records() const {
  const std::lock_guard lock(mutex_);
  return managed_records_;
}

grpc::Status FakeCoordinator::Enter(const std::string& method) {
  ++calls_[method];
  auto& failures = failures_[method];
  if (failures.empty()) return grpc::Status::OK;
  const grpc::Status status = failures.front();
  failures.pop_front();
  return status;
}

template <typename Response>
void FakeCoordinator::End(v1::Outcome otherwise, Response* response) {
  v1::Outcome outcome = otherwise;
  if (!outcomes_.empty()) {
    outcome = outcomes_.front();
    outcomes_.pop_front();
  }
  response->set_outcome(outcome);
  if (outcome == v1::OUTCOME_ABORTED) {
    response->mutable_abort()->set_reason(v1::ABORT_REASON_CLIENT_ABORT);
  }
  for (const std::string& cluster : branches_) {
    auto& branch = *response->add_branches();
    branch.set_cluster(cluster);
    branch.mutable_enlisted()->set_transactional_id("of-" + cluster);
    branch.mutable_enlisted()->set_reinit_required(reinit_);
  }
}

grpc::Status FakeCoordinator::BeginGlobalTxn(grpc::ServerContext*,
                                             const v1::BeginGlobalTxnRequest* request,
                                             v1::BeginGlobalTxnResponse* response) {
  const std::lock_guard lock(mutex_);
  if (const auto status = Enter("BeginGlobalTxn"); !status.ok()) return status;
  std::set<std::string> branches;
  for (const v1::Enlistment& enlistment : request->enlistments()) {
    if (!begin_enlists_) break;
    const auto registration = clusters_.find(enlistment.registration_id());
    if (registration == clusters_.end()) {
      return Refusal(grpc::FAILED_PRECONDITION, "FENCED", "the registration is void");
    }
    branches.insert(registration->second);
  }
  branches_ = std::move(branches);
  begins_.push_back(*request);
  response->set_txn_id("txn-" + std::to_string(calls_["BeginGlobalTxn"]));
  if (begin_enlists_) response->set_incarnation(incarnation_);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::RegisterProducer(grpc::ServerContext*,
                                               const v1::RegisterProducerRequest* request,
                                               v1::RegisterProducerResponse* response) {
  const std::lock_guard lock(mutex_);
  if (const auto status = Enter("RegisterProducer"); !status.ok()) return status;
  const std::string id = "registration-" + std::to_string(++registered_);
  clusters_[id] = request->cluster();
  response->set_registration_id(id);
  response->set_incarnation(incarnation_);
  response->set_protocol(request->protocol());
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Enlist(grpc::ServerContext*, const v1::EnlistRequest* request,
                                     v1::EnlistResponse* response) {
  const std::lock_guard lock(mutex_);
  if (const auto status = Enter("Enlist"); !status.ok()) return status;
  const auto registration = clusters_.find(request->registration_id());
  if (registration == clusters_.end()) {
    return Refusal(grpc::FAILED_PRECONDITION, "FENCED", "the registration is void");
  }
  branches_.insert(registration->second);
  enlists_.push_back(*request);
  response->set_incarnation(incarnation_);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Produce(grpc::ServerContext*, const v1::ProduceRequest* request,
                                      v1::ProduceResponse*) {
  const std::lock_guard lock(mutex_);
  managed_records_ += request->records_size();
  return Enter("Produce");
}

grpc::Status FakeCoordinator::Commit(grpc::ServerContext*, const v1::CommitRequest* request,
                                     v1::CommitResponse* response) {
  const std::lock_guard lock(mutex_);
  commits_.push_back(*request);
  if (on_end_) on_end_();
  if (const auto status = Enter("Commit"); !status.ok()) return status;
  End(v1::OUTCOME_COMMITTED, response);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Abort(grpc::ServerContext*, const v1::AbortRequest*,
                                    v1::AbortResponse* response) {
  const std::lock_guard lock(mutex_);
  if (on_end_) on_end_();
  if (const auto status = Enter("Abort"); !status.ok()) return status;
  End(v1::OUTCOME_ABORTED, response);
  return grpc::Status::OK;
}

}  // namespace lockstep::client
