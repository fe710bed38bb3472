#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "wire/network.h"
#include "wire/rights.h"
#include "wire/types.h"

/// Client's calls as coroutines over a Network: see Client for what each promises. Loop thread
/// only.
namespace lockstep::wire {

// txn_calls.cc

Task<Result<ProducerIdentity>> InitProducerId(Network& network, Call& call, TransactionalId id,
                                              std::chrono::milliseconds txn_timeout);
Task<Result<EndTxnAnswer>> EndTxn(Network& network, Call& call, EndTxnRequest request,
                                  Attempts attempts);
Task<Result<txn::TxnDescription>> DescribeTransaction(Network& network, Call& call,
                                                      TransactionalId id);
Task<Result<TransactionListing>> ListTransactions(Network& network, Call& call,
                                                  ListTransactionsFilter filter);

// cluster_calls.cc

Task<Result<ClusterFacts>> GetFacts(Network& network, Call& call);
Task<Result<std::vector<TopicFacts>>> GetTopics(Network& network, Call& call,
                                                std::vector<std::string> topics);
Task<Result<GroupFacts>> DescribeGroup(Network& network, Call& call, std::string group_id);
Task<Result<std::chrono::milliseconds>> GetTransactionMaxTimeout(Network& network, Call& call);

// rights_calls.cc

Task<Result<Rights>> GetRights(Network& network, Call& call, std::vector<std::string> topics);
Task<Result<Operations>> GetGroupRights(Network& network, Call& call, std::string group_id);
Task<Result<Operations>> TryTransactionalId(Network& network, Call& call, TransactionalId id);
Task<Result<std::vector<BrokerSettings>>> GetBrokerSettings(Network& network, Call& call,
                                                            std::vector<std::string> names);
Task<Result<ControllerTime>> GetControllerTime(Network& network, Call& call);

// partition_calls.cc

Task<Result<std::vector<PartitionOffset>>> ListOffsets(Network& network, Call& call,
                                                       std::vector<txn::TopicPartition> partitions,
                                                       Isolation isolation);
Task<Result<MarkerAnswer>> FindMarker(Network& network, Call& call, MarkerQuery query);
Task<Result<std::vector<MarkerWritten>>> WriteTxnMarkers(Network& network, Call& call,
                                                         MarkerWrite write);

}  // namespace lockstep::wire
