#include "relay.h"

#include <cstdlib>

namespace lockstep::client {
namespace {

grpc::Status ConnectionLost() { return {grpc::UNAVAILABLE, "the connection was lost"}; }

}  // namespace

Relay::Relay() { Listen(); }
Relay::~Relay() { Cut(); }

void Relay::Listen() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
}

void Relay::LeadTo(std::uint16_t port) {
  {
    const std::lock_guard lock(mutex_);
    upstream_ = v1::Coordinator::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                             grpc::InsecureChannelCredentials()));
  }
  if (server_ == nullptr) Listen();
}

void Relay::Cut() {
  if (server_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    for (auto* context : forwarded_) context->TryCancel();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void Relay::Lose(Loss loss, const std::string& method, int count) {
  const std::lock_guard lock(mutex_);
  to_lose_[{method, loss}] = count;
}

int Relay::calls(const std::string& method) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

template <typename Request, typename Response>
grpc::Status Relay::Forward(const char* name, grpc::ServerContext* context, const Request* request,
                            Response* response,
                            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*)) {
  std::shared_ptr<Stub> upstream;
  bool lose_answer = false;
  {
    const std::lock_guard lock(mutex_);
    ++calls_[name];
    if (auto& left = to_lose_[{name, Loss::kRequest}]; left > 0) return --left, ConnectionLost();
    if (auto& left = to_lose_[{name, Loss::kAnswer}]; left > 0) {
      --left;
      lose_answer = true;
    }
    upstream = upstream_;
  }
  grpc::ClientContext call;
  call.set_deadline(context->deadline());
  call.set_wait_for_ready(true);
  {
    const std::lock_guard lock(mutex_);
    forwarded_.insert(&call);
  }
  const grpc::Status status = (*upstream.*method)(&call, *request, response);
  const std::lock_guard lock(mutex_);
  forwarded_.erase(&call);
  return lose_answer ? ConnectionLost() : status;
}

grpc::Status Relay::BeginGlobalTxn(grpc::ServerContext* context,
                                   const v1::BeginGlobalTxnRequest* request,
                                   v1::BeginGlobalTxnResponse* response) {
  return Forward("BeginGlobalTxn", context, request, response, &Stub::BeginGlobalTxn);
}
grpc::Status Relay::Produce(grpc::ServerContext* context, const v1::ProduceRequest* request,
                            v1::ProduceResponse* response) {
  return Forward("Produce", context, request, response, &Stub::Produce);
}
grpc::Status Relay::SendOffsets(grpc::ServerContext* context, const v1::SendOffsetsRequest* request,
                                v1::SendOffsetsResponse* response) {
  return Forward("SendOffsets", context, request, response, &Stub::SendOffsets);
}
grpc::Status Relay::Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                           v1::CommitResponse* response) {
  return Forward("Commit", context, request, response, &Stub::Commit);
}
grpc::Status Relay::Abort(grpc::ServerContext* context, const v1::AbortRequest* request,
                          v1::AbortResponse* response) {
  return Forward("Abort", context, request, response, &Stub::Abort);
}
grpc::Status Relay::Execute(grpc::ServerContext* context, const v1::ExecuteRequest* request,
                            v1::ExecuteResponse* response) {
  return Forward("Execute", context, request, response, &Stub::Execute);
}
grpc::Status Relay::ListTxns(grpc::ServerContext* context, const v1::ListTxnsRequest* request,
                             v1::ListTxnsResponse* response) {
  return Forward("ListTxns", context, request, response, &Stub::ListTxns);
}
grpc::Status Relay::GetTxn(grpc::ServerContext* context, const v1::GetTxnRequest* request,
                           v1::GetTxnResponse* response) {
  return Forward("GetTxn", context, request, response, &Stub::GetTxn);
}
grpc::Status Relay::WatchTxn(grpc::ServerContext*, const v1::WatchTxnRequest* request,
                             grpc::ServerWriter<v1::WatchTxnResponse>* writer) {
  grpc::ClientContext call;
  std::shared_ptr<Stub> upstream;
  {
    const std::lock_guard lock(mutex_);
    ++calls_["WatchTxn"];
    upstream = upstream_;
    forwarded_.insert(&call);
  }
  const auto reader = upstream->WatchTxn(&call, *request);
  for (v1::WatchTxnResponse seen; reader->Read(&seen);) {
    if (!writer->Write(seen)) call.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  const std::lock_guard lock(mutex_);
  forwarded_.erase(&call);
  return status;
}

}  // namespace lockstep::client
