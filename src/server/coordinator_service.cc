#include "server/coordinator_service.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/call.h"
#include "server/convert.h"
#include "server/execute_stream.h"
#include "server/produce_stream.h"
#include "server/version.h"
#include "server/watch_stream.h"

namespace lockstep::server {
namespace {

using coordinator::TxnView;
void LogOutcome(const Api& api, const TxnView& view) {
  const TraceScope scope(api.traces.Find(view.id));
  const txn::Refusal& why = view.refusal;
  if (why.reason == txn::AbortReason::kNone || why.reason == txn::AbortReason::kClientAbort) {
    return spdlog::debug("{} {}", view.id.get(), Name(view.state));
  }
  spdlog::info("{} aborted: {} {}: {}", view.id.get(), Name(why.reason), why.cluster.get(),
               why.message);
}

v1::Limits LimitsOf(const Api& api) {
  const auto all = api.limits.Get();
  const coordinator::Limits& limits = all->coordinator;
  v1::Limits out;
  out.set_message_bytes(all->message_bytes);
  out.set_record_bytes(all->record_bytes);
  out.set_transaction_bytes(limits.txn_bytes);
  const auto longest =
      std::chrono::duration_cast<std::chrono::milliseconds>(limits.max_txn_timeout);
  *out.mutable_transaction_timeout() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(longest.count());
  out.set_transaction_records(limits.txn_records);
  out.set_client_buffer_bytes(limits.client_buffer_bytes);
  out.set_open_transactions(limits.open_txns);
  out.set_execute_stream_in_flight(kExecuteStreamInFlight);
  return out;
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
    if (auto refused = CheckTimeout(call->caller(), begin->timeout)) return refused;
    const auto begun = [this, call, response,
                        trace = TraceOf(*context)](const Result<TxnView>& view) {
      if (view) api_.traces.Remember(view->id, trace);
      if (!call->Claim()) return;
      if (!view) return call->Finish(view.error());
      response->set_txn_id(view->id.get());
      *response->mutable_expire_time() = ToProto(view->expires_at);
      response->set_incarnation(api_.log.recovered().incarnation.get());
      *response->mutable_limits() = LimitsOf(api_);
      call->Finish({});
    };
    if (begin->enlisted.empty()) {
      api_.coordinator.Begin(begin->timeout, std::move(begin->label), begun, context->peer(),
                             call->caller().owner());
      return std::nullopt;
    }
    api_.coordinator.BeginEnlisted(
        {.timeout = begin->timeout,
         .label = std::move(begin->label),
         .client = context->peer(),
         .owner = call->caller().owner(),
         .enlisted = std::move(begin->enlisted),
         .gone = [call, context] { return call->claimed() || context->IsCancelled(); }},
        begun);
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Produce(grpc::CallbackServerContext* context,
                                                      const v1::ProduceRequest* request,
                                                      v1::ProduceResponse*) {
  return Serve(api_, "Produce", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto work = ParseProduce(*request, api_.limits.Get()->record_bytes);
    if (!work) return Refused{work.error(), {}};
    if (auto refused = CheckWork(api_, call->caller(), *work)) return refused;
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
    if (auto refused = CheckWork(api_, call->caller(), *work)) return refused;
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
    if (auto refused = CheckMine(call->caller(), *id)) return refused;
    auto options = ParseCommit(*request);
    if (!options) return Refused{options.error(), {}};
    waits_.Commit(
        *std::move(id), *options, ClientOf(*context, [call] { return call->claimed(); }),
        [this, call, response, positions = options->want_positions](const Result<TxnView>& view) {
          if (!call->Claim()) return;
          if (!view) return call->Finish(view.error());
          LogOutcome(api_, *view);
          api_.gate.Note(call->caller(), "Commit", view->id, Name(view->state));
          call->Finish(FillOutcome(*view, positions, *response));
        });
    return std::nullopt;
  });
}

void CoordinatorService::AnswerDecided() {
  waits_.AnswerDecided();
  api_.coordinator.EndWatches();
}

grpc::ServerUnaryReactor* CoordinatorService::Abort(grpc::CallbackServerContext* context,
                                                    const v1::AbortRequest* request,
                                                    v1::AbortResponse* response) {
  return Serve(api_, "Abort", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    if (auto refused = CheckMayAbort(call->caller(), *id)) return refused;
    api_.coordinator.Abort(*std::move(id), [this, call, response](const Result<TxnView>& view) {
      if (!call->Claim()) return;
      if (!view) return call->Finish(view.error());
      api_.gate.Note(call->caller(), "Abort", view->id, Name(view->state));
      call->Finish(FillOutcome(*view, *response));
    });
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::GetTxn(grpc::CallbackServerContext* context,
                                                     const v1::GetTxnRequest* request,
                                                     v1::GetTxnResponse* response) {
  return Serve(api_, "GetTxn", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    if (auto refused = CheckVisible(call->caller(), *id)) return refused;
    api_.coordinator.Get(*std::move(id), [call, response](const Result<TxnView>& view) {
      if (!call->Claim()) return;
      if (!view) return call->Finish(view.error());
      *response->mutable_txn() = ToProto(*view);
      call->Finish({});
    });
    return std::nullopt;
  });
}

// ---- A whole transaction in one call ------------------------------------------------------------

grpc::ServerUnaryReactor* CoordinatorService::Execute(grpc::CallbackServerContext* context,
                                                      const v1::ExecuteRequest* request,
                                                      v1::ExecuteResponse* response) {
  return Serve(api_, "Execute", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto execute = ParseExecute(*request, api_.limits.Get()->record_bytes);
    if (!execute) return Refused{execute.error(), {}};
    execute->submission.client = context->peer();
    execute->trace = TraceOf(*context);
    execute->submission.owner = call->caller().owner();
    if (auto refused = CheckExecute(api_, call->caller(), *execute)) return refused;
    waits_.Execute(
        *std::move(execute), ClientOf(*context, [call] { return call->claimed(); }),
        [this, call, response,
         positions = request->return_positions()](const std::variant<Executed, Refused>& result) {
          if (!call->Claim()) return;
          if (const auto* refused = std::get_if<Refused>(&result)) {
            return call->Finish(refused->error, refused->reason);
          }
          const auto& executed = std::get<Executed>(result);
          LogOutcome(api_, executed.view);
          api_.gate.Note(call->caller(), "Execute", executed.view.id, Name(executed.view.state));
          call->Finish(FillExecuted(executed, positions, *response));
        });
    return std::nullopt;
  });
}

grpc::ServerBidiReactor<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>*
CoordinatorService::ExecuteStream(grpc::CallbackServerContext* context) {
  return new server::ExecuteStream(api_, waits_, context);
}

// ---- What is there ------------------------------------------------------------------------------

grpc::ServerUnaryReactor* CoordinatorService::ListTxns(grpc::CallbackServerContext* context,
                                                       const v1::ListTxnsRequest* request,
                                                       v1::ListTxnsResponse* response) {
  return Serve(api_, "ListTxns", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto list = ParseList(*request);
    if (!list) return Refused{list.error(), {}};
    if (!call->caller().sees_all()) list->filter.owner = call->caller().principal->name;
    api_.coordinator.List(std::move(list->filter), std::move(list->after), list->count,
                          [call, response](const Result<coordinator::TxnPage>& page) {
                            if (!call->Claim()) return;
                            if (!page) return call->Finish(page.error());
                            for (const TxnView& view : page->txns) {
                              *response->add_txns() = ToProto(view);
                            }
                            if (page->more) {
                              response->set_next_page_token(page->txns.back().id.get());
                            }
                            call->Finish({});
                          });
    return std::nullopt;
  });
}

grpc::ServerWriteReactor<v1::WatchTxnResponse>* CoordinatorService::WatchTxn(
    grpc::CallbackServerContext* context, const v1::WatchTxnRequest* request) {
  return new WatchStream(api_, *context, *request);
}

grpc::ServerReadReactor<v1::ProduceStreamRequest>* CoordinatorService::ProduceStream(
    grpc::CallbackServerContext* context, v1::ProduceStreamResponse* response) {
  return new server::ProduceStream(api_, *context, response);
}

grpc::ServerUnaryReactor* CoordinatorService::GetServerInfo(grpc::CallbackServerContext* context,
                                                            const v1::GetServerInfoRequest*,
                                                            v1::GetServerInfoResponse* response) {
  return Serve(api_, "GetServerInfo", context, [&](const CallPtr& call) -> std::optional<Refused> {
    if (!call->Claim()) return std::nullopt;
    const coordinator::RecoveredLog& log = api_.log.recovered();
    response->set_version(kVersion);
    response->set_log_id(log.log_id.get());
    response->set_incarnation(log.incarnation.get());
    *response->mutable_start_time() = ToProto(api_.started_at);
    for (const v1::Capability capability :
         {v1::CAPABILITY_EXECUTE, v1::CAPABILITY_EXECUTE_STREAM, v1::CAPABILITY_PRODUCE_STREAM,
          v1::CAPABILITY_LIST_TXNS, v1::CAPABILITY_WATCH_TXN, v1::CAPABILITY_POSITIONS,
          v1::CAPABILITY_ENLIST, v1::CAPABILITY_BEGIN_ENLISTED}) {
      response->add_capabilities(capability);
    }
    *response->mutable_limits() = LimitsOf(api_);
    call->Finish({});
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* CoordinatorService::ListClusters(grpc::CallbackServerContext* context,
                                                           const v1::ListClustersRequest*,
                                                           v1::ListClustersResponse* response) {
  return Serve(api_, "ListClusters", context, [&](const CallPtr& call) -> std::optional<Refused> {
    if (!call->Claim()) return std::nullopt;
    std::vector<coordinator::Cluster*> clusters = *api_.clusters.Get();
    std::ranges::sort(clusters, {}, [](const auto* cluster) { return cluster->name(); });
    for (const coordinator::Cluster* cluster : clusters) {
      if (CheckMayUse(call->caller(), cluster->name())) continue;
      *response->add_clusters() = ToClusterInfo(cluster->name(), cluster->status());
    }
    call->Finish({});
    return std::nullopt;
  });
}

// ---- Transactions of the client's own producer --------------------------------------------------

grpc::ServerUnaryReactor* CoordinatorService::RegisterProducer(
    grpc::CallbackServerContext* context, const v1::RegisterProducerRequest* request,
    v1::RegisterProducerResponse* response) {
  return Serve(api_, "RegisterProducer", context,
               [&](const CallPtr& call) -> std::optional<Refused> {
                 auto producer = ParseRegister(*request);
                 if (!producer) return Refused{producer.error(), {}};
                 const Caller& caller = call->caller();
                 if (auto refused = CheckCluster(api_, caller, producer->cluster)) return refused;
                 if (auto refused = CheckMayEnlist(caller, producer->cluster, producer->id)) {
                   return refused;
                 }
                 api_.coordinator.RegisterProducer(
                     std::move(producer->cluster), std::move(producer->id), producer->protocol,
                     [this, call, response](const Result<coordinator::Registered>& registered) {
                       if (!call->Claim()) return;
                       if (!registered) return call->Finish(registered.error());
                       response->set_registration_id(registered->id);
                       response->set_incarnation(api_.log.recovered().incarnation.get());
                       response->set_protocol(ToProto(registered->protocol));
                       call->Finish({});
                     },
                     caller.principal->name);
                 return std::nullopt;
               });
}

grpc::ServerUnaryReactor* CoordinatorService::Enlist(grpc::CallbackServerContext* context,
                                                     const v1::EnlistRequest* request,
                                                     v1::EnlistResponse* response) {
  return Serve(api_, "Enlist", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto enlist = ParseEnlist(*request);
    if (!enlist) return Refused{enlist.error(), {}};
    if (auto refused = CheckMine(call->caller(), enlist->txn)) return refused;
    response->set_incarnation(api_.log.recovered().incarnation.get());
    api_.coordinator.Enlist(std::move(enlist->txn), std::move(enlist->producer.registration),
                            enlist->producer.told, AnswerStatus(call));
    return std::nullopt;
  });
}

}  // namespace lockstep::server
