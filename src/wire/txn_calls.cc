#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/planted.h"
#include "wire/calls.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::wire {
namespace {

using txn::KafkaTxnState;

CoordinatorOf TxnCoordinator(const TransactionalId& id) {
  return {CoordinatorType::kTransaction, id.get()};
}

constexpr std::array kKnownStates = {
    KafkaTxnState::kEmpty,        KafkaTxnState::kOngoing,           KafkaTxnState::kPrepareCommit,
    KafkaTxnState::kPrepareAbort, KafkaTxnState::kCompleteCommit,    KafkaTxnState::kCompleteAbort,
    KafkaTxnState::kDead,         KafkaTxnState::kPrepareEpochFence,
};

/// txn::Name gives Kafka's own names.
KafkaTxnState ParseState(const std::string& text) {
  const auto* const found = std::find_if(kKnownStates.begin(), kKnownStates.end(),
                                         [&](KafkaTxnState s) { return Name(s) == text; });
  return found == kKnownStates.end() ? KafkaTxnState::kUnknown : *found;
}

Task<Result<protocol::ListTransactions::Response>> ListAt(Network& network, Call call,
                                                          std::int32_t node,
                                                          std::vector<std::string> states) {
  protocol::ListTransactions request;
  request.states = std::move(states);
  const Route route = NodeId{node};
  auto response = co_await network.Ask(call, route, std::move(request));
  if (response.ok() && response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::ListTransactions>(response->error, "ListTransactions");
  }
  co_return response;
}

/// A partition of the transaction log without a leader: its ids are listed by nobody.
void AddLeaderless(const protocol::Metadata::Response& metadata, TransactionListing& listing) {
  for (const auto& topic : metadata.topics) {
    for (const auto& partition : topic.partitions) {
      if (partition.leader >= 0) continue;
      listing.failures.push_back(
          {BrokerAddress{},
           MakeError(Code::kUnavailable, topic.name + "-" + std::to_string(partition.partition) +
                                             " has no leader: its transactions are not listed")});
    }
  }
}

}  // namespace

Task<Result<ProducerIdentity>> InitProducerId(Network& network, Call& call, TransactionalId id,
                                              std::chrono::milliseconds txn_timeout) {
  protocol::InitProducerId request;
  request.transactional_id = id.get();
  request.timeout_ms = static_cast<std::int32_t>(
      std::min<std::int64_t>(txn_timeout.count(), std::numeric_limits<std::int32_t>::max()));
  const Route route = TxnCoordinator(id);
  auto response = co_await network.Ask(call, route, std::move(request));
  if (!response.ok()) co_return response.error();
  if (response->error != ErrorCode::kNone) {
    Error error = ToError(response->error, "InitProducerId of " + id.get());
    error.effect = EffectOf(call);
    co_return error;
  }
  co_return ProducerIdentity{ProducerId(response->producer_id),
                             ProducerEpoch(response->producer_epoch)};
}

Task<Result<EndTxnAnswer>> EndTxn(Network& network, Call& call, EndTxnRequest request,
                                  Attempts attempts) {
  constexpr std::int16_t kTv2Version = 5;
  const bool tv2 =
      request.protocol == txn::EndTxnProtocol::kTv2 || Planted(PlantedBug::kEndVersionsMixed);
  Versions versions = AllVersions<protocol::EndTxn>();
  (tv2 ? versions.min : versions.max) = tv2 ? kTv2Version : std::int16_t{kTv2Version - 1};
  versions.needs_txn_version2 = tv2;

  protocol::EndTxn message;
  message.transactional_id = request.transactional_id.get();
  message.producer_id = request.producer_id.get();
  message.producer_epoch = request.producer_epoch.get();
  message.commit = request.direction == txn::Direction::kCommit;
  const Route route = TxnCoordinator(request.transactional_id);
  auto response = co_await network.Ask(call, route, message, versions, attempts);
  if (!response.ok()) co_return response.error();

  EndTxnAnswer answer;
  answer.error = response->error;
  answer.version = versions.max;
  answer.identity = {request.producer_id, request.producer_epoch};
  if (tv2 && answer.error == ErrorCode::kNone) {
    answer.identity = {ProducerId(response->producer_id), ProducerEpoch(response->producer_epoch)};
  }
  answer.unanswered_before = call.unanswered;
  co_return answer;
}

Task<Result<txn::TxnDescription>> DescribeTransaction(Network& network, Call& call,
                                                      TransactionalId id) {
  protocol::DescribeTransactions request;
  request.transactional_id = id.get();
  const Route route = TxnCoordinator(id);
  auto response = co_await network.Ask(call, route, std::move(request));
  if (!response.ok()) co_return response.error();
  txn::TxnDescription description;
  if (response->error == ErrorCode::kTransactionalIdNotFound) co_return description;
  if (response->error != ErrorCode::kNone) {
    co_return Refusal<protocol::DescribeTransactions>(response->error,
                                                      "DescribeTransactions of " + id.get());
  }
  if (response->transactional_id != id.get()) {
    co_return MakeError(Code::kCorrupt, "DescribeTransactions of " + id.get() +
                                            " was answered for " + response->transactional_id);
  }
  description.exists = true;
  description.state = ParseState(response->state);
  description.producer_id = ProducerId(response->producer_id);
  description.producer_epoch = ProducerEpoch(response->producer_epoch);
  description.start_time_ms = response->start_time_ms;
  description.timeout_ms = response->timeout_ms;
  for (const protocol::TopicPartitions& topic : response->topics) {
    for (const std::int32_t partition : topic.partitions) {
      description.partitions.push_back({topic.topic, partition});
    }
  }
  co_return description;
}

Task<Result<TransactionListing>> ListTransactions(Network& network, Call& call,
                                                  ListTransactionsFilter filter) {
  std::vector<std::string> topics = {"__transaction_state"};
  Result<protocol::Metadata::Response> metadata = co_await network.Refresh(call, std::move(topics));
  if (!metadata.ok()) co_return metadata.error();
  std::vector<std::string> states;
  for (const KafkaTxnState state : filter.states) states.emplace_back(Name(state));

  std::vector<Task<Result<protocol::ListTransactions::Response>>> asked;
  for (const auto& broker : metadata->brokers) {
    asked.push_back(ListAt(network, call, broker.node_id, states));
  }
  const auto answers = co_await All(std::move(asked));

  TransactionListing listing;
  AddLeaderless(*metadata, listing);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) {
      const auto& broker = metadata->brokers[i];
      listing.failures.push_back({{broker.node_id, broker.host, broker.port}, answers[i].error()});
      continue;
    }
    for (const auto& transaction : answers[i]->transactions) {
      if (!transaction.transactional_id.starts_with(filter.id_prefix)) continue;
      listing.transactions.push_back({TransactionalId(transaction.transactional_id),
                                      ProducerId(transaction.producer_id),
                                      ParseState(transaction.state)});
    }
  }
  co_return listing;
}

}  // namespace lockstep::wire
