#include "coordinator/views.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/units.h"
#include "coordinator/txn_id.h"

namespace lockstep::coordinator {
namespace {

BranchView BranchOf(const txn::DecidedParticipant& participant) {
  BranchView branch{.cluster = participant.prepared.name.cluster,
                    .outcome = participant.outcome,
                    .participant = participant.prepared.name,
                    .enlisted = participant.prepared.enlisted,
                    .reinit_required = participant.prepared.enlisted};
  const bool proved = participant.outcome == txn::ParticipantOutcome::kCommitted &&
                      !(participant.order && DeclaredOutcome(participant.order->kind));
  if (participant.order && !proved) branch.problem = ToString(*participant.order);
  return branch;
}

}  // namespace

TxnView ViewOfDecision(const GlobalTxnId& id, const txn::Decision& decision) {
  TxnView view;
  view.id = id;
  view.state = StateOf(decision);
  view.decided_at = decision.decided_at;
  for (const txn::MemberKey& member : decision.keys) {
    if (decision.members[member.member] == id) view.key = PlainKey(member.key.key);
  }
  if (const auto parts = ParseTxnId(id)) view.began_at = parts->birth;
  for (const auto& participant : decision.participants) {
    view.branches.push_back(BranchOf(participant));
  }
  return view;
}

std::string PlainKey(const std::string& key) { return key.substr(key.find(' ') + 1); }

TxnView PresumedAborted(const GlobalTxnId& id, WallTime began_at) {
  TxnView view;
  view.id = id;
  view.state = txn::GlobalTxnState::kAborted;
  view.began_at = began_at;
  view.refusal.message = "no COMMIT decision was logged, so it is aborted; the reason is not kept";
  return view;
}

std::vector<BranchView> BranchesOf(const BatchRunner& runner, std::optional<std::size_t> member) {
  std::vector<BranchView> branches;
  for (std::size_t i = 0; i < runner.batch().participants.size(); ++i) {
    const txn::BatchParticipant& participant = runner.batch().participants[i];
    BranchView branch{.cluster = participant.cluster, .outcome = participant.outcome};
    if (const txn::ParticipantName* name = runner.enlisted(i)) branch.participant = *name;
    if (participant.prepared) branch.participant = participant.prepared->name;
    branch.enlisted = participant.enlisted;
    branch.reinit_required = participant.reinit_required;
    if (member) branch.positions = runner.positions(i, *member);
    if (const Resolver* resolver = runner.resolver(i)) {
      branch.problem = resolver->resolution().problem;
      const auto* order = runner.order(i);
      if (order != nullptr && participant.outcome == txn::ParticipantOutcome::kPending) {
        branch.problem += (branch.problem.empty() ? "" : "; ordered: ") + ToString(*order);
      }
      branch.missing_markers = resolver->resolution().hanging;
    }
    branches.push_back(std::move(branch));
  }
  return branches;
}

InDoubtView InDoubtOf(const txn::Decision& decision) {
  InDoubtView view{.batch = decision.batch,
                   .decided_at = decision.decided_at,
                   .members = decision.members,
                   .state = StateOf(decision)};
  for (const auto& participant : decision.participants) {
    view.branches.push_back(BranchOf(participant));
  }
  return view;
}

InDoubtView InDoubtOf(const BatchRunner& runner, txn::GlobalTxnState state) {
  return {.batch = runner.batch().id,
          .decided_at = runner.decided_at(),
          .members = runner.members(),
          .state = state,
          .branches = BranchesOf(runner, std::nullopt)};
}

std::size_t Weight(const txn::BranchWork& work) {
  std::size_t bytes = 0;
  for (const txn::Record& record : work.records) bytes += txn::Weight(record);
  for (const txn::GroupOffsets& group : work.offsets) {
    bytes += group.group_id.size() + group.member_id.size();
    for (const txn::OffsetToCommit& offset : group.offsets) {
      bytes += sizeof(offset) + offset.partition.topic.size() + offset.metadata.size();
    }
  }
  return bytes;
}

std::size_t Count(const txn::BranchWork& work) {
  std::size_t count = work.records.size();
  for (const txn::GroupOffsets& group : work.offsets) count += group.offsets.size();
  return count;
}

void Append(txn::BranchWork& to, txn::BranchWork more) {
  std::move(more.records.begin(), more.records.end(), std::back_inserter(to.records));
  std::move(more.offsets.begin(), more.offsets.end(), std::back_inserter(to.offsets));
}

std::vector<std::string> GroupsOf(const txn::BranchWork& work) {
  std::vector<std::string> groups;
  for (const txn::GroupOffsets& group : work.offsets) {
    if (std::ranges::find(groups, group.group_id) == groups.end()) groups.push_back(group.group_id);
  }
  return groups;
}

Status CheckClustersConfigured(const std::vector<txn::Decision>& incomplete,
                               const std::map<ClusterName, Cluster*>& clusters) {
  std::map<ClusterName, int> missing;
  for (const txn::Decision& decision : incomplete) {
    for (const txn::DecidedParticipant& participant : decision.participants) {
      if (participant.outcome != txn::ParticipantOutcome::kPending) continue;
      const ClusterName& name = participant.prepared.name.cluster;
      if (!clusters.contains(name)) ++missing[name];
    }
  }
  if (missing.empty()) return {};
  std::string text;
  for (const auto& [name, count] : missing) {
    text += (text.empty() ? "'" : ", '") + name.get() + "' (" + std::to_string(count) + ")";
  }
  return MakeError(Code::kFailedPrecondition,
                   "committed transactions still wait to be completed on clusters that are not in "
                   "the configuration: " +
                       text + "; put them back, and remove them once nothing is in doubt there");
}

Status CheckOffsets(const txn::BranchWork& work) {
  for (const txn::GroupOffsets& group : work.offsets) {
    if (group.group_id.empty()) {
      return MakeError(Code::kInvalidArgument, "offsets need the consumer group's id");
    }
    const bool member = group.generation >= 0 && !group.member_id.empty();
    const bool no_member =
        group.generation < 0 && group.member_id.empty() && !group.group_instance_id.has_value();
    if (group.standalone ? !no_member : !member) {
      return MakeError(Code::kInvalidArgument,
                       "offsets of group '" + group.group_id +
                           "' need its generation and member id, so that the broker can fence a "
                           "stale consumer, or 'standalone' and neither");
    }
  }
  return {};
}

Status CheckExpectedCluster(const Cluster& cluster, const KafkaClusterId& expected,
                            const std::map<ClusterName, Cluster*>& clusters) {
  const ClusterStatus status = cluster.status();
  if (status.kafka_cluster_id == expected) return {};
  if (status.kafka_cluster_id.get().empty()) {
    return MakeError(Code::kUnavailable, "cluster '" + cluster.name().get() +
                                             "' was not reached yet, so its Kafka cluster id "
                                             "cannot be compared; retry later");
  }
  std::string home;
  for (const auto& [name, other] : clusters) {
    if (other->status().kafka_cluster_id == expected)
      home = "; they belong on '" + name.get() + "'";
  }
  return MakeError(Code::kFailedPrecondition,
                   "the consumer read from Kafka cluster '" + expected.get() + "', but cluster '" +
                       cluster.name().get() + "' is '" + status.kafka_cluster_id.get() +
                       "': its offsets do not belong there" + home);
}

txn::Refusal ShuttingDown() {
  return {txn::AbortReason::kShutdown, {}, "lockstepd is shutting down", true};
}

Error NotActive(txn::GlobalTxnState state) {
  return MakeError(Code::kFailedPrecondition,
                   "the transaction is " + std::string(Name(state)) + ", not ACTIVE");
}

Error NoBranch(const ClusterName& cluster) {
  return MakeError(Code::kFailedPrecondition,
                   "the transaction has no branch on cluster '" + cluster.get() + "'");
}

Error BadTimeout(Duration timeout, Duration longest) {
  return MakeError(Code::kInvalidArgument,
                   "timeout: must be between 1ms and " + FormatDuration(longest) +
                       " (limits.transaction_timeout), not " + FormatDuration(timeout));
}

Error UnknownCluster(const ClusterName& name, const std::map<ClusterName, Cluster*>& clusters) {
  std::string known;
  for (const auto& [cluster, unused] : clusters) {
    known += (known.empty() ? "'" : ", '") + cluster.get() + "'";
  }
  return MakeError(Code::kInvalidArgument,
                   "no cluster '" + name.get() + "' is configured; there are: " + known);
}

Error MalformedId(const GlobalTxnId& id) {
  return MakeError(Code::kInvalidArgument, "'" + id.get().substr(0, 100) +
                                               "' is not a transaction id; ids come from "
                                               "BeginGlobalTxn");
}

}  // namespace lockstep::coordinator
