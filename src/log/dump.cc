#include "log/dump.h"

#include <array>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include <rocksdb/db.h>

#include "log/errors.h"
#include "log/folder.h"
#include "log/keys.h"
#include "log/record_codec.h"
#include "log/rocks_options.h"
#include "log/stored_batch.h"

namespace lockstep::log {
namespace {

using Database = std::unique_ptr<rocksdb::DB>;

/// "2025-01-31T12:00:00.000Z".
std::string Text(WallTime time) {
  const std::int64_t ms = ((time.ms % 1000) + 1000) % 1000;
  const auto seconds = static_cast<std::time_t>((time.ms - ms) / 1000);
  std::tm utc{};
  std::array<char, 40> text{};
  if (::gmtime_r(&seconds, &utc) == nullptr) return std::to_string(time.ms) + " ms";
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string millis = std::to_string(1000 + ms).substr(1);
  return std::string(text.data(), size) + "." + millis + "Z";
}

/// Names come from clients: no byte of theirs may steer a terminal.
std::string Text(const std::string& name) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out.push_back(c);
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]};
    }
  }
  return out;
}

class Printer {
 public:
  Printer(rocksdb::DB& db, std::ostream& out) : db_(db), out_(out) {}

  void PrintAll() {
    PrintMeta();
    PrintBindings();
    PrintBatches();
    PrintEnlistments();
  }
  bool damaged() const { return damaged_; }

 private:
  void Complain(const Error& error) {
    damaged_ = true;
    out_ << "DAMAGED: " << error.message << "\n";
  }

  template <typename T, typename Print>
  void PrintRecord(std::string_view key, const Print& print) {
    std::string value;
    const rocksdb::Status status = db_.Get({}, key, &value);
    if (status.IsNotFound()) return;
    const std::string where = keys::Describe(key);
    if (!status.ok()) return Complain(MakeError(Code::kCorrupt, where + ": " + status.ToString()));
    const Result<T> record = Decode<T>(value, where);
    if (!record.ok()) return Complain(record.error());
    print(*record);
  }

  void PrintMeta() {
    PrintRecord<Identity>(keys::kIdentity, [this](const Identity& identity) {
      out_ << "log id " << identity.log_id << ", made " << Text(identity.created_at) << "\n";
      for (const Origin& origin : identity.origins) {
        out_ << "restored " << Text(origin.restored_at) << " from log " << origin.log_id
             << ", as it was " << Text(origin.taken_at) << "\n";
      }
    });
    PrintRecord<Start>(keys::kStart, [this](const Start& start) {
      out_ << "incarnation " << start.incarnation << ", started " << Text(start.started_at) << "\n";
      if (!start.superseded.empty()) out_ << "refused: " << Text(start.superseded) << "\n";
    });
    PrintRecord<Forgotten>(keys::kForgotten, [this](const Forgotten& forgotten) {
      out_ << "horizon " << Text(forgotten.horizon) << ", forgotten up to batch "
           << forgotten.through << "\n";
    });
    PrintRecord<Kept>(keys::kKept, [this](const Kept& kept) {
      out_ << "kept " << kept.decisions << " decisions, " << kept.bytes << " bytes\n";
    });
  }

  void PrintBindings() {
    const std::unique_ptr<rocksdb::Iterator> it(db_.NewIterator({}));
    for (it->Seek(keys::kBindings); it->Valid() && it->key().starts_with(keys::kBindings);
         it->Next()) {
      const auto binding =
          Decode<Binding>(it->value().ToStringView(), keys::Describe(it->key().ToStringView()));
      if (binding.ok()) {
        out_ << "cluster " << Text(binding->cluster.get()) << " is Kafka cluster "
             << Text(binding->kafka_cluster_id.get()) << "\n";
      } else {
        Complain(binding.error());
      }
    }
    if (Status status = ReadStatus(*it); !status.ok()) Complain(status.error());
  }

  void PrintBatches() {
    const std::unique_ptr<rocksdb::Iterator> it(db_.NewIterator({}));
    it->Seek(keys::kDecisions);
    while (it->Valid() && it->key().starts_with(keys::kDecisions)) {
      const std::string key = it->key().ToString();
      const Result<StoredBatch> batch = ReadBatch(*it);
      if (batch.ok()) {
        Print(*batch);
        continue;
      }
      Complain(batch.error());
      const auto id = keys::BatchOf(key);
      it->Seek(id ? keys::Decision(BatchId(id->get() + 1)) : key + '\0');
    }
    if (Status status = ReadStatus(*it); !status.ok()) Complain(status.error());
  }

