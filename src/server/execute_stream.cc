#include "server/execute_stream.h"

#include <utility>

#include "server/convert.h"

namespace lockstep::server {
namespace {

constexpr const char* kMethod = "ExecuteStream";

v1::CallError ToCallError(const Refused& refused) {
  const RpcError row = Classify(refused.error, refused.reason);
  v1::CallError out;
  out.set_code(row.status);
  out.set_reason(row.reason);
  out.set_message(refused.error.message);
  if (row.retry_delay) {
    const auto ms = row.retry_delay->count();
    out.mutable_retry_delay()->set_seconds(ms / 1000);
    out.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(ms % 1000) * 1'000'000);
  }
  return out;
}

v1::ExecuteAnswer AnswerOf(const std::string& key, bool positions,
                           const std::variant<Executed, Refused>& result) {
  v1::ExecuteAnswer answer;
  answer.set_key(key);
  if (const auto* refused = std::get_if<Refused>(&result)) {
    *answer.mutable_error() = ToCallError(*refused);
    return answer;
  }
  const Status filled =
      FillExecuted(std::get<Executed>(result), positions, *answer.mutable_response());
  if (!filled.ok()) *answer.mutable_error() = ToCallError({filled.error(), std::nullopt});
  return answer;
}

}  // namespace

ExecuteStream::ExecuteStream(Api& api, CommitWaits& waits, grpc::CallbackServerContext* context)
    : api_(api), waits_(waits), context_(context), slot_(api) {
  std::optional<Refused> refused = CheckServing(api);
  if (!refused) refused = AdmitInto(api, kMethod, *context, caller_);
  if (refused) {
    status_ = Note(api_, kMethod, refused->error, refused->reason);
    input_done_ = true;
  }
  GoOn(std::unique_lock(mutex_));
}

void ExecuteStream::OnReadDone(bool ok) {
  std::optional<Refused> refused;
  if (ok) refused = CheckMessage();
  const bool taken = ok && !refused;
  {
    const std::lock_guard lock(mutex_);
    input_done_ = !taken;
    if (refused) status_ = Note(api_, kMethod, refused->error, refused->reason);
    if (taken) in_flight_ += static_cast<std::size_t>(request_.transactions_size());
  }
  if (taken) {
    for (const v1::ExecuteRequest& request : request_.transactions()) Run(request);
  }
  std::unique_lock lock(mutex_);
  reading_ = false;  // Only now: another read would overwrite the message.
  GoOn(std::move(lock));
}

std::optional<Refused> ExecuteStream::CheckMessage() const {
  if (static_cast<std::size_t>(request_.transactions_size()) > kExecuteStreamInFlight) {
    return Refused{MakeError(Code::kResourceExhausted, "transactions: at most " +
                                                           std::to_string(kExecuteStreamInFlight) +
                                                           " may be under way on a stream"),
                   {}};
  }
  for (const v1::ExecuteRequest& request : request_.transactions()) {
    if (const Status key = CheckKey(request.key()); !key.ok()) return Refused{key.error(), {}};
  }
  return std::nullopt;
}

void ExecuteStream::Run(const v1::ExecuteRequest& request) {
  const std::string& key = request.key();
  auto call = ParseExecute(request, api_.limits.Get()->record_bytes);
  if (!call) return Answer(AnswerOf(key, false, Refused{call.error(), {}}));
  call->submission.client = context_->peer();
  call->trace = TraceOf(*context_);
  std::optional<Refused> refused = api_.gate.AdmitAgain(kMethod, caller_);
  call->submission.owner = caller_.owner();
  if (!refused) refused = CheckExecute(api_, caller_, *call);
  if (refused) {
    api_.gate.NoteRefused(kMethod, *refused, &caller_, caller_.peer);
    return Answer(AnswerOf(key, false, *std::move(refused)));
  }
  // A transaction may be answered twice: see CommitWaits.
  const auto answered = std::make_shared<std::atomic<bool>>(false);
  waits_.Execute(*std::move(call), ClientOf(*context_, [answered] { return answered->load(); }),
                 [this, key, positions = request.return_positions(), answered,
                  caller = caller_](const auto& result) {
                   if (answered->exchange(true)) return;
                   if (const auto* executed = std::get_if<Executed>(&result)) {
                     const coordinator::TxnView& view = executed->view;
                     api_.gate.Note(caller, kMethod, view.id, Name(view.state));
                   }
                   Answer(AnswerOf(key, positions, result));
                 });
}

void ExecuteStream::Answer(v1::ExecuteAnswer answer) {
  std::unique_lock lock(mutex_);
  if (gone_) {
    --in_flight_;
  } else {
    *answers_.add_answers() = std::move(answer);
  }
  GoOn(std::move(lock));
}

void ExecuteStream::OnWriteDone(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  in_flight_ -= static_cast<std::size_t>(response_.answers_size());
  if (!ok) {
    gone_ = true;
    in_flight_ -= static_cast<std::size_t>(answers_.answers_size());
    answers_.Clear();
  }
  GoOn(std::move(lock));
}

void ExecuteStream::GoOn(std::unique_lock<std::mutex> lock) {
  const bool write = !writing_ && answers_.answers_size() > 0;
  const bool read = !reading_ && !input_done_ && in_flight_ < kExecuteStreamInFlight;
  const bool finish = !reading_ && input_done_ && in_flight_ == 0 && !finished_;
  if (write) {
    response_.Clear();
    response_.Swap(&answers_);
    writing_ = true;
  }
  if (read) reading_ = true;
  if (finish) finished_ = true;
  const grpc::Status status = status_;
  lock.unlock();
  if (write) StartWrite(&response_);
  if (read) StartRead(&request_);
  if (finish) Finish(status);
}

}  // namespace lockstep::server
