#include <utility>

#include "base/planted.h"
#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// What transactions buffer until Commit, and the bounds on it.
namespace lockstep::coordinator {

using txn::GlobalTxnState;

void Coordinator::AddWork(GlobalTxnId id, ClusterName cluster, txn::BranchWork work,
                          std::uint64_t sequence, std::optional<KafkaClusterId> expected_cluster,
                          Callback<Status> done) {
  Post(
      [this, id = std::move(id), cluster = std::move(cluster), work = std::move(work), sequence,
       expected = std::move(expected_cluster), done]() mutable {
        const auto found = open_.find(id);
        if (found == open_.end()) return done(NotOpen(id));
        OpenTxn& txn = found->second;
        const Status taken = TakeWork(txn, cluster, std::move(work), sequence, expected);
        if (!taken.ok()) return done(taken);
        Stream(txn);
        AnswerTaken(txn, done);
      },
      done);
}

Status Coordinator::CheckWork(const OpenTxn& txn, const ClusterName& cluster,
                              const txn::BranchWork& work,
                              const std::optional<KafkaClusterId>& expected) const {
  const Cluster* known = FindCluster(cluster);
  if (known == nullptr) return UnknownCluster(cluster, clusters_);
  if (txn.enlisted.contains(cluster)) {
    return MakeError(Code::kFailedPrecondition,
                     "on cluster '" + cluster.get() +
                         "' a producer of the client's own is enlisted: a cluster has one branch");
  }
  if (Status status = CheckOffsets(work); !status.ok()) return status;
  if (expected && !Planted(PlantedBug::kClusterIdIgnored)) {
    if (Status status = CheckExpectedCluster(*known, *expected, clusters_); !status.ok())
      return status;
  }
  return {};
}

Status Coordinator::CheckRoom(const OpenTxn& txn, std::size_t bytes, std::size_t records) const {
  const Limits& limits = options_.limits;
  if (txn.bytes + bytes > limits.txn_bytes) {
    return MakeError(Code::kResourceExhausted,
                     "the transaction would buffer more than limits.transaction_bytes (" +
                         std::to_string(limits.txn_bytes) + "); commit smaller ones");
  }
  if (txn.records + records > limits.txn_records) {
    return MakeError(Code::kResourceExhausted,
                     "the transaction would have more records and offsets than "
                     "limits.transaction_records (" +
                         std::to_string(limits.txn_records) + "); commit smaller ones");
  }
  const auto client = buffered_of_client_.find(txn.client);
  const std::size_t of_client = client == buffered_of_client_.end() ? 0 : client->second;
  if (of_client + bytes > limits.client_buffer_bytes) {
    return MakeError(Code::kResourceExhausted,
                     "the buffers of this client's transactions are full "
                     "(limits.client_buffer_bytes is " +
                         std::to_string(limits.client_buffer_bytes) + "); retry later");
  }
  if (buffered_bytes_ + bytes > limits.buffer_bytes) {
    return MakeError(Code::kResourceExhausted,
                     "the buffers of all transactions are full (limits.buffer_bytes is " +
                         std::to_string(limits.buffer_bytes) + "); retry later");
  }
  return {};
}

void Coordinator::Charge(OpenTxn& txn, std::size_t bytes, std::size_t records) {
  txn.bytes += bytes;
  txn.records += records;
  buffered_bytes_ += bytes;
  if (bytes > 0) buffered_of_client_[txn.client] += bytes;
}

void Coordinator::GiveBack(OpenTxn& txn, std::size_t bytes) {
  txn.bytes -= bytes;
  buffered_bytes_ -= bytes;
  const auto client = buffered_of_client_.find(txn.client);
  if (client == buffered_of_client_.end()) return;
  client->second -= bytes;
  if (client->second == 0) buffered_of_client_.erase(client);
}

Status Coordinator::TakeWork(OpenTxn& txn, const ClusterName& cluster, txn::BranchWork work,
                             std::uint64_t sequence,
                             const std::optional<KafkaClusterId>& expected) {
  // A repeated call: applied already.
  if (sequence < txn.view.next_sequence && !Planted(PlantedBug::kRepeatedWorkApplied)) return {};
  if (txn.view.state != GlobalTxnState::kActive) return NotActive(txn.view.state);
  if (sequence > txn.view.next_sequence && !Planted(PlantedBug::kSequenceGapAccepted)) {
    return MakeError(Code::kFailedPrecondition, "sequence " + std::to_string(sequence) +
                                                    " leaves a gap: the next one is " +
                                                    std::to_string(txn.view.next_sequence));
  }
  if (Status status = CheckWork(txn, cluster, work, expected); !status.ok()) return status;
  const std::size_t bytes = Weight(work);
  const std::size_t records = Count(work);
  if (Status status = CheckRoom(txn, bytes, records); !status.ok()) return status;
  ++txn.view.next_sequence;
  Charge(txn, bytes, records);
  if (!work.empty()) {
    const bool astray = !work.offsets.empty() && Planted(PlantedBug::kOffsetsAstray);
    std::shared_ptr<txn::BranchWork>& buffer =
        txn.work[astray ? clusters_.begin()->first : cluster];
    if (buffer == nullptr) {
      buffer = std::make_shared<txn::BranchWork>(std::move(work));
    } else {
      Append(*buffer, std::move(work));
    }
  }
  Touch(txn);
  return {};
}

}  // namespace lockstep::coordinator
