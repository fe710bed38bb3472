#include "server/produce_stream.h"

#include <utility>

namespace lockstep::server {
namespace {

constexpr const char* kMethod = "ProduceStream";

}  // namespace

ProduceStream::ProduceStream(Api& api, const grpc::CallbackServerContext& context,
                             v1::ProduceStreamResponse* response)
    : api_(api), slot_(api), response_(response) {
  std::optional<Refused> refused = CheckServing(api);
  if (!refused) refused = AdmitInto(api, kMethod, context, caller_);
  if (!refused) refused = CheckDeadline(context);
  if (refused) {
    Refuse(*refused);
  } else {
    StartRead(&message_);
  }
}

void ProduceStream::OnReadDone(bool ok) {
  // The client has closed its side; or it has gone, and nobody reads the answer.
  if (!ok) return Finish(grpc::Status::OK);
  Result<WorkCall> work = Parse();
  if (!work) return Refuse({work.error(), {}});
  std::optional<Refused> refused = api_.gate.AdmitAgain(kMethod, caller_);
  if (!refused) refused = CheckWork(api_, caller_, *work);
  if (refused) {
    api_.gate.NoteRefused(kMethod, *refused, &caller_, caller_.peer);
    return Refuse(*refused);
  }
  api_.coordinator.AddWork(std::move(work->txn), std::move(work->cluster), std::move(work->work),
                           work->sequence, std::nullopt, [this](const Status& status) {
                             if (!status.ok()) return Refuse({status.error(), {}});
                             response_->set_messages(response_->messages() + 1);
                             StartRead(&message_);
                           });
}

Result<WorkCall> ProduceStream::Parse() {
  if (message_.txn_id().empty()) message_.set_txn_id(txn_id_);
  if (message_.cluster().empty()) message_.set_cluster(cluster_);
  if (!txn_id_.empty() && message_.txn_id() != txn_id_) {
    return MakeError(Code::kInvalidArgument, "txn_id: must be that of the first message");
  }
  txn_id_ = message_.txn_id();
  cluster_ = message_.cluster();
  return ParseProduce(message_, api_.limits.Get()->record_bytes);
}

void ProduceStream::Refuse(const Refused& refused) {
  Finish(Note(api_, kMethod, refused.error, refused.reason));
}

}  // namespace lockstep::server
