#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/commands.h"
#include "cli/render.h"
#include "log/dump.h"

/// The commands of an operator's, and those that need no server.
namespace lockstep::cli {
namespace {

using google::protobuf::util::TimeUtil;

std::string Upper(std::string word) {
  for (char& c : word) c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return word;
}

int ExitCodeOf(v1::TxnState state) {
  switch (state) {
    case v1::TXN_STATE_COMMITTED:
      return kExitOk;
    case v1::TXN_STATE_ABORTED:
    case v1::TXN_STATE_ABORTING:
      return kExitAborted;
    case v1::TXN_STATE_HEURISTIC:
      return kExitHeuristic;
    default:
      return kExitUnknown;
  }
}

}  // namespace

int Commands::Resolve(const ResolveOptions& options) {
  v1::ResolveTxnRequest request;
  v1::Resolution resolution = v1::RESOLUTION_UNSPECIFIED;
  v1::Resolution_Parse("RESOLUTION_" + Upper(options.resolution), &resolution);
  request.set_txn_id(options.txn_id);
  request.set_cluster(options.cluster);
  request.set_resolution(resolution);
  request.set_force(options.force);
  request.set_who(options.who);
  request.set_why(options.why);
  v1::ResolveTxnResponse response;
  if (auto error = client_.Call(&AdminStub::ResolveTxn, request, response)) {
    return FailedChange(*error);
  }
  // Obeyed within a moment, unless a broker has to be asked and does not answer.
  v1::GetTxnRequest again;
  again.set_txn_id(options.txn_id);
  v1::GetTxnResponse now;
  *now.mutable_txn() = response.txn();
  for (int i = 0; i < 40 && now.txn().state() == v1::TXN_STATE_COMMITTING; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (client_.Call(&CoordinatorStub::GetTxn, again, now)) break;
  }
  *response.mutable_txn() = now.txn();
  out_ << (json_ ? ToJson(response) + "\n" : Render(response.txn()));
  return ExitCodeOf(response.txn().state());
}

std::optional<int> Commands::Orphans(const std::string& cluster, v1::ListOrphansResponse& found) {
  v1::ListOrphansRequest request;
  request.set_cluster(cluster);
  if (auto error = client_.Call(&AdminStub::ListOrphans, request, found)) return Failed(*error);
  for (const auto& problem : found.problems())
    err_ << "lockstepctl: not asked: " << problem << "\n";
  return std::nullopt;
}

int Commands::ListOrphans(const std::string& cluster) {
  v1::ListOrphansResponse found;
  if (auto failed = Orphans(cluster, found)) return *failed;
  out_ << (json_ ? ToJson(found) + "\n" : Render(found));
  return found.problems().empty() ? kExitOk : kExitFailed;
}

int Commands::EndOrphan(const EndOrphanOptions& options) {
  v1::EndOrphanRequest request;
  auto& orphan = *request.mutable_orphan();
  if (!TimeUtil::FromString(options.started, orphan.mutable_start_time())) {
    return WrongUsage("--started: expected a time as 'lockstepctl orphans' shows it");
  }
  v1::ListOrphansResponse found;
  if (auto failed = Orphans(options.cluster, found)) return *failed;
  const auto named = std::find_if(
      found.orphans().begin(), found.orphans().end(), [&](const v1::Orphan& candidate) {
        return candidate.transactional_id() == options.transactional_id &&
               candidate.start_time() == orphan.start_time();
      });
  if (named == found.orphans().end()) {
    err_ << "lockstepctl: no transaction of " << options.transactional_id << " on "
         << options.cluster << " that started at " << options.started << " is open\n";
    return kExitFailed;
  }
  orphan = *named;
  request.set_direction(options.direction == "commit" ? v1::END_DIRECTION_COMMIT
                                                      : v1::END_DIRECTION_ABORT);
  request.set_force(options.force);
  request.set_who(options.who);
  request.set_why(options.why);
  v1::EndOrphanResponse response;
  if (auto error = client_.Call(&AdminStub::EndOrphan, request, response)) {
    return FailedChange(*error);
  }
  out_ << (json_ ? ToJson(response) : options.transactional_id + " " + response.kafka_state())
       << "\n";
  return kExitOk;
}

int Commands::Drain(bool wait) {
  v1::DrainResponse response;
  for (;;) {
    if (auto error = client_.Call(&AdminStub::Drain, v1::DrainRequest(), response)) {
      return Failed(*error);
    }
    if (!wait || response.open_transactions() == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  out_ << (json_ ? ToJson(response)
                 : "draining, " + std::to_string(response.open_transactions()) +
                       " transactions are open")
       << "\n";
  return kExitOk;
}

int Commands::Undrain() {
  v1::UndrainResponse response;
  if (auto error = client_.Call(&AdminStub::Undrain, v1::UndrainRequest(), response)) {
    return Failed(*error);
  }
  return kExitOk;
}

int Commands::LogLevel(const std::string& level) {
  v1::SetLogLevelRequest request;
  v1::LogLevel value = v1::LOG_LEVEL_UNSPECIFIED;
  v1::LogLevel_Parse("LOG_LEVEL_" + Upper(level), &value);
  request.set_level(value);
  v1::SetLogLevelResponse response;
  if (auto error = client_.Call(&AdminStub::SetLogLevel, request, response)) {
    return Failed(*error);
  }
  const std::string previous = v1::LogLevel_Name(response.previous());
  out_ << (json_ ? ToJson(response) : "it was " + previous.substr(previous.rfind('_') + 1)) << "\n";
  return kExitOk;
}

int Commands::LogInfo() {
  v1::LogInfoResponse response;
  if (auto error = client_.Call(&AdminStub::LogInfo, v1::LogInfoRequest(), response)) {
    return Failed(*error);
  }
  out_ << (json_ ? ToJson(response) + "\n" : Render(response));
  return kExitOk;
}

int Commands::LogDump(const std::string& folder) {
  const lockstep::Status status = log::Dump(folder, out_);
  if (status.ok()) return kExitOk;
  err_ << "lockstepctl: " << ToString(status.error()) << "\n";
  return kExitFailed;
}

int Commands::Txns(const ListOptions& options) {
  v1::ListTxnsRequest request;
  request.set_label_prefix(options.label_prefix);
  for (const std::string& name : options.states) {
    v1::TxnState state = v1::TXN_STATE_UNSPECIFIED;
    v1::TxnState_Parse("TXN_STATE_" + Upper(name), &state);
    request.add_states(state);
  }
  v1::ListTxnsResponse all;
  do {
    v1::ListTxnsResponse page;
    if (auto error = client_.Call(&CoordinatorStub::ListTxns, request, page)) return Failed(*error);
    request.set_page_token(page.next_page_token());
    page.clear_next_page_token();
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  out_ << (json_ ? ToJson(all) + "\n" : Render(all));
  return kExitOk;
}

int Commands::Watch(const std::string& txn_id) {
  v1::TxnState last = v1::TXN_STATE_UNSPECIFIED;
  const auto error = client_.Watch(txn_id, [&](const v1::WatchTxnResponse& response) {
    last = response.txn().state();
    out_ << (json_ ? ToJson(response) + "\n" : Render(response.txn()) + "\n") << std::flush;
  });
  if (error) return Failed(*error), last == v1::TXN_STATE_UNSPECIFIED ? kExitFailed : kExitUnknown;
  return ExitCodeOf(last);
}

int Commands::Clusters() {
  v1::GetStatusResponse response;
  if (auto error = client_.Call(&AdminStub::GetStatus, v1::GetStatusRequest(), response)) {
    return Failed(*error);
  }
  if (json_) {
    v1::GetStatusResponse clusters;
    *clusters.mutable_clusters() = response.clusters();
    out_ << ToJson(clusters) << "\n";
  } else {
    out_ << RenderClusters(response);
  }
  return kExitOk;
}

}  // namespace lockstep::cli
