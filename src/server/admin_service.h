#pragma once

#include <lockstep/v1/admin.grpc.pb.h>

#include "server/api.h"

namespace lockstep::server {

/// lockstep.v1.Admin. Never blocks a gRPC thread.
class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(Api& api) : api_(api) {}

  grpc::ServerUnaryReactor* ListInDoubt(grpc::CallbackServerContext* context,
                                        const v1::ListInDoubtRequest* request,
                                        v1::ListInDoubtResponse* response) override;
  grpc::ServerUnaryReactor* RepairMarkers(grpc::CallbackServerContext* context,
                                          const v1::RepairMarkersRequest* request,
                                          v1::RepairMarkersResponse* response) override;
  grpc::ServerUnaryReactor* AcknowledgeHeuristic(
      grpc::CallbackServerContext* context, const v1::AcknowledgeHeuristicRequest* request,
      v1::AcknowledgeHeuristicResponse* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  Api& api_;
};

}  // namespace lockstep::server
