#include "server/admin_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/admin_convert.h"
#include "server/backup_stream.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/version.h"

namespace lockstep::server {
namespace {

using coordinator::InDoubtView;

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;

struct Page {
  std::uint64_t after = 0;  ///< The last batch of the page before; they count from 1.
  std::size_t size = 0;
};

Result<Page> ParsePage(const v1::ListInDoubtRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return MakeError(Code::kInvalidArgument, "page_size: must be 0 to " + std::to_string(kMaxPage));
  }
  const int size = request.page_size() == 0 ? kDefaultPage : request.page_size();
  Page page{.size = static_cast<std::size_t>(size)};
  const std::string& token = request.page_token();
  if (token.empty()) return page;
  const auto [end, problem] =
      std::from_chars(token.data(), token.data() + token.size(), page.after);
  if (problem != std::errc{} || end != token.data() + token.size()) {
    return MakeError(Code::kInvalidArgument, "page_token: not one of ours");
  }
  return page;
}

void FillPage(std::vector<InDoubtView> views, const Page& page, v1::ListInDoubtResponse& response) {
  std::sort(views.begin(), views.end(),
            [](const auto& a, const auto& b) { return a.batch < b.batch; });
  auto view = std::upper_bound(
      views.begin(), views.end(), BatchId(page.after),
      [](const BatchId& batch, const InDoubtView& candidate) { return batch < candidate.batch; });
  for (std::size_t i = 0; i < page.size && view != views.end(); ++i, ++view) {
    *response.add_in_doubt() = ToProto(*view);
  }
  if (view != views.end()) {
    response.set_next_page_token(std::to_string(std::prev(view)->batch.get()));
  }
}

// ---- Orphans ------------------------------------------------------------------------------------

/// One ListOrphans: every cluster is asked, side by side. On the executor only.
struct OrphanSurvey {
  std::vector<coordinator::Cluster*> clusters;
  std::vector<std::optional<Result<coordinator::OrphanListing>>> answers;
  std::size_t missing = 0;
  std::function<void(const OrphanSurvey&)> answered;
};

void Ask(const std::shared_ptr<OrphanSurvey>& survey, coordinator::Executor& executor) {
  for (std::size_t i = 0; i < survey->clusters.size(); ++i) {
    survey->clusters[i]->ListOrphans(
        [survey, i, &executor](Result<coordinator::OrphanListing> answer) {
          executor.Post([survey, i, answer = std::move(answer)] {
            survey->answers[i] = answer;
            if (--survey->missing == 0) survey->answered(*survey);
          });
        });
  }
}

void Fill(const OrphanSurvey& survey, v1::ListOrphansResponse& response) {
  for (std::size_t i = 0; i < survey.clusters.size(); ++i) {
    const ClusterName& name = survey.clusters[i]->name();
    const Result<coordinator::OrphanListing>& answer = *survey.answers[i];
    if (!answer.ok()) {
      response.add_problems(name.get() + ": " + answer.error().message);
      continue;
    }
    for (const auto& orphan : answer->orphans) *response.add_orphans() = ToProto(name, orphan);
    for (const auto& problem : answer->problems) response.add_problems(name.get() + ": " + problem);
  }
}

void Fill(const coordinator::DecisionLog& log, const coordinator::LogStats& stats,
          v1::LogInfoResponse& response) {
  response.set_log_id(log.recovered().log_id.get());
  response.set_incarnation(log.recovered().incarnation.get());
  response.set_decisions(stats.decisions);
  response.set_kept_bytes(stats.kept_bytes);
  response.set_disk_bytes(stats.disk_bytes);
  response.set_syncs(stats.syncs);
  for (const LogId& origin : log.recovered().origins) response.add_restored_from(origin.get());
  if (const WallTime at = log.recovered().restored_at; at.ms > 0) {
    *response.mutable_restore_time() = ToProto(at);
  }
  if (const WallTime horizon = log.Horizon(); horizon.ms > 0) {
    *response.mutable_horizon_time() = ToProto(horizon);
  }
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::ListInDoubt(grpc::CallbackServerContext* context,
                                                    const v1::ListInDoubtRequest* request,
                                                    v1::ListInDoubtResponse* response) {
  return Serve(api_, "ListInDoubt", context, [&](const CallPtr& call) -> std::optional<Refused> {
    const auto page = ParsePage(*request);
    if (!page) return Refused{page.error(), {}};
    api_.coordinator.ListInDoubt([call, response, page = *page](std::vector<InDoubtView> views) {
      if (!call->Claim()) return;
      FillPage(std::move(views), page, *response);
      call->Finish({});
    });
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* AdminService::RepairMarkers(grpc::CallbackServerContext* context,
                                                      const v1::RepairMarkersRequest* request,
                                                      v1::RepairMarkersResponse*) {
  return ServeOrder(api_, "RepairMarkers", context, request,
                    [this, request](const CallPtr& call) -> std::optional<Refused> {
                      auto id = ParseTxnId(request->txn_id());
                      if (!id) return Refused{id.error(), {}};
                      const ClusterName cluster(request->cluster());
                      if (auto unknown = CheckCluster(api_, call->caller(), cluster))
                        return unknown;
                      api_.coordinator.RepairMarkers(
                          *id, cluster, [this, call, id = *id, cluster](const Status& status) {
                            const TraceScope scope(api_.traces.Find(id));
                            spdlog::warn("{} an operator has its missing markers written on {}: {}",
                                         id.get(), cluster.get(),
                                         status.ok() ? "done" : ToString(status.error()));
                            if (call->Claim()) call->Finish(status);
                          });
                      return std::nullopt;
                    });
}

grpc::ServerUnaryReactor* AdminService::ResolveTxn(grpc::CallbackServerContext* context,
                                                   const v1::ResolveTxnRequest* request,
                                                   v1::ResolveTxnResponse* response) {
  return ServeOrder(api_, "ResolveTxn", context, request,
                    [this, request, response](const CallPtr& call) -> std::optional<Refused> {
                      auto id = ParseTxnId(request->txn_id());
                      if (!id) return Refused{id.error(), {}};
                      const ClusterName cluster(request->cluster());
                      if (auto unknown = CheckCluster(api_, call->caller(), cluster))
                        return unknown;
                      auto order = ParseOrder(*request);
                      if (!order) return Refused{order.error(), {}};
                      const std::string what = (order->forced ? "FORCED " : "") + ToString(*order);
                      api_.coordinator.Resolve(
                          *id, cluster, *std::move(order),
                          [this, call, response, id = *id, cluster,
                           what](const Result<coordinator::TxnView>& view) {
                            const TraceScope scope(api_.traces.Find(id));
                            spdlog::warn("{} {} on {}: {}", id.get(), what, cluster.get(),
                                         view.ok() ? "taken" : ToString(view.error()));
                            if (!call->Claim()) return;
                            if (!view.ok()) return call->Finish(view.error());
                            *response->mutable_txn() = ToProto(*view);
                            call->Finish({});
                          });
                      return std::nullopt;
                    });
}

grpc::ServerUnaryReactor* AdminService::AcknowledgeHeuristic(
    grpc::CallbackServerContext* context, const v1::AcknowledgeHeuristicRequest* request,
    v1::AcknowledgeHeuristicResponse*) {
  return ServeOrder(
      api_, "AcknowledgeHeuristic", context, request,
      [this, request](const CallPtr& call) -> std::optional<Refused> {
        auto id = ParseTxnId(request->txn_id());
        if (!id) return Refused{id.error(), {}};
        api_.coordinator.AcknowledgeHeuristic(*id, [call, id = *id](const Status& status) {
          if (status.ok()) {
            spdlog::warn("{} an operator acknowledged its HEURISTIC outcome", id.get());
          }
          if (call->Claim()) call->Finish(status);
        });
        return std::nullopt;
      });
}

grpc::ServerUnaryReactor* AdminService::ListOrphans(grpc::CallbackServerContext* context,
                                                    const v1::ListOrphansRequest* request,
                                                    v1::ListOrphansResponse* response) {
  return Serve(api_, "ListOrphans", context, [&](const CallPtr& call) -> std::optional<Refused> {
    const ClusterName wanted(request->cluster());
    if (!wanted.get().empty()) {
      if (auto unknown = CheckCluster(api_, call->caller(), wanted)) return unknown;
    }
    const auto survey = std::make_shared<OrphanSurvey>();
    for (coordinator::Cluster* cluster : *api_.clusters.Get()) {
      if (wanted.get().empty() || cluster->name() == wanted) survey->clusters.push_back(cluster);
    }
    survey->answers.resize(survey->clusters.size());
    survey->missing = survey->clusters.size();
    survey->answered = [call, response](const OrphanSurvey& done) {
      if (!call->Claim()) return;
      Fill(done, *response);
      call->Finish({});
    };
    api_.executor.Post([survey, &executor = api_.executor] { Ask(survey, executor); });
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* AdminService::EndOrphan(grpc::CallbackServerContext* context,
                                                  const v1::EndOrphanRequest* request,
                                                  v1::EndOrphanResponse* response) {
  return ServeOrder(
      api_, "EndOrphan", context, request,
      [this, request, response](const CallPtr& call) -> std::optional<Refused> {
        auto parsed = ParseEndOrphan(*request);
        if (!parsed) return Refused{parsed.error(), {}};
        if (auto unknown = CheckCluster(api_, call->caller(), parsed->cluster)) return unknown;
        const auto clusters = api_.clusters.Get();
        const auto cluster = std::find_if(
            clusters->begin(), clusters->end(),
            [&](const auto* candidate) { return candidate->name() == parsed->cluster; });
        const auto answered = [call, response,
                               end = *parsed](const Result<txn::TxnDescription>& description) {
          spdlog::warn("orphan {} on {}: {} by an operator ({}): {}: {}",
                       end.orphan.transactional_id.get(), end.cluster.get(),
                       end.direction == txn::Direction::kCommit ? "COMMIT" : "ABORT", end.who,
                       end.why, description.ok() ? "done" : ToString(description.error()));
          if (!call->Claim()) return;
          if (!description.ok()) return call->Finish(description.error());
          response->set_kafka_state(std::string(Name(description->state)));
          call->Finish({});
        };
        api_.executor.Post([cluster = *cluster, end = *std::move(parsed), answered] {
          cluster->EndOrphan(end.orphan, end.direction, answered);
        });
        return std::nullopt;
      });
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* context,
                                              const v1::DrainRequest* request,
                                              v1::DrainResponse* response) {
  return ServeOrder(api_, "Drain", context, request,
                    [this, response](const CallPtr& call) -> std::optional<Refused> {
                      api_.coordinator.SetAdmission(
                          false,
                          [this, call, response](const Result<std::size_t>& open_transactions) {
                            if (open_transactions.ok()) OnAdmission(false);
                            if (!call->Claim()) return;
                            if (!open_transactions.ok())
                              return call->Finish(open_transactions.error());
                            response->set_open_transactions(*open_transactions);
                            call->Finish({});
                          });
                      return std::nullopt;
                    });
}

grpc::ServerUnaryReactor* AdminService::Undrain(grpc::CallbackServerContext* context,
                                                const v1::UndrainRequest* request,
                                                v1::UndrainResponse*) {
  return ServeOrder(
      api_, "Undrain", context, request, [this](const CallPtr& call) -> std::optional<Refused> {
        api_.coordinator.SetAdmission(true, [this, call](const Result<std::size_t>& admitted) {
          if (admitted.ok()) OnAdmission(true);
          if (call->Claim()) call->Finish(admitted.ok() ? Status() : Status(admitted.error()));
        });
        return std::nullopt;
      });
}

void AdminService::OnAdmission(bool admit) {
  if (api_.drained.exchange(!admit) == !admit) return;
  spdlog::warn(admit ? "an operator lets new transactions in again"
                     : "drained by an operator: no new transactions");
  api_.set_serving(admit && !api_.draining);
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* context,
                                                    const v1::SetLogLevelRequest* request,
                                                    v1::SetLogLevelResponse* response) {
  return ServeOrder(
      api_, "SetLogLevel", context, request,
      [this, request, response](const CallPtr& call) -> std::optional<Refused> {
        const auto level = ParseLogLevel(request->level());
        if (!level) return Refused{level.error(), {}};
        if (!call->Claim()) return std::nullopt;
        const auto previous = spdlog::level::to_string_view(spdlog::get_level());
        response->set_previous(LogLevelOf(std::string(previous.begin(), previous.end())));
        spdlog::set_level(spdlog::level::from_str(*level));
        spdlog::warn("an operator set the log level to {}", *level);
        call->Finish({});
        return std::nullopt;
      });
}

grpc::ServerUnaryReactor* AdminService::LogInfo(grpc::CallbackServerContext* context,
                                                const v1::LogInfoRequest*,
                                                v1::LogInfoResponse* response) {
  return Serve(api_, "LogInfo", context, [&](const CallPtr& call) -> std::optional<Refused> {
    const auto stats = api_.log.Stats();
    if (!stats.ok()) return Refused{stats.error(), {}};
    api_.coordinator.ListInDoubt(
        [call, response, stats = *stats, &log = api_.log](const std::vector<InDoubtView>& views) {
          if (!call->Claim()) return;
          Fill(log, stats, *response);
          for (const InDoubtView& view : views) {
            const bool heuristic = view.state == txn::GlobalTxnState::kHeuristic;
            response->set_pending(response->pending() + (heuristic ? 0 : 1));
            response->set_heuristic(response->heuristic() + (heuristic ? 1 : 0));
          }
          call->Finish({});
        });
    return std::nullopt;
  });
}

grpc::ServerWriteReactor<v1::BackupResponse>* AdminService::Backup(
    grpc::CallbackServerContext* context, const v1::BackupRequest*) {
  return new BackupStream(api_, context);
}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const v1::GetStatusRequest*,
                                                  v1::GetStatusResponse* response) {
  return Serve(api_, "GetStatus", context, [&](const CallPtr& call) -> std::optional<Refused> {
    if (!call->Claim()) return std::nullopt;
    const coordinator::RecoveredLog& log = api_.log.recovered();
    response->set_version(kVersion);
    response->set_log_id(log.log_id.get());
    response->set_incarnation(log.incarnation.get());
    *response->mutable_start_time() = ToProto(api_.started_at);
    if (const WallTime horizon = api_.log.Horizon(); horizon.ms > 0) {
      *response->mutable_horizon_time() = ToProto(horizon);
    }
    response->set_draining(api_.draining || api_.drained);
    for (const coordinator::Cluster* cluster : *api_.clusters.Get()) {
      *response->add_clusters() = ToProto(cluster->name(), cluster->status());
    }
    call->Finish({});
    return std::nullopt;
  });
}

}  // namespace lockstep::server