  void PrintEnlistments() {
    const std::unique_ptr<rocksdb::Iterator> it(db_.NewIterator({}));
    for (it->Seek(keys::kEnlistments); it->Valid() && it->key().starts_with(keys::kEnlistments);
         it->Next()) {
      const auto enlistment = Decode<txn::Enlistment>(it->value().ToStringView(),
                                                      keys::Describe(it->key().ToStringView()));
      if (!enlistment.ok()) {
        Complain(enlistment.error());
        continue;
      }
      const txn::ParticipantName& name = enlistment->name;
      out_ << "enlisted in transaction " << Text(enlistment->txn.get()) << ": cluster "
           << Text(name.cluster.get()) << " (" << Text(name.kafka_cluster_id.get()) << "), ";
      PrintProducer(name);
      out_ << "\n";
    }
    if (Status status = ReadStatus(*it); !status.ok()) Complain(status.error());
  }

  void Print(const StoredBatch& batch) {
    const txn::Decision& decision = batch.decision;
    out_ << "batch " << decision.batch << " " << txn::Name(txn::StateOf(decision)) << ", decided "
         << Text(decision.decided_at) << ", last change " << Text(batch.settled_at)
         << (decision.acknowledged ? ", acknowledged" : "") << "\n";
    for (const GlobalTxnId& member : decision.members) {
      out_ << "  transaction " << Text(member.get()) << "\n";
    }
    for (const txn::MemberKey& member : decision.keys) {
      out_ << "  client key " << Text(member.key.key) << " of transaction " << member.member + 1
           << ", made " << Text(member.key.birth) << "\n";
    }
    for (const txn::DecidedParticipant& participant : decision.participants) Print(participant);
  }

  void PrintProducer(const txn::ParticipantName& name) {
    out_ << "transactional.id " << Text(name.transactional_id.get()) << ", producer "
         << name.producer_id << " epoch " << name.producer_epoch << ", EndTxn "
         << (name.protocol == txn::EndTxnProtocol::kTv1 ? "v0-4" : "v5");
  }

  void Print(const txn::DecidedParticipant& participant) {
    const txn::ParticipantName& name = participant.prepared.name;
    out_ << "  cluster " << Text(name.cluster.get()) << " (" << Text(name.kafka_cluster_id.get())
         << ") " << txn::Name(participant.outcome) << ": "
         << (participant.prepared.enlisted ? "enlisted " : "");
    PrintProducer(name);
    out_ << ", began " << Text(WallTime{name.start_time_ms}) << ", deadline "
         << Text(participant.prepared.deadline) << "\n";
    if (participant.order) {
      out_ << "    " << Text(participant.order->given_at)
           << (participant.order->forced ? ", forced" : "") << ": "
           << Text(ToString(*participant.order)) << "\n";
    }
    for (const txn::Evidence& evidence : participant.prepared.evidence) {
      out_ << "    marker in " << Text(txn::ToString(evidence.partition)) << " from offset "
           << evidence.offset << "\n";
    }
  }

  rocksdb::DB& db_;
  std::ostream& out_;
  bool damaged_ = false;
};

rocksdb::Status OpenReadOnly(rocksdb::Options options, const std::filesystem::path& path,
                             Database& db) {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path.string(), &opened);
  db.reset(opened);
  return status;
}

/// As far as it can be read at all.
rocksdb::Options SalvageOptions() {
  rocksdb::Options options = RocksOptions(rocksdb::Env::Default());
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.track_and_verify_wals_in_manifest = false;
  options.paranoid_checks = false;
  options.max_open_files = 100;
  return options;
}

}  // namespace

Status Dump(const std::filesystem::path& path, std::ostream& out) {
  const Result<FolderState> state = Inspect(*rocksdb::FileSystem::Default(), path);
  if (!state.ok()) return state.error();
  if (*state == FolderState::kUnfinishedRestore) return RestoreAgain(path);
  if (*state != FolderState::kReady) {
    return MakeError(Code::kNotFound,
                     "decision log folder '" + path.string() + "' holds no decision log yet");
  }
  bool damaged = false;
  if (Status files = CheckRecordFiles(*rocksdb::FileSystem::Default(), path); !files.ok()) {
    if (files.error().code != Code::kCorrupt) return files;
    damaged = true;
    out << "DAMAGED: " << files.error().message << "\n";
  }
  Database db;
  const rocksdb::Status strict = OpenReadOnly(RocksOptions(rocksdb::Env::Default()), path, db);
  if (!strict.ok()) {
    const Error error = FromRocks(path, "opening the database to read", strict);
    if (error.code != Code::kCorrupt || !OpenReadOnly(SalvageOptions(), path, db).ok()) {
      return error;
    }
    damaged = true;
    out << "DAMAGED: " << strict.ToString() << "; what follows may be incomplete\n";
  }
  Printer printer(*db, out);
  printer.PrintAll();
  if (!damaged && !printer.damaged()) return {};
  return Damaged(path, "see what was printed");
}

}  // namespace lockstep::log
