#include "faulty_fs.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

namespace lockstep::testing {
namespace {

namespace stdfs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus Killed() { return IOStatus::IOError("the power is off"); }
IOStatus Unexpected() { return IOStatus::NotSupported("FaultyFs does not follow this call"); }

std::string FolderOf(const std::string& path) { return stdfs::path(path).parent_path().string(); }
std::string NameOf(const std::string& path) { return stdfs::path(path).filename().string(); }

}  // namespace

class FaultyFs::File : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(FaultyFs& fs, NodePtr node, std::unique_ptr<rocksdb::FSWritableFile> target)
      : FSWritableFileOwnerWrapper(std::move(target)), fs_(fs), node_(std::move(node)) {}

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return fs_.Append(node_, data, *target());
  }
  IOStatus Append(const Slice& data, const IOOptions&, const rocksdb::DataVerificationInfo&,
                  IODebugContext*) override {
    return fs_.Append(node_, data, *target());
  }
  IOStatus PositionedAppend(const Slice&, std::uint64_t, const IOOptions&,
                            IODebugContext*) override {
    return Unexpected();
  }
  IOStatus PositionedAppend(const Slice&, std::uint64_t, const IOOptions&,
                            const rocksdb::DataVerificationInfo&, IODebugContext*) override {
    return Unexpected();
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return fs_.Sync(node_); }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return fs_.Sync(node_); }
  IOStatus RangeSync(std::uint64_t, std::uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();  // A hint: it makes nothing durable.
  }

 private:
  FaultyFs& fs_;
  const NodePtr node_;
};

class FaultyFs::Folder : public rocksdb::FSDirectory {
 public:
  Folder(FaultyFs& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return fs_.SyncFolder(path_); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  FaultyFs& fs_;
  const std::string path_;
};

FaultyFs::FaultyFs(stdfs::path root, std::uint64_t seed)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), root_(std::move(root)), random_(seed) {
  stdfs::create_directory(root_ / ".removed");
}

void FaultyFs::FailNth(Op op, std::string path_end, int nth, IOStatus error) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({op, std::move(path_end), nth, std::move(error)});
}

void FaultyFs::HoldSyncs(std::string path_end) {
  const std::lock_guard lock(mutex_);
  held_end_ = std::move(path_end);
}

void FaultyFs::WaitUntilHeld() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return held_; });
}

void FaultyFs::Release() {
  const std::lock_guard lock(mutex_);
  held_end_.reset();
  changed_.notify_all();
}

void FaultyFs::KillAt(int nth) {
  const std::lock_guard lock(mutex_);
  kill_in_ = nth;
}

void FaultyFs::Kill() {
  const std::lock_guard lock(mutex_);
  killed_ = true;
  changed_.notify_all();
}

bool FaultyFs::killed() const {
  const std::lock_guard lock(mutex_);
  return killed_;
}

int FaultyFs::Count(Op op, std::string_view path_end) const {
  const std::lock_guard lock(mutex_);
  int sum = 0;
  for (const auto& [key, count] : counts_) {
    if (key.first == op && key.second.ends_with(path_end)) sum += count;
  }
  return sum;
}

IOStatus FaultyFs::Enter(Op op, const std::string& path) {
  if (!killed_ && kill_in_ > 0 && --kill_in_ == 0) killed_ = true;
  if (killed_) return Killed();
  ++counts_[{op, path}];
  for (Fault& fault : faults_) {
    if (fault.op != op || !path.ends_with(fault.path_end)) continue;
    if (--fault.countdown == 0) return fault.error;
  }
  return IOStatus::OK();
}

std::uint64_t FaultyFs::Random(std::uint64_t at_most) {
  return std::uniform_int_distribution<std::uint64_t>(0, at_most)(random_);
}

void FaultyFs::Note(const std::string& folder, Change change) {
  FolderState& state = folders_[folder];
  for (const auto& [name, node] : change) {
    if (node != nullptr) {
      state.live[name] = node;
    } else {
      state.live.erase(name);
    }
  }
  state.unsynced.push_back(std::move(change));
}

