#include "log_test_support.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

// ThreadSanitizer asks the program for its suppressions. Debian's librocksdb is not instrumented:
// its atomics are unknown to the sanitizer, so its lock-free reads look like races with its own
// writes. Only what that library touches is overlooked (by memcmp, operator new and the like); all
// that our code touches, also what it hands to RocksDB, is checked.
extern "C" const char* __tsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "called_from_lib:librocksdb.so\n";
}

namespace lockstep::log {

namespace stdfs = std::filesystem;

coordinator::Callback<Status> Answers::Expect(std::uint64_t id) {
  return [this, id](Status status) {
    const std::lock_guard lock(mutex_);
    order_.push_back(id);
    if (!answers_.emplace(id, std::move(status)).second) std::abort();  // Called twice.
    changed_.notify_all();
  };
}

void Answers::Wait(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return order_.size() >= count; });
}

std::vector<std::uint64_t> Answers::order() const {
  const std::lock_guard lock(mutex_);
  return order_;
}

std::optional<Status> Answers::Of(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(id);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

GlobalTxnId TxnOf(std::uint64_t batch) { return GlobalTxnId("txn-" + std::to_string(batch)); }

txn::Decision DecisionOf(std::uint64_t batch, int participants, std::int64_t decided_at_ms) {
  txn::Decision decision;
  decision.batch = BatchId(batch);
  decision.decided_at = WallTime{decided_at_ms};
  decision.members = {TxnOf(batch)};
  for (int i = 0; i < participants; ++i) {
    const std::string cluster = "c" + std::to_string(i);
    txn::DecidedParticipant participant;
    participant.prepared.name = {.cluster = ClusterName(cluster),
                                 .kafka_cluster_id = KafkaClusterId("kafka-of-" + cluster),
                                 .transactional_id = TransactionalId("lane-" + cluster),
                                 .producer_id = ProducerId(4000 + i),
                                 .producer_epoch = ProducerEpoch(3),
                                 .protocol = txn::EndTxnProtocol::kTv1,
                                 .start_time_ms = 1'700'000'000'123};
    participant.prepared.evidence = {{{"orders", i}, static_cast<std::int64_t>(batch) * 10}};
    participant.prepared.deadline = WallTime{1'700'000'900'000};
    decision.participants.push_back(participant);
  }
  return decision;
}

txn::Enlistment EnlistmentOf(std::uint64_t txn, const std::string& id) {
  return {TxnOf(txn),
          {.cluster = ClusterName("c0"),
           .kafka_cluster_id = KafkaClusterId("kafka-of-c0"),
           .transactional_id = TransactionalId(id),
           .producer_id = ProducerId(77),
           .producer_epoch = ProducerEpoch(static_cast<std::int16_t>(txn % 1000)),
           .protocol = txn::EndTxnProtocol::kTv2}};
}

namespace {

template <typename Store>
Status Now(const Store& store) {
  Answers answers;
  store(answers.Expect(0));
  answers.Wait(1);
  return *answers.Of(0);
}

}  // namespace

Status StoreNow(RocksDecisionLog& log, const txn::Decision& decision) {
  return Now([&](auto done) { log.StoreDecision(decision, std::move(done)); });
}

Status CompleteNow(RocksDecisionLog& log, std::uint64_t batch, std::uint32_t participant,
                   txn::ParticipantOutcome outcome) {
  return Now([&](auto done) {
    log.StoreCompletion({BatchId(batch), participant, outcome}, false, std::move(done));
  });
}

Status AcknowledgeNow(RocksDecisionLog& log, std::uint64_t batch) {
  return Now([&](auto done) { log.StoreAcknowledgement(BatchId(batch), std::move(done)); });
}

std::unique_ptr<RocksDecisionLog> MustOpen(const OpenOptions& options) {
  auto log = Open(options);
  if (log.ok()) return *std::move(log);
  std::cerr << "opening failed: " << ToString(log.error()) << "\n";
  std::abort();
}

std::string ReadFile(const stdfs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) std::abort();
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const stdfs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) std::abort();
}

std::vector<stdfs::path> FilesIn(const stdfs::path& folder, const std::string& name_end) {
  std::vector<stdfs::path> files;
  for (const auto& entry : stdfs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(name_end)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace lockstep::log
