#pragma once

#include <lockstep/v1/admin.pb.h>
#include <lockstep/v1/coordinator.pb.h>
#include <lockstep/v1/txn.pb.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"
#include "server/traces.h"

/// Requests to the core's values, and its views to answers: pure, total. A request that breaks a
/// rule of coordinator.proto is kInvalidArgument; the message begins with the field.
namespace lockstep::server {

struct BeginCall {
  Duration timeout{};
  std::string label;
  std::vector<coordinator::Enlistee> enlisted;
};
Result<BeginCall> ParseBegin(const v1::BeginGlobalTxnRequest& request);

struct WorkCall {
  GlobalTxnId txn;
  ClusterName cluster;
  std::uint64_t sequence = 0;
  std::optional<KafkaClusterId> kafka_cluster_id;
  txn::BranchWork work;
};
/// `record_bytes` is the limit for one record.
Result<WorkCall> ParseProduce(const v1::ProduceRequest& request, std::size_t record_bytes);
Result<WorkCall> ParseProduce(const v1::ProduceStreamRequest& request, std::size_t record_bytes);
Result<WorkCall> ParseSendOffsets(const v1::SendOffsetsRequest& request);

Result<coordinator::CommitOptions> ParseCommit(const v1::CommitRequest& request);

struct RegisterCall {
  ClusterName cluster;
  TransactionalId id;
  txn::EndTxnProtocol protocol = txn::EndTxnProtocol::kTv1;
};
Result<RegisterCall> ParseRegister(const v1::RegisterProducerRequest& request);

struct EnlistCall {
  GlobalTxnId txn;
  coordinator::Enlistee producer;
};
Result<EnlistCall> ParseEnlist(const v1::EnlistRequest& request);

/// Present, short and printable, so that logs can show it; its form is the coordinator's to judge.
Result<GlobalTxnId> ParseTxnId(const std::string& text);

struct ExecuteCall {
  coordinator::Submission submission;
  coordinator::CommitOptions options;
  std::optional<TraceContext> trace;  ///< Not in the message.
};
Result<ExecuteCall> ParseExecute(const v1::ExecuteRequest& request, std::size_t record_bytes);
/// What ParseExecute asks of a key.
Status CheckKey(const std::string& key);

struct ListCall {
  coordinator::ListFilter filter;
  std::optional<GlobalTxnId> after;
  std::size_t count = 100;
};
Result<ListCall> ParseList(const v1::ListTxnsRequest& request);

/// What a watcher saw last.
struct SeenRevision {
  std::uint64_t revision = 0;  ///< 0: none of this start's.
  bool final = false;          ///< It was the last one.
};
Result<SeenRevision> ParseResumeToken(const std::string& token, Incarnation incarnation);
std::string ResumeToken(Incarnation incarnation, SeenRevision seen);

/// Fills the response, with positions where they are wanted. kInternal for a state that is no
/// outcome.
Status FillOutcome(const coordinator::TxnView& view, bool positions, v1::CommitResponse& response);
Status FillOutcome(const coordinator::TxnView& view, bool positions, v1::ExecuteResponse& response);
Status FillOutcome(const coordinator::TxnView& view, v1::AbortResponse& response);

v1::Transaction ToProto(const coordinator::TxnView& view);
v1::InDoubt ToProto(const coordinator::InDoubtView& view);
v1::ClusterStatus ToProto(const ClusterName& name, const coordinator::ClusterStatus& status);
v1::ClusterInfo ToClusterInfo(const ClusterName& name, const coordinator::ClusterStatus& status);
v1::TxnState ToProto(txn::GlobalTxnState state);
v1::ProducerProtocol ToProto(txn::EndTxnProtocol protocol);
v1::AbortReason ToProto(txn::AbortReason reason);
google::protobuf::Timestamp ToProto(WallTime time);

}  // namespace lockstep::server
