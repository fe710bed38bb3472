#include "server/admin_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

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
  if (request.page_size() < 0) {
    return MakeError(Code::kInvalidArgument, "page_size: must not be negative");
  }
  const int size = request.page_size() == 0 ? kDefaultPage : request.page_size();
  Page page{.size = static_cast<std::size_t>(std::min(size, kMaxPage))};
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
  return Serve(api_, "RepairMarkers", context, [&](const CallPtr& call) -> std::optional<Refused> {
    auto id = ParseTxnId(request->txn_id());
    if (!id) return Refused{id.error(), {}};
    const ClusterName cluster(request->cluster());
    if (auto unknown = CheckCluster(api_, cluster)) return unknown;
    api_.coordinator.RepairMarkers(*id, cluster, [call, id = *id, cluster](const Status& status) {
      spdlog::warn("{} an operator has its missing markers written on {}: {}", id.get(),
                   cluster.get(), status.ok() ? "done" : ToString(status.error()));
      if (call->Claim()) call->Finish(status);
    });
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* AdminService::AcknowledgeHeuristic(
    grpc::CallbackServerContext* context, const v1::AcknowledgeHeuristicRequest* request,
    v1::AcknowledgeHeuristicResponse*) {
  return Serve(api_, "AcknowledgeHeuristic", context,
               [&](const CallPtr& call) -> std::optional<Refused> {
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
    response->set_draining(api_.draining);
    for (const coordinator::Cluster* cluster : api_.clusters) {
      *response->add_clusters() = ToProto(cluster->name(), cluster->status());
    }
    call->Finish({});
    return std::nullopt;
  });
}

}  // namespace lockstep::server
