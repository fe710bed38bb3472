#include "server/coordinator_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/call.h"
#include "server/convert.h"

namespace lockstep::server {
namespace {

using coordinator::TxnView;
using std::chrono::milliseconds;

/// How long the client will wait from now; none: for ever.
std::optional<Duration> TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  return std::max<Duration>(deadline - std::chrono::system_clock::now(), Duration::zero());
}

/// An answer must leave this much before the client's deadline to arrive in time.
Duration AnswerMargin(Duration time_left) {
  return std::clamp<Duration>(time_left / 10, milliseconds(10), milliseconds(500));
}

/// The first of the answers that come counts.
template <typename Response>
coordinator::Callback<Result<TxnView>> AnswerOutcome(CallPtr call, Response* response) {
  return [call = std::move(call), response](const Result<TxnView>& view) {
    if (!call->Claim()) return;
    if (!view) return call->Finish(view.error());
    if (view->refusal.reason != txn::AbortReason::kNone &&
        view->refusal.reason != txn::AbortReason::kClientAbort) {
      spdlog::info("{} aborted: {} {}: {}", view->id.get(), Name(view->refusal.reason),
                   view->refusal.cluster.get(), view->refusal.message);
    }
    call->Finish(FillOutcome(*view, *response));
  };
}

coordinator::Callback<Status> AnswerStatus(CallPtr call) {
  return [call = std::move(call)](const Status& status) {
    if (call->Claim()) call->Finish(status);
  };
}

}  // namespace

grpc::ServerUnaryReactor* CoordinatorService::BeginGlobalTxn(
    grpc::CallbackServerContext* context, const v1::BeginGlobalTxnRequest* request,
    v1::BeginGlobalTxnResponse* response) {
  return Serve(api_, "BeginGlobalTxn", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto begin = ParseBegin(*request);
    if (!begin) return Refused{begin.error(), {}};
    api_.coordinator.Begin(begin->timeout, std::move(begin->label),
                           [call, response](const Result<TxnView>& view) {
                             if (!call->Claim()) return;
                             if (!view) return call->Finish(view.error());
                             response->set_txn_id(view->id.get());
                             *response->mutable_expire_time() = ToProto(view->expires_at);
                             call->Finish({});
                           });
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Produce(grpc::CallbackServerContext* context,
                                                      const v1::ProduceRequest* request,
                                                      v1::ProduceResponse*) {
  return Serve(api_, "Produce", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto work = ParseProduce(*request, api_.limits.record_bytes);
    if (!work) return Refused{work.error(), {}};
    if (auto unknown = CheckCluster(api_, work->cluster)) return unknown;
    api_.coordinator.AddWork(std::move(work->txn), std::move(work->cluster), std::move(work->work),
                             work->sequence, std::nullopt, AnswerStatus(call));
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::SendOffsets(grpc::CallbackServerContext* context,
                                                          const v1::SendOffsetsRequest* request,
                                                          v1::SendOffsetsResponse*) {
  return Serve(api_, "SendOffsets", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto work = ParseSendOffsets(*request);
    if (!work) return Refused{work.error(), {}};
    if (auto unknown = CheckCluster(api_, work->cluster)) return unknown;
    api_.coordinator.AddWork(std::move(work->txn), std::move(work->cluster), std::move(work->work),
                             work->sequence, std::move(work->kafka_cluster_id), AnswerStatus(call));
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Commit(grpc::CallbackServerContext* context,
                                                     const v1::CommitRequest* request,
                                                     v1::CommitResponse* response) {
  return Serve(api_, "Commit", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    auto options = ParseCommit(*request);
    if (!options) return Refused{options.error(), {}};
    // A decided transaction is never a DEADLINE_EXCEEDED: shortly before the client gives up,
    // DECIDED is enough of an answer. max_wait alone would not do, it counts from the decision; it
    // only keeps waiters whose client has gone from staying for ever.
    std::optional<Duration> patience;
    if (const std::optional<Duration> left = TimeLeft(*context)) {
      options->max_wait = std::min(options->max_wait.value_or(*left), *left);
      patience = std::max(*left - AnswerMargin(*left), Duration::zero());
    }
    api_.executor.Post([this, call, response, patience, id = *std::move(id), options = *options] {
      AwaitCommit(id, options, patience, AnswerOutcome(call, response));
    });
    return std::nullopt;
  });
}

void CoordinatorService::AwaitCommit(const GlobalTxnId& id, coordinator::CommitOptions options,
                                     std::optional<Duration> patience, AnswerTxn answer) {
  if (answer_decided_) options.wait = coordinator::WaitFor::kDecided;
  const auto settle_for_decided = [this, id, answer] {
    api_.coordinator.Commit(id, {coordinator::WaitFor::kDecided, std::nullopt}, answer);
  };
  const std::uint64_t number = next_waiting_++;
  waiting_[number] = settle_for_decided;
  std::optional<coordinator::Executor::TimerId> timer;
  if (patience) timer = api_.executor.PostAfter(*patience, settle_for_decided);
  api_.coordinator.Commit(id, options, [this, number, timer, answer](Result<TxnView> view) {
    waiting_.erase(number);
    if (timer) api_.executor.Cancel(*timer);
    answer(std::move(view));
  });
}

void CoordinatorService::AnswerDecided() {
  api_.executor.Post([this] {
    answer_decided_ = true;
    for (const auto& [number, settle_for_decided] : waiting_) settle_for_decided();
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Abort(grpc::CallbackServerContext* context,
                                                    const v1::AbortRequest* request,
                                                    v1::AbortResponse* response) {
  return Serve(api_, "Abort", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    api_.coordinator.Abort(*std::move(id), AnswerOutcome(call, response));
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::GetTxn(grpc::CallbackServerContext* context,
                                                     const v1::GetTxnRequest* request,
                                                     v1::GetTxnResponse* response) {
  return Serve(api_, "GetTxn", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    api_.coordinator.Get(*std::move(id), [call, response](const Result<TxnView>& view) {
      if (!call->Claim()) return;
      if (!view) return call->Finish(view.error());
      *response->mutable_txn() = ToProto(*view);
      call->Finish({});
    });
    return std::nullopt;
  });
}

}  // namespace lockstep::server
