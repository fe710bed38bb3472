#include <gtest/gtest.h>

#include <string>

#include "golden.h"
#include "wire/protocol/cluster_messages.h"
#include "wire/protocol/records.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::wire::protocol {
namespace {

template <typename Request>
std::string Encode(const Request& request, std::int16_t version) {
  Writer w(version, version >= Request::kApi.flexible_from);
  request.Encode(w);
  return w.Take();
}

template <typename Request>
typename Request::Response Decode(const std::string& name, std::int16_t version) {
  const std::string bytes = Golden(name, version);
  Reader r(bytes, version, version >= Request::kApi.flexible_from);
  typename Request::Response response = Request::Decode(r);
  const Status status = r.Finish(name);
  EXPECT_TRUE(status.ok()) << ToString(status.error());
  return response;
}

TEST(Messages, RequestHeader) {
  EXPECT_EQ(EncodeHeader(EndTxn::kApi, 2, 77, "lockstep"), Golden("RequestHeader", 1));
  EXPECT_EQ(EncodeHeader(EndTxn::kApi, 5, 77, "lockstep"), Golden("RequestHeader", 2));
}

TEST(Messages, ResponseHeaderOfApiVersionsIsNeverFlexible) {
  EXPECT_FALSE(HasFlexibleResponseHeader(ApiVersions::kApi, 3));
  EXPECT_FALSE(HasFlexibleResponseHeader(EndTxn::kApi, 2));
  EXPECT_TRUE(HasFlexibleResponseHeader(EndTxn::kApi, 3));
}

TEST(Messages, ApiVersions) {
  EXPECT_EQ(Encode(ApiVersions(), 3), Golden("ApiVersionsRequest", 3));
  const auto response = Decode<ApiVersions>("ApiVersionsResponse", 3);
  ASSERT_EQ(response.apis.size(), 2U);
  EXPECT_EQ(response.apis[0].key, 26);
  EXPECT_EQ(response.apis[0].max_version, 5);
  ASSERT_EQ(response.supported.size(), 1U);
  EXPECT_EQ(response.supported[0].name, "metadata.version");
  EXPECT_EQ(response.supported[0].min_version, 7);
  EXPECT_EQ(response.supported[0].max_version, 33);
  ASSERT_EQ(response.finalized.size(), 2U);
  EXPECT_EQ(response.finalized[0].name, "transaction.version");
  EXPECT_EQ(response.finalized[0].min_version, 1);
  EXPECT_EQ(response.finalized[0].max_version, 2);
}

TEST(Messages, Metadata) {
  Metadata request;
  request.topics = {"orders", "t"};
  EXPECT_EQ(Encode(request, 9), Golden("MetadataRequest", 9));
  const auto response = Decode<Metadata>("MetadataResponse", 9);
  EXPECT_EQ(response.cluster_id, "R-29pKWqT_uFKbuLkangwA");
  ASSERT_EQ(response.brokers.size(), 2U);
  EXPECT_EQ(response.brokers[0].host, "kafka-1.example");
  EXPECT_EQ(response.brokers[1].node_id, 2);
  EXPECT_EQ(response.brokers[1].port, 19092);
  ASSERT_EQ(response.topics.size(), 2U);
  ASSERT_EQ(response.topics[0].partitions.size(), 2U);
  EXPECT_EQ(response.topics[0].partitions[0].leader, 2);
  EXPECT_EQ(response.topics[0].partitions[1].error, ErrorCode::kLeaderNotAvailable);
  EXPECT_EQ(response.topics[1].name, "nope");
  EXPECT_EQ(response.topics[1].error, ErrorCode::kUnknownTopicOrPartition);
}

TEST(Messages, FindCoordinator) {
  FindCoordinator request;
  request.coordinator_key = "lane-1";
  request.type = 1;
  EXPECT_EQ(Encode(request, 3), Golden("FindCoordinatorRequest", 3));
  const auto response = Decode<FindCoordinator>("FindCoordinatorResponse", 3);
  EXPECT_EQ(response.broker.node_id, 3);
  EXPECT_EQ(response.broker.host, "h3");
  EXPECT_EQ(response.broker.port, 9093);
  const auto error = Decode<FindCoordinator>("FindCoordinatorResponse.error", 3);
  EXPECT_EQ(error.error, ErrorCode::kCoordinatorNotAvailable);
  EXPECT_EQ(error.error_message, "not yet");
}

TEST(Messages, InitProducerId) {
  InitProducerId request;
  request.transactional_id = "lane-1";
  request.timeout_ms = 60000;
  EXPECT_EQ(Encode(request, 3), Golden("InitProducerIdRequest", 3));
  EXPECT_EQ(Encode(request, 4), Golden("InitProducerIdRequest", 4));
  const auto response = Decode<InitProducerId>("InitProducerIdResponse", 4);
  EXPECT_EQ(response.producer_id, 4611686018427387904);
  EXPECT_EQ(response.producer_epoch, 32767);
}

TEST(Messages, EndTxnInEveryVersion) {
  EndTxn request;
  request.transactional_id = "lane-1";
  request.producer_id = 7;
  request.producer_epoch = 3;
  request.commit = true;
  for (std::int16_t version = 0; version <= 5; ++version) {
    EXPECT_EQ(Encode(request, version), Golden("EndTxnRequest", version)) << version;
  }
  for (std::int16_t version = 0; version <= 4; ++version) {
    const auto response = Decode<EndTxn>("EndTxnResponse", version);
    EXPECT_EQ(response.error, ErrorCode::kConcurrentTransactions) << version;
    EXPECT_EQ(response.producer_id, -1) << version;
  }
  const auto bumped = Decode<EndTxn>("EndTxnResponse", 5);
  EXPECT_EQ(bumped.error, ErrorCode::kNone);
  EXPECT_EQ(bumped.producer_id, 7);
  EXPECT_EQ(bumped.producer_epoch, 4);
}

TEST(Messages, DescribeTransactions) {
  DescribeTransactions request;
  request.transactional_id = "lane-1";
  EXPECT_EQ(Encode(request, 0), Golden("DescribeTransactionsRequest", 0));
  const auto response = Decode<DescribeTransactions>("DescribeTransactionsResponse", 0);
  EXPECT_EQ(response.transactional_id, "lane-1");
  EXPECT_EQ(response.state, "PrepareCommit");
  EXPECT_EQ(response.timeout_ms, 60000);
  EXPECT_EQ(response.start_time_ms, 1795998053730);
  EXPECT_EQ(response.producer_id, 7);
  EXPECT_EQ(response.producer_epoch, 3);
  ASSERT_EQ(response.topics.size(), 2U);
  EXPECT_EQ(response.topics[0].topic, "orders");
  EXPECT_EQ(response.topics[0].partitions, (std::vector<std::int32_t>{0, 5}));
  EXPECT_EQ(response.topics[1].partitions, (std::vector<std::int32_t>{49}));
  EXPECT_EQ(Decode<DescribeTransactions>("DescribeTransactionsResponse.unknown", 0).error,
            ErrorCode::kTransactionalIdNotFound);
}

TEST(Messages, ListTransactions) {
  ListTransactions request;
  request.states = {"Ongoing", "PrepareCommit"};
  EXPECT_EQ(Encode(request, 0), Golden("ListTransactionsRequest", 0));
  const auto response = Decode<ListTransactions>("ListTransactionsResponse", 0);
  EXPECT_EQ(response.unknown_states, (std::vector<std::string>{"Fancy"}));
  ASSERT_EQ(response.transactions.size(), 2U);
  EXPECT_EQ(response.transactions[0].transactional_id, "lane-1");
  EXPECT_EQ(response.transactions[0].producer_id, 7);
  EXPECT_EQ(response.transactions[1].state, "CompleteAbort");
}

TEST(Messages, WriteTxnMarkers) {
  WriteTxnMarkers request;
  request.producer_id = 7;
  request.producer_epoch = 3;
  request.commit = true;
  request.coordinator_epoch = 12;
  request.topics = {{"orders", {0, 5}}};
  EXPECT_EQ(Encode(request, 1), Golden("WriteTxnMarkersRequest", 1));
  const auto response = Decode<WriteTxnMarkers>("WriteTxnMarkersResponse", 1);
  ASSERT_EQ(response.partitions.size(), 2U);
  EXPECT_EQ(response.partitions[0].topic, "orders");
  EXPECT_EQ(response.partitions[0].error, ErrorCode::kNone);
  EXPECT_EQ(response.partitions[1].partition, 5);
  EXPECT_EQ(response.partitions[1].error, ErrorCode::kTransactionCoordinatorFenced);
}

TEST(Messages, DescribeProducers) {
  DescribeProducers request;
  request.topics = {{"orders", {0}}};
  EXPECT_EQ(Encode(request, 0), Golden("DescribeProducersRequest", 0));
  const auto response = Decode<DescribeProducers>("DescribeProducersResponse", 0);
  ASSERT_EQ(response.partitions.size(), 2U);
  ASSERT_EQ(response.partitions[0].producers.size(), 2U);
  EXPECT_EQ(response.partitions[0].producers[0].producer_id, 7);
  EXPECT_EQ(response.partitions[0].producers[0].producer_epoch, 3);
  EXPECT_EQ(response.partitions[0].producers[0].coordinator_epoch, 12);
  EXPECT_EQ(response.partitions[0].producers[0].txn_start_offset, 40);
  EXPECT_EQ(response.partitions[0].producers[1].txn_start_offset, -1);
  EXPECT_EQ(response.partitions[1].error, ErrorCode::kNotLeaderOrFollower);
  EXPECT_EQ(response.partitions[1].error_message, "moved");
}

TEST(Messages, ListOffsets) {
  ListOffsets request;
  request.isolation = 1;
  request.topics = {{"orders", {0, 5}}};
  EXPECT_EQ(Encode(request, 6), Golden("ListOffsetsRequest", 6));
  const auto response = Decode<ListOffsets>("ListOffsetsResponse", 6);
  ASSERT_EQ(response.partitions.size(), 2U);
  EXPECT_EQ(response.partitions[0].topic, "orders");
  EXPECT_EQ(response.partitions[0].offset, 42);
  EXPECT_EQ(response.partitions[1].partition, 5);
  EXPECT_EQ(response.partitions[1].error, ErrorCode::kNotLeaderOrFollower);
}

TEST(Messages, Fetch) {
  Fetch request;
  request.topic = "orders";
  request.partition = 5;
  request.offset = 40;
  request.max_bytes = 1048576;
  EXPECT_EQ(Encode(request, 12), Golden("FetchRequest", 12));
  const auto response = Decode<Fetch>("FetchResponse", 12);
  EXPECT_EQ(response.error, ErrorCode::kNone);
  EXPECT_EQ(response.high_watermark, 44);
  EXPECT_EQ(response.last_stable_offset, 44);
  EXPECT_EQ(response.log_start_offset, 2);
  EXPECT_EQ(response.records, Golden("Records", 2));
}

TEST(Messages, DescribeGroups) {
  DescribeGroups request;
  request.group_id = "g";
  EXPECT_EQ(Encode(request, 5), Golden("DescribeGroupsRequest", 5));
  const auto response = Decode<DescribeGroups>("DescribeGroupsResponse", 5);
  EXPECT_EQ(response.state, "Stable");
  ASSERT_EQ(response.members.size(), 2U);
  EXPECT_EQ(response.members[0].member_id, "m-1");
  EXPECT_EQ(response.members[0].instance_id, "i-1");
  EXPECT_EQ(response.members[1].instance_id, std::nullopt);
}

TEST(Messages, ConsumerGroupDescribe) {
  ConsumerGroupDescribe request;
  request.group_id = "g";
  EXPECT_EQ(Encode(request, 0), Golden("ConsumerGroupDescribeRequest", 0));
  const auto response = Decode<ConsumerGroupDescribe>("ConsumerGroupDescribeResponse", 0);
  EXPECT_EQ(response.state, "Stable");
  EXPECT_EQ(response.group_epoch, 6);
  ASSERT_EQ(response.members.size(), 1U);
  EXPECT_EQ(response.members[0].member_id, "m-1");
  EXPECT_EQ(response.members[0].epoch, 5);
  const auto unknown = Decode<ConsumerGroupDescribe>("ConsumerGroupDescribeResponse.unknown", 0);
  EXPECT_EQ(unknown.error, ErrorCode::kGroupIdNotFound);
  EXPECT_EQ(unknown.error_message, "Group g not found.");
}

TEST(Messages, DescribeConfigs) {
  DescribeConfigs request;
  request.node_id = 1;
  request.names = {"transaction.max.timeout.ms"};
  EXPECT_EQ(Encode(request, 4), Golden("DescribeConfigsRequest", 4));
  const auto response = Decode<DescribeConfigs>("DescribeConfigsResponse", 4);
  ASSERT_EQ(response.configs.size(), 2U);
  EXPECT_EQ(response.configs[0].name, "transaction.max.timeout.ms");
  EXPECT_EQ(response.configs[0].value, "900000");
  EXPECT_EQ(response.configs[1].value, std::nullopt);
}

}  // namespace
}  // namespace lockstep::wire::protocol
