#include "server/admin_convert.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "server/checks.h"
#include "server/convert.h"

namespace lockstep::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMaxWhoBytes = 256;
constexpr std::size_t kMaxWhyBytes = 1024;

/// Words of an operator go into logs: one line, no byte that steers a terminal.
Status CheckWords(std::string_view field, const std::string& words, std::size_t most) {
  if (words.empty()) return Invalid(field, "is required: it is kept for those who ask later");
  if (words.size() > most) {
    return Invalid(field, "must not be longer than " + std::to_string(most) + " bytes");
  }
  const bool plain = std::none_of(words.begin(), words.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  if (!plain) return Invalid(field, "must not hold control characters");
  return {};
}

std::optional<txn::OrderKind> KindOf(v1::Resolution resolution) {
  switch (resolution) {
    case v1::RESOLUTION_COMMIT:
      return txn::OrderKind::kCommit;
    case v1::RESOLUTION_ABORT:
      return txn::OrderKind::kAbort;
    case v1::RESOLUTION_DECLARE_COMMITTED:
      return txn::OrderKind::kDeclareCommitted;
    case v1::RESOLUTION_DECLARE_ABORTED:
      return txn::OrderKind::kDeclareAborted;
    case v1::RESOLUTION_DECLARE_UNKNOWN:
      return txn::OrderKind::kDeclareUnknown;
    default:
      return std::nullopt;
  }
}

constexpr std::array<std::pair<v1::LogLevel, std::string_view>, 5> kLevels = {
    {{v1::LOG_LEVEL_TRACE, "trace"},
     {v1::LOG_LEVEL_DEBUG, "debug"},
     {v1::LOG_LEVEL_INFO, "info"},
     {v1::LOG_LEVEL_WARN, "warning"},
     {v1::LOG_LEVEL_ERROR, "error"}}};

Status CheckOrphan(const v1::Orphan& orphan) {
  if (orphan.cluster().empty()) return Invalid("orphan.cluster", "is required");
  if (orphan.transactional_id().empty()) return Invalid("orphan.transactional_id", "is required");
  if (!orphan.has_start_time()) return Invalid("orphan.start_time", "is required");
  if (!IsTime(orphan.start_time()))
    return Invalid("orphan.start_time", "must be a time since 1970");
  if (orphan.producer_epoch() < 0 ||
      orphan.producer_epoch() > std::numeric_limits<std::int16_t>::max()) {
    return Invalid("orphan.producer_epoch", "is not one");
  }
  return {};
}

}  // namespace

Result<txn::OperatorOrder> ParseOrder(const v1::ResolveTxnRequest& request) {
  const auto kind = KindOf(request.resolution());
  if (!kind) return Invalid("resolution", "is required");
  if (Status who = CheckWords("who", request.who(), kMaxWhoBytes); !who.ok()) return who.error();
  if (Status why = CheckWords("why", request.why(), kMaxWhyBytes); !why.ok()) return why.error();
  return txn::OperatorOrder{*kind, request.force(), request.who(), request.why(), {}};
}

Result<EndOrphanCall> ParseEndOrphan(const v1::EndOrphanRequest& request) {
  const v1::Orphan& orphan = request.orphan();
  if (Status named = CheckOrphan(orphan); !named.ok()) return named.error();
  if (request.direction() != v1::END_DIRECTION_COMMIT &&
      request.direction() != v1::END_DIRECTION_ABORT) {
    return Invalid("direction", "is required");
  }
  if (Status who = CheckWords("who", request.who(), kMaxWhoBytes); !who.ok()) return who.error();
  if (Status why = CheckWords("why", request.why(), kMaxWhyBytes); !why.ok()) return why.error();
  const bool commit = request.direction() == v1::END_DIRECTION_COMMIT;
  if (commit && !request.force()) {
    return MakeError(Code::kFailedPrecondition,
                     "nothing vouches that an orphan's records are complete, or that it was to be "
                     "committed: force it if that is known");
  }
  EndOrphanCall call{.cluster = ClusterName(orphan.cluster()),
                     .direction = commit ? txn::Direction::kCommit : txn::Direction::kAbort,
                     .who = request.who(),
                     .why = request.why()};
  call.orphan.transactional_id = TransactionalId(orphan.transactional_id());
  txn::TxnDescription& seen = call.orphan.description;
  seen.exists = true;
  seen.state = txn::KafkaTxnState::kOngoing;
  seen.producer_id = ProducerId(orphan.producer_id());
  seen.producer_epoch = ProducerEpoch(static_cast<std::int16_t>(orphan.producer_epoch()));
  seen.start_time_ms = TimeUtil::TimestampToMilliseconds(orphan.start_time());
  return call;
}

Result<std::string> ParseLogLevel(v1::LogLevel level) {
  for (const auto& [value, name] : kLevels) {
    if (value == level) return std::string(name);
  }
  return Invalid("level", "is required: TRACE, DEBUG, INFO, WARN or ERROR");
}

v1::LogLevel LogLevelOf(const std::string& spdlog_name) {
  for (const auto& [value, name] : kLevels) {
    if (name == spdlog_name) return value;
  }
  return v1::LOG_LEVEL_UNSPECIFIED;
}

v1::Orphan ToProto(const ClusterName& cluster, const coordinator::Orphan& orphan) {
  const txn::TxnDescription& shown = orphan.description;
  v1::Orphan out;
  out.set_cluster(cluster.get());
  out.set_transactional_id(orphan.transactional_id.get());
  out.set_log_id(orphan.log_id.get());
  out.set_producer_id(shown.producer_id.get());
  out.set_producer_epoch(shown.producer_epoch.get());
  out.set_kafka_state(std::string(Name(shown.state)));
  *out.mutable_start_time() = ToProto(WallTime{shown.start_time_ms});
  *out.mutable_timeout() = TimeUtil::MillisecondsToDuration(shown.timeout_ms);
  for (const txn::TopicPartition& partition : shown.partitions) {
    v1::TopicPartition& to = *out.add_partitions();
    to.set_topic(partition.topic);
    to.set_partition(partition.partition);
  }
  return out;
}

}  // namespace lockstep::server
