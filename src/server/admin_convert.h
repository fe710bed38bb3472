#pragma once

#include <lockstep/v1/admin.pb.h>

#include <string>

#include "base/result.h"
#include "coordinator/ports.h"
#include "txn/types.h"

/// Admin's requests to the core's values and back: pure, total. As convert.h.
namespace lockstep::server {

/// `given_at` is not set.
Result<txn::OperatorOrder> ParseOrder(const v1::ResolveTxnRequest& request);

struct EndOrphanCall {
  ClusterName cluster;
  coordinator::Orphan orphan;
  txn::Direction direction = txn::Direction::kAbort;
  std::string who;
  std::string why;
};
/// kFailedPrecondition for COMMIT without force.
Result<EndOrphanCall> ParseEndOrphan(const v1::EndOrphanRequest& request);

/// spdlog's name of the level, "info".
Result<std::string> ParseLogLevel(v1::LogLevel level);
v1::LogLevel LogLevelOf(const std::string& spdlog_name);

v1::Orphan ToProto(const ClusterName& cluster, const coordinator::Orphan& orphan);

}  // namespace lockstep::server
