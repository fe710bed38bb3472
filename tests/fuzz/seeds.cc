// Writes what the fuzz targets begin with: inputs made by the encoders themselves, the same in
// every build, a few small files for each target.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <google/protobuf/util/time_util.h>

#include "fuzz.h"
#include "log/backup_codec.h"
#include "log/keys.h"
#include "log/record_codec.h"
#include "server/admin_convert.h"
#include "server/config.h"
#include "server/convert.h"
#include "wire/messages.h"
#include "wire_answers.h"

namespace lockstep {
namespace {

namespace stdfs = std::filesystem;
using google::protobuf::util::TimeUtil;

/// One target's folder.
class Corpus {
 public:
  Corpus(const stdfs::path& root, const std::string& target) : folder_(root / target) {
    stdfs::create_directories(folder_);
  }
  void Add(const std::string& name, const std::string& bytes) const {
    std::ofstream out(folder_ / name, std::ios::binary | std::ios::trunc);
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) std::abort();
  }
  void Add(const std::string& name, char first, const std::string& bytes) const {
    Add(name, first + bytes);
  }

 private:
  const stdfs::path folder_;
};

// ---- wire, records ------------------------------------------------------------------------------

/// The answers that tests/unit/wire/golden has of Kafka's own serialisers.
void WriteWire(const stdfs::path& root, const std::string& golden) {
  const Corpus wire(root, "wire");
  std::ifstream frames(golden);
  std::string name;
  std::string hex;
  int written = 0;
  for (int version = 0; frames >> name >> version >> hex;) {
    const std::size_t end = name.find("Response");
    if (end == std::string::npos) continue;
    const int first = wire::protocol::FirstByteOf(name.substr(0, end), version);
    if (first < 0) continue;
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    wire.Add(name + "-" + std::to_string(version), static_cast<char>(first), bytes);
    ++written;
  }
  if (written == 0) std::abort();

  const Corpus records(root, "records");
  const auto data = [](std::int64_t producer) {
    return testing::EncodeRecordBatch({producer, 0, 0, true, {"one", "two"}});
  };
  const auto marker = [](std::int64_t offset, bool commit) {
    return testing::EncodeMarker(offset, 7, 3, commit);
  };
  records.Add("data", '\1', data(7));
  records.Add("markers", '\0', marker(5, true) + marker(6, false));
  records.Add("both", '\1', data(7) + marker(9, true));
  records.Add("cut", '\0', (marker(5, true) + marker(6, false)).substr(0, 100));
}

// ---- log, recovery ------------------------------------------------------------------------------

txn::Decision SomeDecision(std::uint64_t batch) {
  txn::Decision decision;
  decision.batch = BatchId(batch);
  decision.decided_at = WallTime{1'700'000'000'000};
  decision.members = {GlobalTxnId("m" + std::to_string(batch)), GlobalTxnId("n")};
  decision.keys = {{1, {"key", WallTime{1'700'000'000'000}, "digest"}}};
  for (const char* cluster : {"a", "b"}) {
    txn::DecidedParticipant participant;
    participant.prepared.name = {.cluster = ClusterName(cluster),
                                 .kafka_cluster_id = KafkaClusterId("id"),
                                 .transactional_id = TransactionalId("lane"),
                                 .producer_id = ProducerId(4000),
                                 .producer_epoch = ProducerEpoch(3),
                                 .protocol = txn::EndTxnProtocol::kTv1,
                                 .start_time_ms = 1'700'000'000'123};
    participant.prepared.evidence = {{{"t", 0}, 7}};
    participant.prepared.deadline = WallTime{1'700'000'900'000};
    decision.participants.push_back(participant);
  }
  return decision;
}

log::StoredCompletion SomeCompletion(std::uint64_t batch, std::uint32_t participant) {
  return {{BatchId(batch), participant, txn::ParticipantOutcome::kCommitted},
          WallTime{1'700'000'000'500}};
}

coordinator::StoredOrder SomeOrder() {
  return {BatchId(1), 0, {txn::OrderKind::kCommit, false, "me", "why", WallTime{1}}};
}

txn::Enlistment SomeEnlistment() {
  return {GlobalTxnId("x"), SomeDecision(1).participants[0].prepared.name};
}

/// A batch with all that may stand beside its decision.
std::string BatchEntries() {
  const BatchId batch(1);
  return fuzz::PutEntry(log::keys::Decision(batch), log::Encode(SomeDecision(1))) +
         fuzz::PutEntry(log::keys::Completion(batch, 1), log::Encode(SomeCompletion(1, 1))) +
         fuzz::PutEntry(log::keys::Order(batch, 0), log::Encode(SomeOrder())) +
         fuzz::PutEntry(log::keys::Acknowledgement(batch),
                        log::Encode(log::Acknowledgement{batch, WallTime{2}}));
}

std::string SomeBackup() {
  log::BackupEncoder encoder({1, LogId("00000000c0ffee00"), Incarnation(3), WallTime{5}, 1});
  encoder.Add(log::keys::Decision(BatchId(1)), log::Encode(SomeDecision(1)));
  encoder.Finish();
  const std::string whole = encoder.Take(1 << 20);
  std::string pieces;  // As the target reads them: a length, then so many bytes.
  for (std::size_t at = 0; at < whole.size(); at += 100) {
    const std::string piece = whole.substr(at, 100);
    pieces += static_cast<char>(piece.size()) + piece;
  }
  return pieces;
}

void WriteLog(const stdfs::path& root) {
  const Corpus corpus(root, "log");
  corpus.Add("decision", '\0', log::Encode(SomeDecision(1)));
  corpus.Add("completion", '\1', log::Encode(SomeCompletion(1, 1)));
  corpus.Add("acknowledgement", '\2', log::Encode(log::Acknowledgement{BatchId(1), WallTime{2}}));
  corpus.Add("binding", '\3', log::Encode(log::Binding{ClusterName("a"), KafkaClusterId("id")}));
  const LogId id("00000000c0ffee00");
  corpus.Add("identity", '\4',
             log::Encode(log::Identity{id, WallTime{1}, {{id, WallTime{2}, WallTime{3}}}}));
  corpus.Add("start", '\5', log::Encode(log::Start{Incarnation(7), WallTime{1}, "older"}));
  corpus.Add("forgotten", '\6', log::Encode(log::Forgotten{WallTime{1}, BatchId(3)}));
  corpus.Add("kept", '\7', log::Encode(log::Kept{100, 2}));
  corpus.Add("order", '\10', log::Encode(SomeOrder()));
  corpus.Add("enlistment", '\11', log::Encode(SomeEnlistment()));
  corpus.Add("batch", '\12', BatchEntries());
  corpus.Add("backup", '\13', SomeBackup());
  corpus.Add("key-completion", '\15', log::keys::Completion(BatchId(1), 2));
  corpus.Add("key-order", '\15', log::keys::Order(BatchId(1), 2));
  corpus.Add("key-enlistment", '\15',
             log::keys::Enlistment(ClusterName("a"), TransactionalId("app")));
}

void WriteRecovery(const stdfs::path& root) {
  const Corpus corpus(root, "recovery");
  const BatchId batch(1);
  const std::string index =
      fuzz::PutEntry(log::keys::Open(batch), "") +
      fuzz::PutEntry(log::keys::Txn(GlobalTxnId("m1")), log::keys::BatchValue(batch)) +
      fuzz::PutEntry(log::keys::ClientKey("key"), log::keys::BatchValue(batch));
  corpus.Add("batch", BatchEntries() + index);
  corpus.Add("pending",
             fuzz::PutEntry(log::keys::Decision(batch), log::Encode(SomeDecision(1))) + index);
  const txn::ParticipantName name = SomeEnlistment().name;
  corpus.Add("enlistment",
             fuzz::PutEntry(log::keys::Enlistment(name.cluster, name.transactional_id),
                            log::Encode(SomeEnlistment())));
  corpus.Add("binding",
             fuzz::PutEntry(log::keys::Binding(ClusterName("a")),
                            log::Encode(log::Binding{ClusterName("a"), KafkaClusterId("id")})));
  corpus.Add("meta", fuzz::PutEntry(log::keys::kForgotten,
                                    log::Encode(log::Forgotten{WallTime{1}, BatchId(1)})) +
                         fuzz::PutEntry(log::keys::kKept, log::Encode(log::Kept{100, 2})) +
                         fuzz::PutEntry(log::keys::kStart,
                                        log::Encode(log::Start{Incarnation(7), WallTime{1}, ""})) +
                         BatchEntries());
}

// ---- config -------------------------------------------------------------------------------------

void WriteConfig(const stdfs::path& root) {
  const Corpus corpus(root, "config");
  const std::string short_one = "data_dir: /d\nclusters: [{name: a, bootstrap_servers: 'h:1'}]\n";
  corpus.Add("short", short_one);
  corpus.Add("limits", short_one + "limits:\n  buffer_bytes: 256MiB\n  transaction_timeout: 2m\n");
  corpus.Add("two",
             "listen: '[::1]:7420'\ndata_dir: /d\nclusters:\n  - name: a\n    bootstrap_servers: "
             "h:1,i:2\n    lanes:\n      min: 2\n      max: 4\n    transaction_timeout: 30s\n  - "
             "name: b\n    bootstrap_servers: j:3\n    librdkafka:\n      linger.ms: 5\n");
  corpus.Add("anchors", "a: &x [1, 2]\nb: *x\n<<: {data_dir: /d}\n");
  std::ofstream words(root / "config.dict", std::ios::trunc);
  for (const server::SettingInfo& setting : server::AllSettings()) {
    const std::string key = setting.key.substr(setting.key.rfind('.') + 1);
    words << '"' << key << ": \"\n";
    if (!setting.fallback.empty()) words << '"' << setting.fallback << "\"\n";
  }
  words << "\"clusters:\"\n\"librdkafka:\"\n\"lanes:\"\n\"limits:\"\n\"9223372036s\"\n";
}

// ---- requests -----------------------------------------------------------------------------------

void FillProduce(v1::Record& record) {
  record.set_topic("t");
  record.set_partition(1);
  record.set_key("k");
  record.set_value("v");
  record.add_headers()->set_key("h");
  *record.mutable_timestamp() = TimeUtil::SecondsToTimestamp(1'700'000'000);
}

template <typename Offsets>
void FillOffsets(Offsets& offsets) {
  offsets.set_cluster("a");
  offsets.mutable_group()->set_group_id("g");
  offsets.mutable_group()->set_generation(5);
  offsets.mutable_group()->set_member_id("m");
  v1::Offset& offset = *offsets.add_offsets();
  offset.set_topic("t");
  offset.set_offset(7);
}

template <typename Produce>
std::string SomeProduce() {
  Produce request;
  request.set_txn_id("x");
  request.set_cluster("a");
  request.set_sequence(0);
  FillProduce(*request.add_records());
  return request.SerializeAsString();
}

std::string SomeCommit() {
  v1::CommitRequest request;
  request.set_txn_id("x");
  request.set_wait(v1::COMMIT_WAIT_DECIDED);
  request.mutable_max_wait()->set_seconds(2);
  v1::EnlistedWork& work = *request.add_enlisted();
  work.set_registration_id("r");
  v1::WrittenPartition& written = *work.add_partitions();
  written.set_topic("t");
  written.set_offset(7);
  work.add_group_ids("g");
  return request.SerializeAsString();
}

std::string SomeExecute() {
  v1::ExecuteRequest request;
  request.set_key("k");
  *request.mutable_key_time() = TimeUtil::SecondsToTimestamp(1'700'000'000);
  request.mutable_timeout()->set_seconds(30);
  v1::Work& produce = *request.add_work();
  produce.mutable_produce()->set_cluster("a");
  FillProduce(*produce.mutable_produce()->add_records());
  FillOffsets(*request.add_work()->mutable_offsets());
  return request.SerializeAsString();
}

std::string SomeOrphanEnd() {
  v1::EndOrphanRequest request;
  request.mutable_orphan()->set_cluster("a");
  request.mutable_orphan()->set_transactional_id("lockstep-x");
  request.mutable_orphan()->set_producer_id(7);
  request.mutable_orphan()->set_producer_epoch(3);
  *request.mutable_orphan()->mutable_start_time() = TimeUtil::SecondsToTimestamp(1'700'000'000);
  request.set_direction(v1::END_DIRECTION_ABORT);
  request.set_who("me");
  request.set_why("why");
  return request.SerializeAsString();
}

void WriteRequests(const stdfs::path& root) {
  const Corpus corpus(root, "requests");
  v1::BeginGlobalTxnRequest begin;
  begin.mutable_timeout()->set_seconds(30);
  begin.set_label("label");
  begin.add_enlistments()->set_registration_id("r");
  corpus.Add("begin", '\0', begin.SerializeAsString());
  corpus.Add("produce", '\1', SomeProduce<v1::ProduceRequest>());
  corpus.Add("produce-stream", '\2', SomeProduce<v1::ProduceStreamRequest>());
  v1::SendOffsetsRequest offsets;
  offsets.set_txn_id("x");
  offsets.set_sequence(1);
  FillOffsets(offsets);
  corpus.Add("offsets", '\3', offsets.SerializeAsString());
  corpus.Add("commit", '\4', SomeCommit());
  v1::RegisterProducerRequest producer;
  producer.set_cluster("a");
  producer.set_transactional_id("app");
  producer.set_protocol(v1::PRODUCER_PROTOCOL_TV2);
  corpus.Add("register", '\5', producer.SerializeAsString());
  v1::EnlistRequest enlist;
  enlist.set_txn_id("x");
  enlist.set_registration_id("r");
  corpus.Add("enlist", '\6', enlist.SerializeAsString());
  corpus.Add("execute", '\7', SomeExecute());
  v1::ListTxnsRequest list;
  list.set_page_size(10);
  list.set_label_prefix("l");
  list.add_states(v1::TXN_STATE_COMMITTED);
  corpus.Add("list", '\10', list.SerializeAsString());
  v1::ResolveTxnRequest order;
  order.set_resolution(v1::RESOLUTION_COMMIT);
  order.set_who("me");
  order.set_why("why");
  corpus.Add("order", '\11', order.SerializeAsString());
  corpus.Add("orphan", '\12', SomeOrphanEnd());
  corpus.Add("token", '\13', server::ResumeToken(Incarnation(7), {42, true}));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "fuzz_seeds FOLDER GOLDEN_FRAMES\n";
    return 2;
  }
  lockstep::WriteWire(argv[1], argv[2]);
  lockstep::WriteLog(argv[1]);
  lockstep::WriteRecovery(argv[1]);
  lockstep::WriteConfig(argv[1]);
  lockstep::WriteRequests(argv[1]);
  return 0;
}
