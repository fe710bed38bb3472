#pragma once

#include <google/protobuf/message.h>
#include <lockstep/v1/admin.pb.h>
#include <lockstep/v1/coordinator.pb.h>

#include <string>
#include <vector>

/// Answers as text: tables for people, the protobuf JSON mapping (field names as in the .proto,
/// every field present) for programs. Pure.
namespace lockstep::cli {

std::string ToJson(const google::protobuf::Message& message);

/// Columns padded to their widest cell; the first row is the head. Empty without another row.
std::string Table(const std::vector<std::vector<std::string>>& rows);

std::string Render(const v1::GetStatusResponse& status);
/// Of it, the clusters alone.
std::string RenderClusters(const v1::GetStatusResponse& status);
std::string Render(const v1::ListTxnsResponse& list);
std::string Render(const v1::ListOrphansResponse& list);
std::string Render(const v1::LogInfoResponse& info);
std::string Render(const v1::Transaction& txn);
std::string Render(const v1::ListInDoubtResponse& list);
std::string Render(const std::string& txn_id, const v1::CommitResponse& response);
std::string Render(const std::string& txn_id, const v1::AbortResponse& response);

}  // namespace lockstep::cli
