// What the decision log reads: every kind of record, all of one batch as recovery puts it together,
// backups, RocksDB's record files, keys. The first byte picks which.

#include <map>

#include <rocksdb/iterator.h>

#include "coordinator/txn_id.h"
#include "fuzz.h"
#include "log/backup_codec.h"
#include "log/keys.h"
#include "log/record_codec.h"
#include "log/record_file.h"
#include "log/stored_batch.h"
#include "txn/batch.h"

namespace lockstep::log {
namespace {

using fuzz::Input;
using fuzz::Require;

/// What is read can be written, and is the same when it is read again.
template <typename T>
std::optional<T> DecodeTwice(std::string_view bytes) {
  Result<T> decoded = Decode<T>(bytes, "an input");
  if (!decoded.ok()) return std::nullopt;
  const std::string written = Encode(*decoded);
  const Result<T> again = Decode<T>(written, "an input");
  Require(again.ok(), "what was read can be written and read");
  Require(Encode(*again) == written, "and says the same");
  return *std::move(decoded);
}

void CheckDecision(const txn::Decision& decision) {
  Require(Validate(decision).ok(), "only decisions that may be stored are read");
  for (const txn::MemberKey& key : decision.keys) {
    Require(key.member < decision.members.size(), "a key is a member's");
  }
  const txn::Batch batch = txn::RecoveredBatch(decision);
  Require(batch.participants.size() == decision.participants.size(), "each is recovered");
}

/// A database in memory.
class MapIterator : public rocksdb::Iterator {
 public:
  explicit MapIterator(const std::map<std::string, std::string>& entries)
      : entries_(entries), at_(entries.end()) {}
  bool Valid() const override { return at_ != entries_.end(); }
  void SeekToFirst() override { at_ = entries_.begin(); }
  void SeekToLast() override {
    at_ = entries_.empty() ? entries_.end() : std::prev(entries_.end());
  }
  void Seek(const rocksdb::Slice& key) override { at_ = entries_.lower_bound(key.ToString()); }
  void SeekForPrev(const rocksdb::Slice& key) override {
    at_ = entries_.upper_bound(key.ToString());
    at_ = at_ == entries_.begin() ? entries_.end() : std::prev(at_);
  }
  void Next() override { ++at_; }
  void Prev() override { at_ = at_ == entries_.begin() ? entries_.end() : std::prev(at_); }
  rocksdb::Slice key() const override { return at_->first; }
  rocksdb::Slice value() const override { return at_->second; }
  rocksdb::Status status() const override { return rocksdb::Status::OK(); }

 private:
  const std::map<std::string, std::string>& entries_;
  std::map<std::string, std::string>::const_iterator at_;
};

void ReadOneBatch(Input& input) {
  std::map<std::string, std::string> entries;
  for (fuzz::Entry& entry : input.Entries()) entries[entry.key] = std::move(entry.value);
  MapIterator it(entries);
  it.Seek(keys::kDecisions);
  if (!it.Valid()) return;
  const auto batch = ReadBatch(it);
  if (!batch.ok()) return;
  CheckDecision(batch->decision);
  Require(!batch->keys.empty() && batch->weight > 0, "a batch has its decision's key, and weighs");
}

void ReadBackup(Input& input) {
  std::uint64_t records = 0;
  BackupDecoder decoder([&](std::string_view, std::string_view) {
    ++records;
    return Status();
  });
  while (!input.empty()) {
    if (!decoder.Feed(input.Bytes(input.Byte())).ok()) return;
  }
  Require(decoder.records() == records, "a backup counts what it told");
  if (decoder.Finish().ok()) Require(decoder.info().has_value(), "a whole backup has its head");
}

void ReadKey(std::string_view key) {
  (void)keys::Describe(key);
  if (const auto batch = keys::BatchOf(key)) {
    Require(!keys::IsDecision(key) || keys::Decision(*batch) == key, "a decision's key is its own");
  }
  if (const auto participant = keys::ParticipantOf(key)) {
    const BatchId batch = keys::BatchOf(key).value();
    Require(key == (keys::IsOrder(key) ? keys::Order(batch, *participant)
                                       : keys::Completion(batch, *participant)),
            "a key of a participant is its own");
  }
  (void)keys::ParseBatchValue(key);
  (void)coordinator::ParseTxnId(GlobalTxnId(std::string(key)));
}

void Read(Input& input) {
  switch (input.Byte()) {
    case 0:
      if (const auto decision = DecodeTwice<txn::Decision>(input.Rest())) CheckDecision(*decision);
      return;
    case 1:
      DecodeTwice<StoredCompletion>(input.Rest());
      return;
    case 2:
      DecodeTwice<Acknowledgement>(input.Rest());
      return;
    case 3:
      DecodeTwice<Binding>(input.Rest());
      return;
    case 4:
      DecodeTwice<Identity>(input.Rest());
      return;
    case 5:
      DecodeTwice<Start>(input.Rest());
      return;
    case 6:
      DecodeTwice<Forgotten>(input.Rest());
      return;
    case 7:
      DecodeTwice<Kept>(input.Rest());
      return;
    case 8:
      DecodeTwice<coordinator::StoredOrder>(input.Rest());
      return;
    case 9:
      if (const auto enlistment = DecodeTwice<txn::Enlistment>(input.Rest())) {
        Require(Validate(*enlistment).ok(), "only enlistments that may be stored are read");
      }
      return;
    case 10:
      return ReadOneBatch(input);
    case 11:
      return ReadBackup(input);
    case 12:
      (void)FindHiddenDamage(input.Rest());
      return;
    case 13:
      return ReadKey(input.Rest());
  }
}

}  // namespace
}  // namespace lockstep::log

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::Input input(data, size);
  lockstep::log::Read(input);
  return 0;
}
