#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// Large transactions, which are written while their client still sends: docs/design/batches.md.
namespace lockstep::coordinator {

namespace {

/// What may be on its way to the brokers before the client has to wait, in batches' sizes: one is
/// written while the next one comes.
constexpr std::size_t kBatchesOnTheirWay = 2;
/// The part of a batch's size that is written at a time: what costs a broker is the request, not
/// its bytes.
constexpr std::size_t kPiecePart = 2;
/// The part of a cluster's lanes that clients may hold before they commit.
constexpr int kStreamPart = 2;

}  // namespace

void Coordinator::Stream(OpenTxn& txn) {
  const std::size_t enough = options_.limits.batch_bytes / (txn.streams.empty() ? 1 : kPiecePart);
  // What has a producer of the client's own in it stays buffered: its branches begin together.
  if (txn.bytes - txn.on_their_way <= enough || txn.has_enlisted()) return;
  for (const auto& [cluster, work] : txn.work) {
    if (!txn.streams_to(cluster) && MayStream(cluster)) StartStream(txn, cluster);
  }
  WriteBuffered(txn);
}

void Coordinator::WriteBuffered(OpenTxn& txn) {
  for (std::size_t stream = 0; stream < txn.streams.size(); ++stream) {
    const auto node = txn.work.extract(txn.streams[stream]);
    if (!node.empty()) WritePiece(txn, stream, std::move(*node.mapped()));
  }
}

bool Coordinator::MayStream(const ClusterName& cluster) const {
  const auto streams = streams_.find(cluster);
  const int held = streams == streams_.end() ? 0 : streams->second;
  const ClusterStatus status = FindCluster(cluster)->status();
  return status.state == ClusterState::kReady && held < status.lanes_max / kStreamPart;
}

void Coordinator::StartStream(OpenTxn& txn, const ClusterName& cluster) {
  BatchRunner::Branch branch{.cluster = FindCluster(cluster)};
  if (txn.runner == nullptr) {
    std::vector<BatchRunner::Branch> branches;
    branches.push_back(std::move(branch));
    NewRunner({txn.view.id}, {}, std::move(branches));
  } else {
    txn.runner->Add(std::move(branch));
  }
  txn.runner->Stream(txn.streams.size(), txn.expires);
  txn.streams.push_back(cluster);
  ++streams_[cluster];
}

void Coordinator::WritePiece(OpenTxn& txn, std::size_t stream, txn::BranchWork piece) {
  const std::size_t bytes = Weight(piece);
  txn.on_their_way += bytes;
  txn.runner->Write(stream, std::move(piece), [this, id = txn.view.id, bytes] {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    OpenTxn& still = found->second;
    GiveBack(still, bytes);
    still.on_their_way -= bytes;
    if (IsFull(still)) return;
    for (const auto& done : std::exchange(still.paused, {})) done({});
  });
}

bool Coordinator::IsFull(const OpenTxn& txn) const {
  return txn.on_their_way > kBatchesOnTheirWay * options_.limits.batch_bytes;
}

void Coordinator::AnswerTaken(OpenTxn& txn, Callback<Status> done) {
  if (!IsFull(txn)) return done({});
  txn.paused.push_back(std::move(done));
}

void Coordinator::CommitStreamed(OpenTxn& txn) {
  const std::shared_ptr<BatchRunner> runner = txn.runner;
  const std::size_t streams = txn.streams.size();
  WriteBuffered(txn);
  EndStreams(txn, {});
  stats_.in_line.Add(Duration::zero());
  runner->Begin(std::min(clock_.Now() + options_.prepare_timeout, txn.expires));
  // No stream has its vote before all of these are there.
  for (const auto& [cluster, work] : txn.work) {
    BatchRunner::Branch branch{.cluster = FindCluster(cluster)};
    branch.work.members.push_back(work);
    runner->Prepare(runner->Add(std::move(branch)));
  }
  for (std::size_t i = 0; i < streams; ++i) runner->Finish(i, txn.want_positions);
}

void Coordinator::EndStreams(OpenTxn& txn, const Status& paused) {
  for (const ClusterName& cluster : std::exchange(txn.streams, {})) {
    if (--streams_[cluster] == 0) streams_.erase(cluster);
  }
  for (const auto& done : std::exchange(txn.paused, {})) done(paused);
}

}  // namespace lockstep::coordinator
