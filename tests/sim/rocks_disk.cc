#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "faulty_fs.h"
#include "log/store.h"
#include "sim_disk.h"
#include "temp_dir.h"

namespace lockstep::sim {
namespace {

namespace stdfs = std::filesystem;
using FaultyFs = lockstep::testing::FaultyFs;

const rocksdb::IOStatus kWanted = rocksdb::IOStatus::IOError("as the simulation wants it");

/// In memory where there is such a folder: what a loss of power leaves is FaultyFs's affair, and a
/// disk's own file system waits at each file that is cut off.
stdfs::path Quickest() {
  const stdfs::path memory = "/dev/shm";
  return access(memory.c_str(), W_OK | X_OK) == 0 ? memory : stdfs::temp_directory_path();
}

class RocksDisk final : public SimDisk {
 public:
  RocksDisk(const SimOptions& options, const coordinator::Clock& clock, Random& random)
      : options_(options),
        random_(random),
        fs_(std::make_shared<FaultyFs>(folder_.path(), options.seed)) {
    open_.path = folder_.path() / "log";
    open_.clock = &clock;
    open_.file_system = fs_;
    open_.new_log_id = LogId("00000000c0ffee00");
    if (options.forgets) open_.retention.time = std::chrono::milliseconds(100);
  }

  void Open() override;
  const coordinator::RecoveredLog& recovered() const override { return store_->recovered(); }
  void Write(Record record) override {
    waiting_.push_back(std::move(record));
    ++written_;
  }
  std::uint64_t written() const override { return written_; }
  bool Sync(std::uint64_t through) override;
  std::optional<Error> Refused(std::uint64_t record) const override {
    const auto found = refused_.find(record);
    if (found == refused_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<KafkaClusterId> Binding(const ClusterName& cluster) const override {
    return store_->Binding(cluster);
  }
  std::optional<txn::Decision> Find(const GlobalTxnId& txn) const override {
    return Found(store_->Find(txn));
  }
  std::optional<txn::Decision> FindKey(const std::string& key) const override {
    return Found(store_->FindKey(key));
  }
  WallTime Horizon() const override { return store_->Horizon(); }
  void Close() override;
  void Crash() override;
  void CalmDown() override { calm_ = true; }

 private:
  static std::optional<txn::Decision> Found(Result<std::optional<txn::Decision>> found) {
    if (!found.ok()) throw std::runtime_error("the log cannot be read: " + ToString(found.error()));
    return *std::move(found);
  }
  void PowerIsBack() {
    fs_->Restart(random_.Chance(0.5) ? FaultyFs::Left::kRandom : FaultyFs::Left::kOnlySynced);
  }
  Status Add(const Record& record);
  void AddFirst(std::size_t count);
  void FailNextWrite() {
    const auto op = random_.Chance(0.5) ? FaultyFs::Op::kSync : FaultyFs::Op::kAppend;
    fs_->FailNth(op, ".log", 1, kWanted);
  }
  void MaybeForget(double chance);

  const SimOptions& options_;
  Random& random_;
  const testing_support::TempDir folder_{Quickest()};
  const std::shared_ptr<FaultyFs> fs_;
  log::OpenOptions open_;
  bool calm_ = false;

  // Of the life that is.
  std::unique_ptr<log::Store> store_;
  std::vector<Record> waiting_;  // Not handed to the store yet.
  std::uint64_t written_ = 0;
  std::map<std::uint64_t, Error> refused_;
  bool failed_ = false;
};

/// Opening may fail, and the power goes then; and again at the next one.
void RocksDisk::Open() {
  // What each opening does, in the thread that opens. A count over all changes would not do: those
  // of RocksDB's own threads come at any moment, and a seed would not be the same run twice.
  static constexpr std::pair<FaultyFs::Op, const char*> kSteps[] = {
      {FaultyFs::Op::kMake, ".log"},
      {FaultyFs::Op::kRename, "CURRENT"},
      {FaultyFs::Op::kAppend, ".log"},
      {FaultyFs::Op::kSync, ".log"}};
  waiting_.clear();
  refused_.clear();
  written_ = 0;
  failed_ = false;
  for (;;) {
    const bool fails = !calm_ && random_.Chance(0.2);
    if (fails) {
      const auto& [op, path] = kSteps[random_.Below(std::size(kSteps))];
      fs_->FailNth(op, path, 1, kWanted);
    }
    Result<std::unique_ptr<log::Store>> opened = log::Store::Open(open_);
    if (opened.ok() != fails) {
      if (fails) {
        fs_->Kill();
        PowerIsBack();
        continue;
      }
      store_ = *std::move(opened);
      return MaybeForget(0.5);
    }
    throw std::runtime_error(fails ? "a fault of the disk was not noticed"
                                   : "the log does not open: " + ToString(opened.error()));
  }
}

Status RocksDisk::Add(const Record& record) {
  if (const auto* decision = std::get_if<txn::Decision>(&record)) return store_->Add(*decision);
  if (const auto* completion = std::get_if<coordinator::Completion>(&record)) {
    return store_->Add(*completion);
  }
  if (const auto* acknowledged = std::get_if<Acknowledged>(&record)) {
    return store_->AddAcknowledgement(acknowledged->batch);
  }
  if (const auto* order = std::get_if<coordinator::StoredOrder>(&record)) {
    return store_->Add(*order);
  }
  if (const auto* binding = std::get_if<log::Binding>(&record)) return store_->Add(*binding);
  if (const auto* enlistment = std::get_if<txn::Enlistment>(&record)) {
    return store_->Add(*enlistment);
  }
  const auto& ended = std::get<EndedEnlistment>(record);
  store_->EndEnlistment(ended.cluster, ended.id);
  return {};
}

void RocksDisk::AddFirst(std::size_t count) {
  const std::uint64_t before = written_ - waiting_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (Status added = Add(waiting_[i]); !added.ok())
      refused_.emplace(before + i + 1, added.error());
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

bool RocksDisk::Sync(std::uint64_t through) {
  MaybeForget(0.2);  // As the log does: when what was written before has been answered.
  const std::uint64_t handed_over = written_ - waiting_.size();
  if (through > handed_over) AddFirst(through - handed_over);
  if (!calm_ && random_.Chance(options_.failed_sync)) FailNextWrite();
  failed_ = !store_->Write(true).ok();
  return !failed_;
}

void RocksDisk::MaybeForget(double chance) {
  if (!options_.forgets || !random_.Chance(chance)) return;
  const Result<bool> more = store_->ForgetSome();
  if (!more.ok()) throw std::runtime_error("the log cannot forget: " + ToString(more.error()));
}

/// As RocksDecisionLog ends: what was queued is written, unless the disk has failed.
void RocksDisk::Close() {
  if (!failed_) {
    AddFirst(waiting_.size());
    if (!store_->Write(true).ok()) throw std::runtime_error("the log cannot be closed");
  }
  store_.reset();
}

/// What was on its way is lost, or written and not synced, or cut off in the middle.
void RocksDisk::Crash() {
  if (!failed_) {
    AddFirst(random_.Below(waiting_.size() + 1));
    if (random_.Chance(0.5)) FailNextWrite();
    (void)store_->Write(random_.Chance(0.5)).ok();
  }
  fs_->Kill();
  store_.reset();
  PowerIsBack();
}

}  // namespace

std::unique_ptr<SimDisk> MakeRocksDisk(const SimOptions& options, const coordinator::Clock& clock,
                                       Random& random) {
  return std::make_unique<RocksDisk>(options, clock, random);
}

}  // namespace lockstep::sim
