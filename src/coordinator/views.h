#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"

/// How the coordinator shows its transactions, and the words of its refusals: pure functions.
namespace lockstep::coordinator {

TxnView ViewOfDecision(const GlobalTxnId& id, const txn::Decision& decision);
/// A client's key as the client gave it, of one that is stored with its owner's name before it.
std::string PlainKey(const std::string& key);
/// No record of a transaction of this log means ABORT.
TxnView PresumedAborted(const GlobalTxnId& id, WallTime began_at);
/// With the positions of one member's records, or of nobody's.
std::vector<BranchView> BranchesOf(const BatchRunner& runner, std::optional<std::size_t> member);
InDoubtView InDoubtOf(const txn::Decision& decision);
InDoubtView InDoubtOf(const BatchRunner& runner, txn::GlobalTxnState state);

std::size_t Weight(const txn::BranchWork& work);
std::size_t Count(const txn::BranchWork& work);  ///< Records and offsets.
void Append(txn::BranchWork& to, txn::BranchWork more);
std::vector<std::string> GroupsOf(const txn::BranchWork& work);  ///< Whose offsets it commits.

/// Every cluster with a pending participant is configured.
Status CheckClustersConfigured(const std::vector<txn::Decision>& incomplete,
                               const std::map<ClusterName, Cluster*>& clusters);
/// Group offsets name a group, and either its membership or `standalone`.
Status CheckOffsets(const txn::BranchWork& work);
/// The cluster is known to be the one that the caller's consumer saw.
Status CheckExpectedCluster(const Cluster& cluster, const KafkaClusterId& expected,
                            const std::map<ClusterName, Cluster*>& clusters);

txn::Refusal ShuttingDown();
Error NotActive(txn::GlobalTxnState state);
Error NoBranch(const ClusterName& cluster);
Error BadTimeout(Duration timeout, Duration longest);
Error UnknownCluster(const ClusterName& name, const std::map<ClusterName, Cluster*>& clusters);
Error MalformedId(const GlobalTxnId& id);

}  // namespace lockstep::coordinator
