#include <string>
#include <utility>

#include "log/backup_codec.h"
#include "log/errors.h"
#include "log/keys.h"
#include "log/restore.h"
#include "log/store.h"

/// Copies of the log: taking one while it is in use, and making a log of one.
namespace lockstep::log {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
/// What is written at once while restoring.
constexpr std::size_t kWriteBytes = std::size_t{2} << 20;

/// An iterator sees the database as it was when it was made, each write whole or not at all.
class RocksBackup final : public coordinator::LogBackup {
 public:
  RocksBackup(std::filesystem::path path, const BackupInfo& info,
              std::unique_ptr<rocksdb::Iterator> it)
      : path_(std::move(path)), encoder_(info), it_(std::move(it)) {
    it_->SeekToFirst();
  }

  Result<std::string> Next() override {
    for (; it_->Valid() && encoder_.size() < kPieceBytes; it_->Next()) {
      encoder_.Add(it_->key().ToStringView(), it_->value().ToStringView());
    }
    if (!it_->status().ok()) return FromRocks(path_, "reading it for a backup", it_->status());
    if (!it_->Valid() && !std::exchange(finished_, true)) encoder_.Finish();
    return encoder_.Take(kPieceBytes);
  }

 private:
  const std::filesystem::path path_;
  BackupEncoder encoder_;
  const std::unique_ptr<rocksdb::Iterator> it_;
  bool finished_ = false;
};

/// Ready for a new log: nothing in it, or what is left of a restore that did not end.
Status MakeEmptyFolder(rocksdb::FileSystem& fs, const std::filesystem::path& folder) {
  const Result<FolderState> state = Inspect(fs, folder);
  if (state.ok() && *state != FolderState::kReady) return {};
  if (!state.ok() && state.error().code == Code::kNotFound) return MakeFolder(fs, folder);
  if (!state.ok() && state.error().code != Code::kFailedPrecondition) return state.error();
  return MakeError(Code::kFailedPrecondition,
                   "decision log folder '" + folder.string() +
                       "' holds a decision log already: restore into an empty folder");
}

Status ReadAll(const BackupSource& source, BackupDecoder& decoder) {
  for (;;) {
    const Result<std::string> bytes = source();
    if (!bytes.ok()) return bytes.error();
    if (bytes->empty()) return decoder.Finish();
    if (Status fed = decoder.Feed(*bytes); !fed.ok()) return fed;
    if (decoder.info() && decoder.info()->folder_format > kFolderFormat) {
      return MakeError(Code::kFailedPrecondition,
                       "the backup is of a log of format " +
                           std::to_string(decoder.info()->folder_format) +
                           ", this one reads up to " + std::to_string(kFolderFormat) +
                           ": use the lockstepctl that belongs to it");
    }
  }
}

}  // namespace

Result<Restored> Restore(const OpenOptions& options, const BackupSource& source) {
  return Store::Restore(options, source);
}

Result<std::unique_ptr<coordinator::LogBackup>> Store::Backup() const {
  rocksdb::ReadOptions options;
  options.fill_cache = false;  // Recovery's and Find's blocks stay.
  options.readahead_size = std::size_t{2} << 20;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
  if (!it->status().ok()) return FromRocks(path_, "reading it for a backup", it->status());
  const BackupInfo info{.folder_format = kFolderFormat,
                        .log_id = recovered_.log_id,
                        .incarnation = recovered_.incarnation,
                        .taken_at = clock_.WallNow(),
                        .decisions = stats_decisions_};
  return std::unique_ptr<coordinator::LogBackup>(new RocksBackup(path_, info, std::move(it)));
}

Result<Restored> Store::Restore(const OpenOptions& given, const BackupSource& source) {
  OpenOptions options = given;
  options.path = Normal(given.path);
  const auto fs = FileSystemOf(options);
  if (Status status = MakeEmptyFolder(*fs, options.path); !status.ok()) return status.error();
  Result<FolderLock> lock = FolderLock::Take(options.path);
  if (!lock.ok()) return lock.error();
  // Again: another process may have made a log before we had the lock.
  if (Status status = MakeEmptyFolder(*fs, options.path); !status.ok()) return status.error();
  std::unique_ptr<Store> store(new Store(options, *std::move(lock)));
  return store->LoadBackup(source);
}

/// Until the folder is marked as complete it is refused as a log, so whatever ends this on the way
/// leaves nothing that could be taken for one.
Result<Restored> Store::LoadBackup(const BackupSource& source) {
  if (Status status = BeginCreation(*fs_, path_, Creation::kRestore); !status.ok()) {
    return status.error();
  }
  if (Status status = OpenDatabase(true); !status.ok()) return status.error();
  std::optional<Identity> origin;
  BackupDecoder decoder([&](std::string_view key, std::string_view value) -> Status {
    if (key == keys::kStart) return {};  // The new log has had none.
    // It aborts nothing that the old log may have decided since.
    if (key.starts_with(keys::kEnlistments)) return {};
    if (key == keys::kIdentity) {
      Result<Identity> identity = Decode<Identity>(value, keys::Describe(key));
      if (!identity.ok()) return identity.error();
      origin = *std::move(identity);
      return {};
    }
    batch_.Put(rocksdb::Slice(key.data(), key.size()), rocksdb::Slice(value.data(), value.size()));
    return batch_.GetDataSize() < kWriteBytes ? Status() : WriteRestored(false);
  });
  if (Status status = ReadAll(source, decoder); !status.ok()) return status.error();
  if (!origin || origin->log_id != decoder.info()->log_id) {
    return Damaged(path_, "the backup does not hold the identity of the log that it names");
  }
  const BackupInfo& from = *decoder.info();
  Identity identity{NewLogId(), clock_.WallNow(), std::move(origin->origins)};
  identity.origins.push_back({from.log_id, from.taken_at, identity.created_at});
  batch_.Put(keys::kIdentity, Encode(identity));
  if (Status status = WriteRestored(true); !status.ok()) return status.error();
  // What a start will ask of it is there.
  if (Status status = Recover(); !status.ok()) return status.error();
  if (Status status = FinishCreation(*fs_, path_); !status.ok()) return status.error();
  return Restored{identity.log_id, from, kept_.decisions, recovered_.incomplete.size(),
                  recovered_.heuristic.size()};
}

Status Store::WriteRestored(bool last) {
  rocksdb::WriteOptions options;
  options.sync = last;  // It covers those before it.
  const rocksdb::Status status = db_->Write(options, &batch_);
  batch_.Clear();
  if (!status.ok()) return FromRocks(path_, "writing what the backup holds", status);
  return {};
}

}  // namespace lockstep::log
