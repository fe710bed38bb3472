#include "cli/commands.h"

#include <iterator>
#include <map>
#include <utility>

#include "cli/record_spec.h"
#include "cli/render.h"

namespace lockstep::cli {
namespace {

int ExitCodeOf(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_COMMITTED:
      return kExitOk;
    case v1::OUTCOME_ABORTED:
      return kExitAborted;
    case v1::OUTCOME_HEURISTIC:
      return kExitHeuristic;
    default:
      return kExitUnknown;
  }
}

}  // namespace

int Commands::Failed(const CallError& error) {
  err_ << "lockstepctl: " << ToString(error) << "\n";
  return kExitFailed;
}

int Commands::FailedChange(const CallError& error) {
  Failed(error);
  return error.effect == client::Effect::kUnknown ? kExitUnknown : kExitFailed;
}

int Commands::WrongUsage(const std::string& message) {
  err_ << "lockstepctl: " << message << "\n";
  return kExitFailed;
}

int Commands::Status() {
  v1::GetStatusResponse response;
  if (auto error = client_.Call(&AdminStub::GetStatus, v1::GetStatusRequest(), response)) {
    return Failed(*error);
  }
  out_ << (json_ ? ToJson(response) + "\n" : Render(response));
  return kExitOk;
}

std::optional<int> Commands::BeginTxn(const BeginOptions& options,
                                      v1::BeginGlobalTxnResponse& response) {
  const auto timeout = ParseDurationSpec(options.timeout);
  if (!timeout) return WrongUsage("--timeout: " + timeout.error().message);
  v1::BeginGlobalTxnRequest request;
  *request.mutable_timeout() = *timeout;
  request.set_label(options.label);
  if (auto error = client_.Repeat(&TransactionStub::BeginGlobalTxn, request, response)) {
    return Failed(*error);
  }
  return std::nullopt;
}

int Commands::Begin(const BeginOptions& options) {
  v1::BeginGlobalTxnResponse response;
  if (auto failed = BeginTxn(options, response)) return *failed;
  out_ << (json_ ? ToJson(response) : response.txn_id()) << "\n";
  return kExitOk;
}

int Commands::Produce(const ProduceOptions& options) {
  v1::Record record;
  record.set_topic(options.topic);
  if (options.key) record.set_key(*options.key);
  if (options.partition) record.set_partition(*options.partition);
  for (const auto& header : options.headers) *record.add_headers() = ParseHeaderSpec(header);

  v1::ProduceRequest request;
  request.set_txn_id(options.txn_id);
  request.set_cluster(options.cluster);
  request.set_sequence(options.sequence);
  const bool from_input = !options.value || *options.value == "-";
  if (options.null) {
    if (options.value || options.lines) return WrongUsage("--null goes with no other value");
    *request.add_records() = record;
  } else if (options.lines) {
    if (!from_input) return WrongUsage("--lines reads from the input: give no value");
    for (std::string line; std::getline(in_, line);) {
      record.set_value(line);
      *request.add_records() = record;
    }
  } else {
    record.set_value(from_input ? std::string(std::istreambuf_iterator<char>(in_), {})
                                : *options.value);
    *request.add_records() = record;
  }
  v1::ProduceResponse response;
  if (auto error = client_.Repeat(&TransactionStub::Produce, request, response)) {
    return Failed(*error);
  }
  return kExitOk;
}

int Commands::Offsets(const OffsetsOptions& options) {
  v1::SendOffsetsRequest request;
  request.set_txn_id(options.txn_id);
  request.set_cluster(options.cluster);
  request.set_sequence(options.sequence);
  request.set_kafka_cluster_id(options.kafka_cluster_id);
  request.set_standalone(options.standalone);
  auto& group = *request.mutable_group();
  group.set_group_id(options.group);
  group.set_member_id(options.member);
  if (options.generation) group.set_generation(*options.generation);
  if (options.instance) group.set_group_instance_id(*options.instance);
  for (const auto& text : options.offsets) {
    auto offset = ParseOffsetSpec(text);
    if (!offset) return WrongUsage("--offset " + offset.error().message);
    *request.add_offsets() = *std::move(offset);
  }
  v1::SendOffsetsResponse response;
  if (auto error = client_.Repeat(&TransactionStub::SendOffsets, request, response)) {
    return Failed(*error);
  }
  return kExitOk;
}