FaultyFs::NodePtr FaultyFs::LiveNode(const std::string& path) const {
  const auto folder = folders_.find(FolderOf(path));
  if (folder == folders_.end()) return nullptr;
  const auto entry = folder->second.live.find(NameOf(path));
  return entry == folder->second.live.end() ? nullptr : entry->second;
}

/// Its name goes, its bytes stay: the removal may not be durable.
void FaultyFs::SetAside(const NodePtr& node) {
  const stdfs::path aside = root_ / ".removed" / std::to_string(++set_aside_);
  stdfs::rename(node->place, aside);
  node->place = aside;
}

// ---- Files --------------------------------------------------------------------------------------

IOStatus FaultyFs::NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                   std::unique_ptr<rocksdb::FSWritableFile>* file,
                                   IODebugContext* dbg) {
  const std::lock_guard lock(mutex_);
  if (IOStatus io = Enter(Op::kMake, path); !io.ok()) return io;
  if (const NodePtr old = LiveNode(path)) SetAside(old);
  std::unique_ptr<rocksdb::FSWritableFile> target;
  if (IOStatus io = FileSystemWrapper::NewWritableFile(path, options, &target, dbg); !io.ok()) {
    return io;
  }
  const auto node = std::make_shared<Node>(Node{false, path, 0, 0});
  Note(FolderOf(path), {{NameOf(path), node}});
  *file = std::make_unique<File>(*this, node, std::move(target));
  return IOStatus::OK();
}

IOStatus FaultyFs::Append(const NodePtr& node, const Slice& data, rocksdb::FSWritableFile& file) {
  const std::lock_guard lock(mutex_);
  const IOStatus fault = Enter(Op::kAppend, node->place.string());
  if (killed_) return fault;
  const std::size_t size = fault.ok() ? data.size() : Random(data.size());
  const IOStatus io = file.Append(Slice(data.data(), size), {}, nullptr);
  if (!io.ok()) return io;
  node->size += size;
  return fault;
}

IOStatus FaultyFs::Sync(const NodePtr& node) {
  std::unique_lock lock(mutex_);
  if (IOStatus io = Enter(Op::kSync, node->place.string()); !io.ok()) return io;
  const std::uint64_t size = node->size;
  const auto held = [&] {
    return held_end_ && node->place.string().ends_with(*held_end_) && !killed_;
  };
  while (held()) {
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock);
  }
  held_ = false;
  if (killed_) return Killed();
  node->synced = std::max(node->synced, size);
  return IOStatus::OK();
}

IOStatus FaultyFs::DeleteFile(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) {
  const std::lock_guard lock(mutex_);
  if (IOStatus io = Enter(Op::kRemove, path); !io.ok()) return io;
  const NodePtr node = LiveNode(path);
  if (node == nullptr) return FileSystemWrapper::DeleteFile(path, options, dbg);
  SetAside(node);
  Note(FolderOf(path), {{NameOf(path), nullptr}});
  return IOStatus::OK();
}

IOStatus FaultyFs::RenameFile(const std::string& from, const std::string& to,
                              const IOOptions& options, IODebugContext* dbg) {
  const std::lock_guard lock(mutex_);
  if (IOStatus io = Enter(Op::kRename, to); !io.ok()) return io;
  const NodePtr node = LiveNode(from);
  if (node == nullptr) return FileSystemWrapper::RenameFile(from, to, options, dbg);
  if (FolderOf(from) != FolderOf(to)) return Unexpected();
  if (const NodePtr old = LiveNode(to)) SetAside(old);
  if (IOStatus io = FileSystemWrapper::RenameFile(from, to, options, dbg); !io.ok()) return io;
  node->place = to;
  Note(FolderOf(from), {{NameOf(from), nullptr}, {NameOf(to), node}});
  return IOStatus::OK();
}

// ---- Folders ------------------------------------------------------------------------------------

IOStatus FaultyFs::CreateDir(const std::string& path, const IOOptions& options,
                             IODebugContext* dbg) {
  const std::lock_guard lock(mutex_);
  if (IOStatus io = Enter(Op::kMake, path); !io.ok()) return io;
  if (IOStatus io = FileSystemWrapper::CreateDir(path, options, dbg); !io.ok()) return io;
  Note(FolderOf(path), {{NameOf(path), std::make_shared<Node>(Node{true, path, 0, 0})}});
  return IOStatus::OK();
}

