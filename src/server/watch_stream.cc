#include "server/watch_stream.h"

#include <utility>

namespace lockstep::server {
namespace {

constexpr const char* kMethod = "WatchTxn";

}  // namespace

WatchStream::WatchStream(Api& api, const grpc::CallbackServerContext& context,
                         const v1::WatchTxnRequest& request)
    : api_(api), slot_(api), watch_(api.coordinator.NewWatch()) {
  Start(context, request);
}

void WatchStream::Start(const grpc::CallbackServerContext& context,
                        const v1::WatchTxnRequest& request) {
  std::optional<Refused> refused = CheckServing(api_);
  if (!refused) refused = AdmitInto(api_, kMethod, context, caller_);
  if (refused) return Refuse(refused->error, refused->reason);
  auto id = ParseTxnId(request.txn_id());
  if (!id) return Refuse(id.error());
  const auto seen = ParseResumeToken(request.resume_token(), api_.log.recovered().incarnation);
  if (!seen) return Refuse(seen.error());
  if (refused = CheckVisible(caller_, *id); refused) {
    api_.gate.NoteRefused(kMethod, *refused, &caller_, caller_.peer);
    return Refuse(refused->error, refused->reason);
  }
  id_ = *std::move(id);
  seen_ = *seen;
  // A client that resumes may hear nothing for long: it learns that it is being served.
  StartSendInitialMetadata();
  Await();
}

void WatchStream::Await() {
  const auto cancelled = cancelled_;
  const coordinator::WatchId watch = watch_;
  // Once the wait is under way, this may be gone at any time.
  coordinator::Coordinator& coordinator = api_.coordinator;
  coordinator.AwaitChange(
      watch_, id_, seen_.revision,
      [this](const Result<coordinator::TxnChange>& change) { OnChange(change); });
  // If OnCancel came before that wait, it found nothing to end.
  if (*cancelled) coordinator.CancelWatch(watch);
}

void WatchStream::OnCancel() {
  *cancelled_ = true;
  api_.coordinator.CancelWatch(watch_);
}

void WatchStream::OnChange(const Result<coordinator::TxnChange>& change) {
  if (*cancelled_) return Finish(grpc::Status::CANCELLED);
  if (!change) return Refuse(change.error());
  if (const auto refused = api_.gate.StillAdmitted(kMethod, caller_)) {
    return Refuse(refused->error, refused->reason);
  }
  const coordinator::TxnView& view = change->view;
  final_ = change->final;
  // What is read from the log has no revision of its own: only the token tells that it was seen.
  if (final_ && seen_.final) return Finish(grpc::Status::OK);
  *response_.mutable_txn() = ToProto(view);
  response_.set_revision(view.revision);
  response_.set_snapshot(std::exchange(first_, false) && !change->waited);
  seen_ = {view.revision, final_};
  response_.set_resume_token(ResumeToken(api_.log.recovered().incarnation, seen_));
  StartWrite(&response_);
}

void WatchStream::OnWriteDone(bool ok) {
  if (!ok || *cancelled_) return Finish(grpc::Status::CANCELLED);
  if (final_) return Finish(grpc::Status::OK);
  Await();
}

void WatchStream::Refuse(const Error& error, std::optional<v1::Reason> reason) {
  Finish(Note(api_, kMethod, error, reason));
}

}  // namespace lockstep::server
