#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "base/planted.h"
#include "log/errors.h"
#include "log/keys.h"
#include "log/rocks_options.h"
#include "log/store.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;

Error NothingThere(const stdfs::path& folder) {
  return MakeError(Code::kNotFound, "decision log folder '" + folder.string() +
                                        "' holds no decision log: allow one to be made, or name "
                                        "the folder that has it");
}

/// Numbers are given in order, so nothing but damage comes near it.
constexpr std::uint64_t kLastNumber = std::numeric_limits<std::uint64_t>::max();

Error OutOfNumbers(const stdfs::path& folder, const std::string& what) {
  return Damaged(folder, "the latest " + what + " has the last number that there is");
}

}  // namespace

/// Ours, not another log's that was made in the same moment: from the kernel's random numbers.
LogId Store::NewLogId() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) std::abort();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int shift = 60; shift >= 0; shift -= 4) id.push_back(kDigits[(random >> shift) & 0xf]);
  return LogId(id);
}

/// Absolute, and without a slash at the end: its parent must be the folder that it stands in.
stdfs::path Store::Normal(const stdfs::path& path) {
  stdfs::path normal = stdfs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

std::shared_ptr<rocksdb::FileSystem> Store::FileSystemOf(const OpenOptions& options) {
  return options.file_system != nullptr ? options.file_system : rocksdb::FileSystem::Default();
}

Store::Store(const OpenOptions& options, FolderLock lock)
    : path_(options.path),
      clock_(*options.clock),
      retention_(options.retention),
      lock_(std::move(lock)),
      fs_(FileSystemOf(options)) {
  if (options.file_system != nullptr) own_env_ = rocksdb::NewCompositeEnv(fs_);
}

Result<std::unique_ptr<Store>> Store::Open(const OpenOptions& given) {
  OpenOptions options = given;
  options.path = Normal(given.path);
  const auto fs = FileSystemOf(options);
  Result<FolderState> state = Inspect(*fs, options.path);
  if (!state.ok() && state.error().code == Code::kNotFound && options.create_if_missing) {
    if (Status made = MakeFolder(*fs, options.path); !made.ok()) return made.error();
    state = Inspect(*fs, options.path);
  }
  if (!state.ok()) return state.error();
  if (*state == FolderState::kUnfinishedRestore) return RestoreAgain(options.path);
  if (*state != FolderState::kReady && !options.create_if_missing) {
    return NothingThere(options.path);
  }
  Result<FolderLock> lock = FolderLock::Take(options.path);
  if (!lock.ok()) return lock.error();
  // Again: another process may have made the log, or left it, before we had the lock.
  state = Inspect(*fs, options.path);
  if (!state.ok()) return state.error();
  if (*state == FolderState::kUnfinishedRestore) return RestoreAgain(options.path);

  std::unique_ptr<Store> store(new Store(options, *std::move(lock)));
  Status status;
  if (*state == FolderState::kReady) {
    status = EndCreation(*fs, options.path);
    if (status.ok() && !Planted(PlantedBug::kDamageUnseen)) {
      status = CheckRecordFiles(*fs, options.path);
    }
    if (status.ok()) status = store->OpenDatabase(false);
  } else {
    status = store->MakeLog(options.new_log_id.get().empty() ? NewLogId() : options.new_log_id);
  }
  if (status.ok()) status = store->Recover();
  if (status.ok()) status = store->StartIncarnation();
  if (!status.ok()) return status.error();
  return store;
}

Status Store::OpenDatabase(bool create) {
  rocksdb::Env* env = own_env_ != nullptr ? own_env_.get() : rocksdb::Env::Default();
  rocksdb::Options options = RocksOptions(env);
  options.create_if_missing = create;
  options.error_if_exists = create;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, path_.string(), &db);
  if (!status.ok()) return FromRocks(path_, "opening the database", status);
  db_.reset(db);
  return {};
}

/// Nobody is served before the folder is marked as complete, so that a crash on the way leaves
/// nothing but an unfinished log, to be made anew.
Status Store::MakeLog(LogId id) {
  if (Status status = BeginCreation(*fs_, path_, Creation::kNew); !status.ok()) return status;
  if (Status status = OpenDatabase(true); !status.ok()) return status;
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status =
      db_->Put(synced, keys::kIdentity, Encode(Identity{std::move(id), clock_.WallNow(), {}}));
  if (!status.ok()) return FromRocks(path_, "writing the log's identity", status);
  return FinishCreation(*fs_, path_);
}

template <typename T>
Result<std::optional<T>> Store::GetMeta(std::string_view key) const {
  std::string value;
  const rocksdb::Status status = db_->Get({}, key, &value);
  if (status.IsNotFound()) return std::optional<T>();
  if (!status.ok()) return FromRocks(path_, "reading " + keys::Describe(key), status);
  Result<T> decoded = Decode<T>(value, keys::Describe(key));
  if (!decoded.ok()) return InFolder(decoded.error());
  return std::optional<T>(*std::move(decoded));
}

Status Store::Recover() {
  for (const auto step : {&Store::RecoverMeta, &Store::RecoverBindings, &Store::RecoverOpenBatches,
                          &Store::RecoverLeftBehind, &Store::RecoverEnlistments}) {
    if (Status status = (this->*step)(); !status.ok()) return InFolder(status.error());
  }
  return {};
}

