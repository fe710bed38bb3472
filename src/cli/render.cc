#include "cli/render.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

namespace lockstep::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// "TXN_STATE_ACTIVE" without "TXN_STATE_".
std::string Short(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}
std::string NameOf(v1::TxnState state) { return Short(v1::TxnState_Name(state), "TXN_STATE_"); }
std::string NameOf(v1::Outcome outcome) { return Short(v1::Outcome_Name(outcome), "OUTCOME_"); }
std::string NameOf(v1::BranchOutcome outcome) {
  return Short(v1::BranchOutcome_Name(outcome), "BRANCH_OUTCOME_");
}
std::string NameOf(v1::AbortReason reason) {
  return Short(v1::AbortReason_Name(reason), "ABORT_REASON_");
}
std::string NameOf(v1::ClusterState state) {
  return Short(v1::ClusterState_Name(state), "CLUSTER_STATE_");
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

/// `kind`: what is known of the branch's Kafka transaction; null: nothing yet.
template <typename Kind>
std::vector<std::string> BranchRow(const v1::Branch& branch, const std::string& name,
                                   const Kind* kind, std::string problem) {
  if (kind == nullptr) {
    return {branch.cluster(), NameOf(branch.outcome()), name, "-", "-", "-", problem};
  }
  for (const auto& partition : kind->missing_markers()) {
    problem += (problem.empty() ? "" : "; ") + std::string("no marker on ") + partition.topic() +
               "-" + std::to_string(partition.partition());
  }
  return {branch.cluster(),
          NameOf(branch.outcome()),
          name,
          kind->transactional_id(),
          std::to_string(kind->producer_id()),
          std::to_string(kind->producer_epoch()),
          problem};
}

std::vector<std::string> BranchRow(const v1::Branch& branch) {
  std::string problem = branch.problem();
  if (!branch.has_enlisted()) {
    return BranchRow(branch, "managed", branch.has_managed() ? &branch.managed() : nullptr,
                     problem);
  }
  if (branch.enlisted().reinit_required()) {
    problem += (problem.empty() ? "" : "; ") + std::string("its producer must be re-created");
  }
  return BranchRow(branch, "enlisted", &branch.enlisted(), problem);
}

template <typename Branches>
std::string RenderBranches(const Branches& branches) {
  Rows rows = {{"CLUSTER", "OUTCOME", "KIND", "TRANSACTIONAL ID", "PRODUCER", "EPOCH", "PROBLEM"}};
  for (const v1::Branch& branch : branches) rows.push_back(BranchRow(branch));
  return Table(rows);
}

std::string RenderAbort(const v1::Abort& abort) {
  const bool known = abort.reason() != v1::ABORT_REASON_UNSPECIFIED;
  std::string text = known ? NameOf(abort.reason()) : "";
  if (!abort.cluster().empty()) text += " on " + abort.cluster();
  if (!abort.message().empty()) text += (text.empty() ? "" : ": ") + abort.message();
  if (abort.retryable()) text += " (begun anew, it may succeed)";
  return text;
}

template <typename Response>
std::string RenderOutcome(const std::string& txn_id, const Response& response) {
  std::string text = txn_id + " " + NameOf(response.outcome());
  if (response.has_abort()) text += ": " + RenderAbort(response.abort());
  return text + "\n" + RenderBranches(response.branches());
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for an Any of an unknown type: none of ours has one.
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) std::abort();
  return json;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.size() < 2) return {};
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Render(const v1::GetStatusResponse& status) {
  std::string text = "lockstepd " + status.version() + (status.draining() ? ", draining" : "") +
                     "\nlog " + status.log_id() + ", start " +
                     std::to_string(status.incarnation()) + ", since " +
                     TimeText(status.start_time()) + "\n";
  if (status.has_horizon_time()) {
    text += "outcomes kept of transactions begun after " + TimeText(status.horizon_time()) + "\n";
  }
  return text + RenderClusters(status);
}

std::string RenderClusters(const v1::GetStatusResponse& status) {
  Rows rows = {{"CLUSTER", "STATE", "KAFKA CLUSTER ID", "LANES idle/busy/renewing", "PROBLEM"}};
  for (const auto& cluster : status.clusters()) {
    const auto& lanes = cluster.lanes();
    rows.push_back({cluster.name(), NameOf(cluster.state()),
                    cluster.kafka_cluster_id().empty() ? "-" : cluster.kafka_cluster_id(),
                    std::to_string(lanes.idle()) + "/" + std::to_string(lanes.busy()) + "/" +
                        std::to_string(lanes.renewing()),
                    cluster.problem()});
  }
  return Table(rows);
}

