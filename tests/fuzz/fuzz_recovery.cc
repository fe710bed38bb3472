// A start of the decision log on a database that holds anything: whatever stands under whatever
// key, Open either refuses it as damaged, or opens a log that works, and that can be opened again.
// Each input is a real RocksDB, so these are few a second; `log` has the same decoders without one.

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include <rocksdb/db.h>

#include "fuzz.h"
#include "log/dump.h"
#include "log/record_codec.h"
#include "log/rocks_decision_log.h"
#include "log/rocks_options.h"

namespace lockstep::log {
namespace {

namespace stdfs = std::filesystem;
using fuzz::Require;

class StillClock : public coordinator::Clock {
 public:
  MonoTime Now() const override { return {}; }
  WallTime WallNow() const override { return WallTime{1'700'000'000'000}; }
};

/// A folder with an empty log in it, from which each input's is copied.
class Folder {
 public:
  Folder() {
    std::string name = (Root() / "lockstep_fuzz.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    OpenOptions options = At(path_ / "empty");
    const auto log = Open(options);
    Require(log.ok(), "an empty log can be made");
  }
  ~Folder() { stdfs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  OpenOptions Fresh() const {
    stdfs::remove_all(path_ / "log");
    stdfs::copy(path_ / "empty", path_ / "log");
    return At(path_ / "log");
  }

 private:
  /// In memory, where there is such a place.
  static stdfs::path Root() {
    std::error_code error;
    const stdfs::path memory = "/dev/shm";
    return stdfs::is_directory(memory, error) ? memory : stdfs::temp_directory_path();
  }
  OpenOptions At(const stdfs::path& path) const {
    OpenOptions options;
    options.path = path;
    options.clock = &clock_;
    return options;
  }

  StillClock clock_;
  stdfs::path path_;
};

void Put(const stdfs::path& path, std::vector<fuzz::Entry> entries) {
  rocksdb::DB* raw = nullptr;
  Require(rocksdb::DB::Open(RocksOptions(rocksdb::Env::Default()), path.string(), &raw).ok(),
          "RocksDB opens");
  const std::unique_ptr<rocksdb::DB> db(raw);
  rocksdb::WriteBatch batch;
  for (const fuzz::Entry& entry : entries) batch.Put(entry.key, entry.value);
  Require(db->Write({}, &batch).ok(), "RocksDB writes");
}

/// What the coordinator asks a log that it has just opened.
void Use(RocksDecisionLog& log) {
  const coordinator::RecoveredLog& recovered = log.recovered();
  Require(recovered.incarnation.get() > 0 && recovered.next_batch.get() > 0, "numbers go on");
  for (const auto* decisions : {&recovered.incomplete, &recovered.heuristic}) {
    for (const txn::Decision& decision : *decisions) {
      Require(Validate(decision).ok(), "only decisions that may be stored are recovered");
      Require(decision.batch < recovered.next_batch, "a number is not given twice");
      for (const GlobalTxnId& member : decision.members) (void)log.Find(member).ok();
      for (const txn::MemberKey& key : decision.keys) (void)log.FindKey(key.key.key).ok();
    }
  }
  (void)log.Stats().ok();
}

}  // namespace
}  // namespace lockstep::log

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::log;
  using lockstep::Code;
  using lockstep::fuzz::Require;
  static const Folder folder;
  const OpenOptions options = folder.Fresh();
  Put(options.path, lockstep::fuzz::Input(data, size).Entries());
  // To open is what takes the time: only some inputs are opened twice, and dumped.
  const int starts = size % 4 == 0 ? 2 : 1;
  for (int start = 0; start < starts; ++start) {
    const auto log = Open(options);
    if (!log.ok()) {
      Require(start == 0, "what was opened once can be opened again");
      Require(log.error().code == Code::kCorrupt || log.error().code == Code::kFailedPrecondition,
              "what cannot be opened is damaged, or a newer one's");
      break;
    }
    Use(**log);
  }
  if (starts == 1) return 0;
  std::ostringstream dumped;
  (void)Dump(options.path, dumped).ok();
  return 0;
}