Status Store::RecoverMeta() {
  const auto identity = GetMeta<Identity>(keys::kIdentity);
  if (!identity.ok()) return identity.error();
  if (!identity->has_value()) return Damaged(path_, "its identity is missing");
  recovered_.log_id = (*identity)->log_id;
  for (const Origin& origin : (*identity)->origins) {
    recovered_.origins.push_back(origin.log_id);
    recovered_.restored_at = origin.restored_at;
  }

  const auto start = GetMeta<Start>(keys::kStart);
  if (!start.ok()) return start.error();
  if (start->has_value() && !(*start)->superseded.empty()) {
    return MakeError(Code::kFailedPrecondition,
                     "it is refused since an earlier start: " + (*start)->superseded);
  }
  const std::uint64_t last = start->has_value() ? (*start)->incarnation.get() : 0;
  if (last == kLastNumber) return OutOfNumbers(path_, "start");
  recovered_.incarnation = Incarnation(last + 1);

  const auto forgotten = GetMeta<Forgotten>(keys::kForgotten);
  if (!forgotten.ok()) return forgotten.error();
  forgotten_ = forgotten->value_or(Forgotten{});
  horizon_ms_ = forgotten_.horizon.ms;
  recovered_.horizon = forgotten_.horizon;

  const auto kept = GetMeta<Kept>(keys::kKept);
  if (!kept.ok()) return kept.error();
  kept_ = kept->value_or(Kept{});
  PublishKept();

  const auto it = NewIterator();
  it->SeekForPrev(keys::Decision(BatchId(kLastNumber)) + "\xff");
  if (Status status = ReadStatus(*it); !status.ok()) return status;
  const auto highest = it->Valid() ? keys::BatchOf(it->key().ToStringView()) : std::nullopt;
  highest_batch_ = std::max(highest.value_or(BatchId(0)), forgotten_.through).get();
  // From here on each stored number has a next one.
  if (highest_batch_ == kLastNumber) return OutOfNumbers(path_, "batch");
  recovered_.next_batch = BatchId(highest_batch_ + 1);
  return {};
}

Status Store::RecoverBindings() {
  const std::lock_guard lock(bindings_mutex_);
  const auto it = NewIterator();
  for (it->Seek(keys::kBindings); it->Valid() && it->key().starts_with(keys::kBindings);
       it->Next()) {
    const auto binding =
        Decode<log::Binding>(it->value().ToStringView(), keys::Describe(it->key().ToStringView()));
    if (!binding.ok()) return binding.error();
    bindings_[binding->cluster] = binding->kafka_cluster_id;
  }
  return ReadStatus(*it);
}

Status Store::RecoverOpenBatches() {
  const auto it = NewIterator();
  const auto batches = NewIterator();
  for (it->Seek(keys::kOpen); it->Valid() && it->key().starts_with(keys::kOpen); it->Next()) {
    const auto id = keys::BatchOf(it->key().ToStringView());
    if (!id) return MakeError(Code::kCorrupt, keys::Describe(it->key().ToStringView()));
    auto batch = SeekBatch(*batches, *id);
    if (!batch.ok()) return batch.error();
    if (!batch->has_value() && !Planted(PlantedBug::kMissingDecisionUnseen)) {
      return MakeError(Code::kCorrupt,
                       keys::Describe(it->key().ToStringView()) + ": its decision is missing");
    }
    txn::Decision& decision = (*batch)->decision;
    OpenBatch& open = open_[*id];
    for (const auto& participant : decision.participants) {
      open.outcomes.push_back(participant.outcome);
    }
    auto& list = decision.complete() ? recovered_.heuristic : recovered_.incomplete;
    list.push_back(std::move(decision));
  }
  return ReadStatus(*it);
}

Status Store::RecoverLeftBehind() {
  const auto it = NewIterator();
  it->Seek(keys::kDecisions);
  while (it->Valid()) {
    const auto id = keys::BatchOf(it->key().ToStringView());
    if (!it->key().starts_with(keys::kDecisions) || !id || *id > forgotten_.through) break;
    left_behind_.emplace(*id, WallTime{});
    it->Seek(keys::Decision(BatchId(id->get() + 1)));
  }
  return ReadStatus(*it);
}

/// What a decision covers has nothing to abort: it is dropped in the write that begins this start.
Status Store::RecoverEnlistments() {
  const auto it = NewIterator();
  const auto txns = NewIterator();
  for (it->Seek(keys::kEnlistments); it->Valid() && it->key().starts_with(keys::kEnlistments);
       it->Next()) {
    const std::string key = it->key().ToString();
    Result<txn::Enlistment> enlistment =
        Decode<txn::Enlistment>(it->value().ToStringView(), keys::Describe(key));
    if (!enlistment.ok()) return enlistment.error();
    const txn::ParticipantName& name = enlistment->name;
    if (keys::Enlistment(name.cluster, name.transactional_id) != key) {
      return MakeError(Code::kCorrupt, keys::Describe(key) + ": the record belongs to another key");
    }
    const std::string decided = keys::Txn(enlistment->txn);
    txns->Seek(decided);
    if (Status status = ReadStatus(*txns); !status.ok()) return status;
    if (txns->Valid() && txns->key() == rocksdb::Slice(decided)) {
      batch_.Delete(key);
    } else {
      recovered_.enlisted.push_back(*std::move(enlistment));
    }
  }
  return ReadStatus(*it);
}

Status Store::StartIncarnation() {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  batch_.Put(keys::kStart, Encode(Start{recovered_.incarnation, clock_.WallNow(), {}}));
  const rocksdb::Status status = db_->Write(synced, &batch_);
  batch_.Clear();
  if (!status.ok()) return FromRocks(path_, "writing the number of this start", status);
  return {};
}

}  // namespace lockstep::log