std::string Render(const v1::ListTxnsResponse& list) {
  if (list.txns().empty()) return "no transactions\n";
  Rows rows = {{"TXN", "STATE", "BEGAN", "LABEL", "CLUSTERS"}};
  for (const auto& txn : list.txns()) {
    std::string clusters;
    for (const auto& branch : txn.branches()) {
      clusters += (clusters.empty() ? "" : ",") + branch.cluster() +
                  (branch.has_enlisted() ? " (enlisted)" : "");
    }
    rows.push_back(
        {txn.txn_id(), NameOf(txn.state()), TimeText(txn.begin_time()), txn.label(), clusters});
  }
  return Table(rows);
}

std::string Render(const v1::ListOrphansResponse& list) {
  if (list.orphans().empty()) return "no orphans\n";
  Rows rows = {{"CLUSTER", "TRANSACTIONAL ID", "STATE", "STARTED", "TIMEOUT", "PARTITIONS"}};
  for (const auto& orphan : list.orphans()) {
    std::string partitions;
    for (const auto& partition : orphan.partitions()) {
      partitions += (partitions.empty() ? "" : ",") + partition.topic() + "-" +
                    std::to_string(partition.partition());
    }
    rows.push_back({orphan.cluster(), orphan.transactional_id(), orphan.kafka_state(),
                    TimeText(orphan.start_time()),
                    google::protobuf::util::TimeUtil::ToString(orphan.timeout()), partitions});
  }
  return Table(rows);
}

std::string Render(const v1::LogInfoResponse& info) {
  return "log        " + info.log_id() + ", start " + std::to_string(info.incarnation()) +
         "\ndecisions  " + std::to_string(info.decisions()) + " kept, " +
         std::to_string(info.pending()) + " pending, " + std::to_string(info.heuristic()) +
         " heuristic\nbytes      " + std::to_string(info.kept_bytes()) + " kept, " +
         std::to_string(info.disk_bytes()) + " on the disk\nsyncs      " +
         std::to_string(info.syncs()) + " since the start\n" +
         (info.has_horizon_time() ? "horizon    " + TimeText(info.horizon_time()) + "\n" : "") +
         (info.restored_from().empty() ? ""
                                       : "restored   " + TimeText(info.restore_time()) +
                                             " from log " + *info.restored_from().rbegin() + "\n");
}

std::string Render(const v1::Transaction& txn) {
  std::string text = "txn      " + txn.txn_id() + "\nstate    " + NameOf(txn.state()) + "\n";
  if (!txn.label().empty()) text += "label    " + txn.label() + "\n";
  text += "began    " + TimeText(txn.begin_time()) + "\n";
  if (txn.has_decide_time()) text += "decided  " + TimeText(txn.decide_time()) + "\n";
  if (txn.has_end_time()) text += "ended    " + TimeText(txn.end_time()) + "\n";
  const bool may_expire =
      txn.state() == v1::TXN_STATE_ACTIVE || txn.state() == v1::TXN_STATE_PREPARING;
  if (may_expire) text += "expires  " + TimeText(txn.expire_time()) + "\n";
  if (txn.state() == v1::TXN_STATE_ACTIVE) {
    text += "next     sequence " + std::to_string(txn.next_sequence()) + "\n";
  }
  if (txn.has_abort()) text += "aborted  " + RenderAbort(txn.abort()) + "\n";
  return text + RenderBranches(txn.branches());
}

std::string Render(const v1::ListInDoubtResponse& list) {
  if (list.in_doubt().empty()) return "nothing is in doubt\n";
  std::string text;
  for (const auto& item : list.in_doubt()) {
    text += "batch " + std::to_string(item.batch_id()) + " " + NameOf(item.state()) + ", decided " +
            TimeText(item.decide_time()) + "\n";
    for (const auto& id : item.txn_ids()) text += "txn " + id + "\n";
    text += RenderBranches(item.branches()) + "\n";
  }
  return text;
}

std::string Render(const std::string& txn_id, const v1::CommitResponse& response) {
  return RenderOutcome(txn_id, response);
}

std::string Render(const std::string& txn_id, const v1::AbortResponse& response) {
  return RenderOutcome(txn_id, response);
}

}  // namespace lockstep::cli