int Commands::Commit(const std::string& txn_id, const CommitOptions& options) {
  v1::CommitRequest request;
  request.set_txn_id(txn_id);
  request.set_wait(options.wait == "decided" ? v1::COMMIT_WAIT_DECIDED : v1::COMMIT_WAIT_COMPLETE);
  if (!options.max_wait.empty()) {
    const auto max_wait = ParseDurationSpec(options.max_wait);
    if (!max_wait) return WrongUsage("--max-wait: " + max_wait.error().message);
    *request.mutable_max_wait() = *max_wait;
  }
  v1::CommitResponse response;
  if (auto error = client_.Repeat(&TransactionStub::Commit, request, response)) {
    if (error->effect == client::Effect::kNone) return Failed(*error);
    err_ << "lockstepctl: " << ToString(*error) << "\nThe outcome of " << txn_id
         << " is not known: ask again with 'lockstepctl commit' or 'show'.\n";
    return kExitUnknown;
  }
  out_ << (json_ ? ToJson(response) + "\n" : Render(txn_id, response));
  return ExitCodeOf(response.outcome());
}

int Commands::Abort(const std::string& txn_id) {
  v1::AbortRequest request;
  request.set_txn_id(txn_id);
  v1::AbortResponse response;
  if (auto error = client_.Repeat(&TransactionStub::Abort, request, response)) {
    return FailedChange(*error);
  }
  out_ << (json_ ? ToJson(response) + "\n" : Render(txn_id, response));
  return response.outcome() == v1::OUTCOME_ABORTED ? kExitOk : kExitTooLate;
}

int Commands::Show(const std::string& txn_id) {
  v1::GetTxnRequest request;
  request.set_txn_id(txn_id);
  v1::GetTxnResponse response;
  if (auto error = client_.Call(&CoordinatorStub::GetTxn, request, response)) {
    return Failed(*error);
  }
  out_ << (json_ ? ToJson(response) + "\n" : Render(response.txn()));
  return kExitOk;
}

int Commands::InDoubt() {
  v1::ListInDoubtResponse all;
  v1::ListInDoubtRequest request;
  do {
    v1::ListInDoubtResponse page;
    if (auto error = client_.Call(&AdminStub::ListInDoubt, request, page)) return Failed(*error);
    request.set_page_token(page.next_page_token());
    page.clear_next_page_token();
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  out_ << (json_ ? ToJson(all) + "\n" : Render(all));
  return kExitOk;
}

int Commands::RepairMarkers(const std::string& txn_id, const std::string& cluster) {
  v1::RepairMarkersRequest request;
  request.set_txn_id(txn_id);
  request.set_cluster(cluster);
  v1::RepairMarkersResponse response;
  if (auto error = client_.Call(&AdminStub::RepairMarkers, request, response)) {
    return Failed(*error);
  }
  return kExitOk;
}

int Commands::Acknowledge(const std::string& txn_id) {
  v1::AcknowledgeHeuristicRequest request;
  request.set_txn_id(txn_id);
  v1::AcknowledgeHeuristicResponse response;
  if (auto error = client_.Call(&AdminStub::AcknowledgeHeuristic, request, response)) {
    return Failed(*error);
  }
  return kExitOk;
}

std::optional<int> Commands::SendAll(const std::string& txn_id,
                                     const std::vector<std::string>& records) {
  std::vector<v1::ProduceRequest> requests;
  std::map<std::string, std::size_t> request_of_cluster;
  for (const std::string& text : records) {
    auto spec = ParseRecordSpec(text);
    if (!spec) return WrongUsage("--record " + spec.error().message);
    const auto [found, fresh] = request_of_cluster.emplace(spec->cluster, requests.size());
    if (fresh) {
      auto& request = requests.emplace_back();
      request.set_txn_id(txn_id);
      request.set_cluster(spec->cluster);
      request.set_sequence(requests.size() - 1);
    }
    *requests[found->second].add_records() = std::move(spec->record);
  }
  // A transaction that nobody has begun: only the records were to be checked.
  if (txn_id.empty()) return std::nullopt;
  for (const auto& request : requests) {
    v1::ProduceResponse response;
    if (auto error = client_.Repeat(&TransactionStub::Produce, request, response)) {
      return Failed(*error);
    }
  }
  return std::nullopt;
}

int Commands::Txn(const BeginOptions& begin, const std::vector<std::string>& records, bool abort,
                  const CommitOptions& commit) {
  if (auto wrong = SendAll("", records)) return *wrong;
  v1::BeginGlobalTxnResponse response;
  if (auto failed = BeginTxn(begin, response)) return *failed;
  // At once, so that the id is known whatever happens next.
  err_ << "began " << response.txn_id() << std::endl;
  if (auto failed = SendAll(response.txn_id(), records)) {
    err_ << "aborting " << response.txn_id() << "\n";
    Abort(response.txn_id());
    return *failed;
  }
  return abort ? Abort(response.txn_id()) : Commit(response.txn_id(), commit);
}

}  // namespace lockstep::cli
