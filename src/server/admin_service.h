#pragma once

#include <lockstep/v1/admin.grpc.pb.h>

#include "server/api.h"

namespace lockstep::server {

/// lockstep.v1.Admin. Never blocks a gRPC thread for longer than a look at a folder takes.
class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(Api& api) : api_(api) {}

  grpc::ServerUnaryReactor* ListInDoubt(grpc::CallbackServerContext* context,
                                        const v1::ListInDoubtRequest* request,
                                        v1::ListInDoubtResponse* response) override;
  grpc::ServerUnaryReactor* RepairMarkers(grpc::CallbackServerContext* context,
                                          const v1::RepairMarkersRequest* request,
                                          v1::RepairMarkersResponse* response) override;
  grpc::ServerUnaryReactor* ResolveTxn(grpc::CallbackServerContext* context,
                                       const v1::ResolveTxnRequest* request,
                                       v1::ResolveTxnResponse* response) override;
  grpc::ServerUnaryReactor* AcknowledgeHeuristic(
      grpc::CallbackServerContext* context, const v1::AcknowledgeHeuristicRequest* request,
      v1::AcknowledgeHeuristicResponse* response) override;
  grpc::ServerUnaryReactor* ListOrphans(grpc::CallbackServerContext* context,
                                        const v1::ListOrphansRequest* request,
                                        v1::ListOrphansResponse* response) override;
  grpc::ServerUnaryReactor* EndOrphan(grpc::CallbackServerContext* context,
                                      const v1::EndOrphanRequest* request,
                                      v1::EndOrphanResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Undrain(grpc::CallbackServerContext* context,
                                    const v1::UndrainRequest* request,
                                    v1::UndrainResponse* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::SetLogLevelRequest* request,
                                        v1::SetLogLevelResponse* response) override;
  grpc::ServerUnaryReactor* LogInfo(grpc::CallbackServerContext* context,
                                    const v1::LogInfoRequest* request,
                                    v1::LogInfoResponse* response) override;
  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  /// Tells health checks and the log, once per change.
  void OnAdmission(bool admit);

  Api& api_;
};

}  // namespace lockstep::server