IOStatus FaultyFs::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                      IODebugContext* dbg) {
  if (stdfs::is_directory(path)) return killed() ? Killed() : IOStatus::OK();
  return CreateDir(path, options, dbg);
}

IOStatus FaultyFs::NewDirectory(const std::string& path, const IOOptions&,
                                std::unique_ptr<rocksdb::FSDirectory>* directory, IODebugContext*) {
  if (killed()) return Killed();
  *directory = std::make_unique<Folder>(*this, path);
  return IOStatus::OK();
}

IOStatus FaultyFs::SyncFolder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (IOStatus io = Enter(Op::kSyncFolder, path); !io.ok()) return io;
  FolderState& state = folders_[path];
  state.durable = state.live;
  state.unsynced.clear();
  return IOStatus::OK();
}

// ---- The power is back --------------------------------------------------------------------------

void FaultyFs::Restart(Left left) {
  const std::lock_guard lock(mutex_);
  killed_ = false;
  kill_in_ = 0;
  faults_.clear();
  // Parents stand before their children in the map; one that is lost takes them along.
  for (auto it = folders_.begin(); it != folders_.end();) {
    if (!stdfs::is_directory(it->first)) {
      it = folders_.erase(it);
      continue;
    }
    RestartFolder(it->first, it->second, left);
    ++it;
  }
  stdfs::remove_all(root_ / ".removed");
  stdfs::create_directory(root_ / ".removed");
}

void FaultyFs::RestartFolder(const stdfs::path& path, FolderState& state, Left left) {
  const std::size_t kept = left == Left::kRandom ? Random(state.unsynced.size()) : 0;
  for (std::size_t i = 0; i < kept; ++i) {
    for (const auto& [name, node] : state.unsynced[i]) {
      if (node != nullptr) {
        state.durable[name] = node;
      } else {
        state.durable.erase(name);
      }
    }
  }
  for (const auto& [name, node] : state.live) {
    if (!node->folder) {
      SetAside(node);
    } else if (!state.durable.contains(name)) {
      stdfs::remove_all(path / name);
    }
  }
  for (const auto& [name, node] : state.durable) {
    if (node->folder) continue;
    const std::uint64_t torn = left == Left::kRandom ? Random(node->size - node->synced) : 0;
    node->size = node->synced + torn;
    node->synced = node->size;
    stdfs::resize_file(node->place, node->size);
    stdfs::rename(node->place, path / name);
    node->place = path / name;
  }
  state.live = state.durable;
  state.unsynced.clear();
}

// ---- Reading, and what is not followed ----------------------------------------------------------

IOStatus FaultyFs::NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                       IODebugContext* dbg) {
  if (killed()) return Killed();
  return FileSystemWrapper::NewRandomAccessFile(path, options, file, dbg);
}

IOStatus FaultyFs::NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                     IODebugContext* dbg) {
  if (killed()) return Killed();
  return FileSystemWrapper::NewSequentialFile(path, options, file, dbg);
}

IOStatus FaultyFs::ReopenWritableFile(const std::string&, const rocksdb::FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) {
  return Unexpected();
}

IOStatus FaultyFs::ReuseWritableFile(const std::string&, const std::string&,
                                     const rocksdb::FileOptions&,
                                     std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) {
  return Unexpected();
}

IOStatus FaultyFs::NewRandomRWFile(const std::string&, const rocksdb::FileOptions&,
                                   std::unique_ptr<rocksdb::FSRandomRWFile>*, IODebugContext*) {
  return Unexpected();
}

IOStatus FaultyFs::LinkFile(const std::string&, const std::string&, const IOOptions&,
                            IODebugContext*) {
  return Unexpected();
}

void FlipBit(const stdfs::path& file, std::uint64_t byte, int bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.exceptions(std::ios::failbit | std::ios::badbit);
  stream.seekg(static_cast<std::streamoff>(byte));
  const char old = static_cast<char>(stream.get());
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(static_cast<char>(old ^ (1 << bit)));
}

}  // namespace lockstep::testing
