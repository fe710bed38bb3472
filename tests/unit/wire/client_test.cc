#include <algorithm>
#include <atomic>

#include "client_fixture.h"

/// How the client carries what it is asked: connections, deadlines, retries, versions.
namespace lockstep::wire {
namespace {

using protocol::ApiKey;
using protocol::Writer;

TEST_F(ClientTest, AsksWhoIsThereBeforeAnythingElse) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  const auto client = Connect(broker);
  const auto description = StartDescribe(*client, "x").Get();
  ASSERT_TRUE(description.ok()) << ToString(description.error());
  EXPECT_EQ(description->state, txn::KafkaTxnState::kOngoing);
  EXPECT_EQ(description->producer_id, ProducerId(7));
  const auto requests = broker.requests();
  ASSERT_GE(requests.size(), 2U);
  EXPECT_EQ(requests[0].key, ApiKey::kApiVersions);
  EXPECT_EQ(requests[1].key, ApiKey::kMetadata);
}

TEST_F(ClientTest, PipelinesUpToTheLimitAndAnswersInOrder) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  ClientOptions options = Options({&broker});
  options.max_in_flight = 8;
  options.max_connections = 1;
  Client client(io(), options);
  // The coordinators are known before the broker stops to answer.
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back("id-" + std::to_string(i));
  for (const std::string& id : ids) ASSERT_TRUE(StartDescribe(client, id).Get().ok());
  const std::size_t before = broker.requests(ApiKey::kDescribeTransactions).size();

  broker.Hold(ApiKey::kDescribeTransactions);
  std::vector<Pending<txn::TxnDescription>> pending;
  for (const std::string& id : ids) pending.push_back(StartDescribe(client, id));
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kDescribeTransactions, before + 8));
  EXPECT_EQ(broker.requests(ApiKey::kDescribeTransactions).size(), before + 8);
  broker.Release(ApiKey::kDescribeTransactions);
  for (auto& each : pending) EXPECT_TRUE(each.Get().ok());
  EXPECT_EQ(broker.connections(), 1);
}

TEST_F(ClientTest, LoadOpensMoreConnectionsUpToTheLimit) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  ClientOptions options = Options({&broker});
  options.max_connections = 3;
  Client client(io(), options);
  ASSERT_TRUE(StartDescribe(client, "warm").Get().ok());
  broker.Hold(ApiKey::kDescribeTransactions);
  std::vector<Pending<txn::TxnDescription>> pending;
  for (int i = 0; i < 100; ++i) pending.push_back(StartDescribe(client, "warm"));
  ASSERT_TRUE(broker.AwaitConnections(3));
  broker.Release(ApiKey::kDescribeTransactions);
  for (auto& each : pending) EXPECT_TRUE(each.Get().ok());
  EXPECT_EQ(broker.connections(), 3);
}

TEST_F(ClientTest, ReconnectsAndAsksAgain) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kDescribeTransactions,
                [first = true](const FakeRequest&, Writer& w) mutable {
                  WriteDescription(w, "x", "Ongoing");
                  return !std::exchange(first, false);
                });
  const auto client = Connect(broker);
  EXPECT_TRUE(StartDescribe(*client, "x").Get().ok());
  EXPECT_EQ(broker.connections(), 2);
  EXPECT_EQ(broker.requests(ApiKey::kDescribeTransactions).size(), 2U);
}

TEST_F(ClientTest, AnIdleConnectionThatTheBrokerClosesCostsNothing) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  const auto client = Connect(broker);
  ASSERT_TRUE(StartDescribe(*client, "x").Get().ok());
  broker.DropConnections();
  EXPECT_TRUE(StartDescribe(*client, "x").Get().ok());
}

TEST_F(ClientTest, ALostEndTxnIsSentAgainExactlyAsItWas) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kEndTxn, [first = true](const FakeRequest&, Writer& w) mutable {
    WriteEndTxn(w, ErrorCode::kNone);
    return !std::exchange(first, false);
  });
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kNone);
  EXPECT_EQ(answer->version, 4);
  EXPECT_TRUE(answer->unanswered_before);
  const auto requests = broker.requests(ApiKey::kEndTxn);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].version, requests[1].version);
  EXPECT_EQ(requests[0].body, requests[1].body);
}

TEST_F(ClientTest, AnEndTxnAfterAMoveKeepsItsVersion) {
  FakeBroker one(1);
  FakeBroker two(2);
  one.cluster = two.cluster = {&one, &two};
  one.versions[ApiKey::kEndTxn] = {0, 3};
  std::atomic<int> look_ups = 0;
  for (FakeBroker* broker : {&one, &two}) {
    broker->Handle(ApiKey::kFindCoordinator, [&](const FakeRequest&, Writer& w) {
      const FakeBroker& now = look_ups++ == 0 ? one : two;
      WriteCoordinator(w, now);
      return true;
    });
  }
  AnswerEndTxn(one, {ErrorCode::kNotCoordinator});
  AnswerEndTxn(two, {ErrorCode::kNone});
  Client client(io(), Options({&one}));
  const auto answer = StartEndTxn(client, CommitOf("x")).Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->version, 3);
  EXPECT_FALSE(answer->unanswered_before);
  ASSERT_EQ(two.requests(ApiKey::kEndTxn).size(), 1U);
  EXPECT_EQ(two.requests(ApiKey::kEndTxn)[0].version, 3);
  EXPECT_EQ(look_ups, 2);
}

TEST_F(ClientTest, TheCoordinatorIsRemembered) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  const auto client = Connect(broker);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(StartDescribe(*client, "x").Get().ok());
  EXPECT_EQ(broker.requests(ApiKey::kFindCoordinator).size(), 1U);
}

TEST_F(ClientTest, AMoveIsNotForgottenByACallThatAsksOnce) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNotCoordinator, ErrorCode::kNone});
  const auto client = Connect(broker);
  const auto moved = StartEndTxn(*client, CommitOf("x"), kLong, Attempts::kOnce).Get();
  ASSERT_TRUE(moved.ok()) << ToString(moved.error());
  EXPECT_EQ(moved->error, ErrorCode::kNotCoordinator);
  ASSERT_TRUE(StartEndTxn(*client, CommitOf("x"), kLong, Attempts::kOnce).Get().ok());
  EXPECT_EQ(broker.requests(ApiKey::kFindCoordinator).size(), 2U);
}

/// A broker that has just come back may be missing in what others say of the cluster.
TEST_F(ClientTest, ACoordinatorThatMetadataLeaveOutIsLookedUpAgain) {
  FakeBroker one(1);
  FakeBroker two(2);
  one.cluster = two.cluster = {&one};
  CoordinatedBy(one, two);
  CoordinatedBy(two, two);
  AnswerDescribe(two);
  Client client(io(), Options({&one}));
  for (int i = 0; i < 2; ++i) {
    const auto description = StartDescribe(client, "x").Get();
    ASSERT_TRUE(description.ok()) << ToString(description.error());
  }
}

TEST_F(ClientTest, AnswersThatSettleNothingAreAskedAgainOfTheSameBroker) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kConcurrentTransactions, ErrorCode::kCoordinatorLoadInProgress,
                        ErrorCode::kInvalidTxnState});
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kInvalidTxnState);
  EXPECT_EQ(broker.requests(ApiKey::kEndTxn).size(), 3U);
  EXPECT_EQ(broker.requests(ApiKey::kFindCoordinator).size(), 1U);
}

TEST_F(ClientTest, OnceMeansTheFirstAnswer) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kConcurrentTransactions, ErrorCode::kNone});
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x"), kLong, Attempts::kOnce).Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->error, ErrorCode::kConcurrentTransactions);
}

TEST_F(ClientTest, OnceMeansOneLostConnection) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kEndTxn, [](const FakeRequest&, Writer&) { return false; });
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x"), kLong, Attempts::kOnce).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
  EXPECT_EQ(broker.requests(ApiKey::kEndTxn).size(), 1U);
}

// ---- Deadlines and effects --------------------------------------------------------------------

TEST_F(ClientTest, AnUnansweredEndTxnMayHaveHappened) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Hold(ApiKey::kEndTxn);
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x"), kShort).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
  EXPECT_NE(answer.error().message.find(broker.address()), std::string::npos);
}

TEST_F(ClientTest, AnEndTxnThatWasNeverSentHasNoEffect) {
  ClientOptions options;
  options.bootstrap = {"127.0.0.1:" + std::to_string(ClosedPort())};
  options.backoff_min = 1ms;
  Client client(io(), options);
  const auto answer = StartEndTxn(client, CommitOf("x"), 100ms).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(answer.error().effect, Effect::kNone);
  EXPECT_NE(answer.error().message.find("connect"), std::string::npos) << answer.error().message;
}

TEST_F(ClientTest, AnEndTxnThatWaitedBehindOthersIsNotSentAfterItsDeadline) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNone});
  ClientOptions options = Options({&broker});
  options.max_in_flight = 1;
  options.max_connections = 1;
  Client client(io(), options);
  ASSERT_TRUE(StartEndTxn(client, CommitOf("x")).Get().ok());
  broker.Hold(ApiKey::kEndTxn);
  auto first = StartEndTxn(client, CommitOf("x"));
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kEndTxn, 2));
  const auto second = StartEndTxn(client, CommitOf("x"), kShort).Get();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().effect, Effect::kNone);
  broker.Release(ApiKey::kEndTxn);
  ASSERT_TRUE(first.Get().ok());
  ASSERT_TRUE(StartEndTxn(client, CommitOf("x")).Get().ok());
  EXPECT_EQ(broker.requests(ApiKey::kEndTxn).size(), 3U);  // The second one never came.
}

TEST_F(ClientTest, ARefusalAfterALostAnswerStillMeansUnknown) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kInitProducerId, [first = true](const FakeRequest&, Writer& w) mutable {
    w.Int32(0);
    w.Error(ErrorCode::kTransactionalIdAuthorizationFailed);
    w.Int64(-1);
    w.Int16(-1);
    w.NoTags();
    return !std::exchange(first, false);
  });
  const auto client = Connect(broker);
  const auto init = [&] {
    return Await<ProducerIdentity>(
        [&](auto done) { client->InitProducerId(TransactionalId("x"), 60s, kLong, done); });
  };
  const auto after_lost_answer = init();
  ASSERT_FALSE(after_lost_answer.ok());
  EXPECT_EQ(after_lost_answer.error().code, Code::kPermissionDenied);
  EXPECT_EQ(after_lost_answer.error().effect, Effect::kUnknown);
  EXPECT_EQ(init().error().effect, Effect::kNone);
}

TEST_F(ClientTest, WhatTheLastAnswerLeavesOpenIsTheEffect) {
  for (const auto& [code, effect] :
       {std::pair(ErrorCode::kCoordinatorNotAvailable, Effect::kUnknown),
        std::pair(ErrorCode::kConcurrentTransactions, Effect::kUnknown),
        std::pair(ErrorCode::kCoordinatorLoadInProgress, Effect::kNone)}) {
    FakeBroker broker;
    CoordinatedBy(broker, broker);
    AnswerEndTxn(broker, {code});
    const auto client = Connect(broker);
    const auto answer = StartEndTxn(*client, CommitOf("x"), kShort).Get();
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
    const std::string& message = answer.error().message;
    EXPECT_NE(message.find(Name(code)), std::string::npos) << message;
    // The deadline may have fallen into an attempt, whose effect is then open.
    const bool answered = message.find("no answer to EndTxn") == std::string::npos;
    EXPECT_EQ(answer.error().effect, answered ? effect : Effect::kUnknown) << message;
  }
}

TEST_F(ClientTest, WhatWasAnsweredBeforeTheSilenceIsSaid) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kEndTxn, [&](const FakeRequest&, Writer& w) {
    WriteEndTxn(w, ErrorCode::kCoordinatorLoadInProgress);
    broker.Hold(ApiKey::kEndTxn);  // The next.
    return true;
  });
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x"), kShort).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("no answer to EndTxn"), std::string::npos);
  EXPECT_NE(answer.error().message.find(Name(ErrorCode::kCoordinatorLoadInProgress)),
            std::string::npos);
}

TEST_F(ClientTest, ASilentBrokerIsDroppedAndAskedAnew) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  broker.Hold(ApiKey::kDescribeTransactions);
  ClientOptions options = Options({&broker});
  options.request_timeout = 200ms;
  Client client(io(), options);
  auto pending = StartDescribe(client, "x");
  ASSERT_TRUE(broker.AwaitConnections(2));
  broker.Release(ApiKey::kDescribeTransactions);
  EXPECT_TRUE(pending.Get().ok());
}

TEST_F(ClientTest, ABrokerThatAcceptsAndSaysNothingIsNotWaitedForForEver) {
  FakeBroker broker;
  broker.Hold(ApiKey::kApiVersions);
  ClientOptions options = Options({&broker});
  options.connect_timeout = 100ms;
  Client client(io(), options);
  const auto description = StartDescribe(client, "x", kShort).Get();
  ASSERT_FALSE(description.ok());
  EXPECT_NE(description.error().message.find("no connection within 100ms"), std::string::npos)
      << description.error().message;
  EXPECT_GE(broker.connections(), 2);
}

TEST_F(ClientTest, AnotherBrokerIsAskedWhereAnyWillDo) {
  FakeBroker broker;
  ClientOptions options = Options({&broker});
  options.bootstrap.insert(options.bootstrap.begin(), "127.0.0.1:" + std::to_string(ClosedPort()));
  Client client(io(), options);
  const auto topics =
      Await<std::vector<TopicFacts>>([&](auto done) { client.GetTopics({"nope"}, kLong, done); });
  ASSERT_TRUE(topics.ok()) << ToString(topics.error());
  ASSERT_EQ(topics->size(), 1U);
  EXPECT_EQ(topics->at(0).error, ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(ClientTest, ClosingEndsEverythingUnderWay) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Hold(ApiKey::kEndTxn);
  auto client = Connect(broker);
  auto sent = StartEndTxn(*client, CommitOf("x"), 24h);
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kEndTxn, 1));
  client.reset();
  ASSERT_TRUE(sent.ready());
  const auto answer = sent.Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
}

TEST_F(ClientTest, TooManyCallsAreRefused) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Hold(ApiKey::kEndTxn);
  ClientOptions options = Options({&broker});
  options.max_queued = 2;
  Client client(io(), options);
  auto one = StartEndTxn(client, CommitOf("x"));
  auto two = StartEndTxn(client, CommitOf("y"));
  const auto three = StartEndTxn(client, CommitOf("z")).Get();
  ASSERT_FALSE(three.ok());
  EXPECT_EQ(three.error().code, Code::kResourceExhausted);
  EXPECT_EQ(three.error().effect, Effect::kNone);
}

TEST_F(ClientTest, NoAddressIsInvalid) {
  for (const std::string bad : {"", "broker", "broker:", "broker:0", "broker:66000", "::1:9092"}) {
    ClientOptions options;
    options.bootstrap = {bad};
    Client client(io(), options);
    const auto description = StartDescribe(client, "x").Get();
    ASSERT_FALSE(description.ok()) << bad;
    EXPECT_EQ(description.error().code, Code::kInvalidArgument) << bad;
  }
}

// ---- Answers that make no sense ---------------------------------------------------------------

TEST_F(ClientTest, NonsenseIsCorruptAndTheConnectionIsDropped) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kEndTxn, [first = true](const FakeRequest&, Writer& w) mutable {
    if (std::exchange(first, false)) {
      w.Int8(1);
    } else {
      WriteEndTxn(w, ErrorCode::kNone);
    }
    return true;
  });
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kCorrupt);
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
  EXPECT_TRUE(StartEndTxn(*client, CommitOf("x")).Get().ok());
  EXPECT_EQ(broker.connections(), 2);
}

TEST_F(ClientTest, AnAnswerToAnotherQuestionIsNotTaken) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNone});
  const auto client = Connect(broker);
  ASSERT_TRUE(StartEndTxn(*client, CommitOf("x")).Get().ok());
  broker.ConfuseCorrelationIds();
  const auto answer = StartEndTxn(*client, CommitOf("x"), kShort).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().effect, Effect::kUnknown);
}

TEST_F(ClientTest, AnAnswerBeyondTheLimitIsRefused) {
  FakeBroker broker;
  broker.Handle(ApiKey::kFindCoordinator, [](const FakeRequest&, Writer& w) {
    w.Raw(std::string(2000, 'x'));
    return true;
  });
  ClientOptions options = Options({&broker});
  options.max_response_bytes = 1000;
  Client client(io(), options);
  const auto description = StartDescribe(client, "x").Get();
  ASSERT_FALSE(description.ok());
  EXPECT_EQ(description.error().code, Code::kResourceExhausted);
}

TEST_F(ClientTest, AQuestionWhoseAnswerIsTooLongFailsAlone) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  broker.Handle(ApiKey::kDescribeTransactions, [](const FakeRequest& request, Writer& w) {
    protocol::Reader r = request.Read();
    const std::string id = r.Array([&] { return r.String(); }).at(0);
    WriteDescription(w, id, id == "long" ? std::string(2000, 'x') : "Ongoing");
    return true;
  });
  ClientOptions options = Options({&broker});
  options.max_response_bytes = 1000;
  options.max_connections = 1;
  Client client(io(), options);
  for (const char* id : {"short", "warm"}) ASSERT_TRUE(StartDescribe(client, id).Get().ok());
  broker.Hold(ApiKey::kDescribeTransactions);
  auto too_long = StartDescribe(client, "long");
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kDescribeTransactions, 3));
  auto innocent = StartDescribe(client, "short");
  ASSERT_TRUE(broker.AwaitRequests(ApiKey::kDescribeTransactions, 4));
  broker.Release(ApiKey::kDescribeTransactions);
  const auto refused = too_long.Get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(innocent.Get().ok());
}

// ---- Versions ---------------------------------------------------------------------------------

TEST_F(ClientTest, Tv1TakesTheHighestCommonVersionUpToFour) {
  for (const auto& [offered, taken] : {std::pair(0, 0), {1, 1}, {3, 3}, {4, 4}, {5, 4}, {9, 4}}) {
    FakeBroker broker;
    broker.versions[ApiKey::kEndTxn] = {0, static_cast<std::int16_t>(offered)};
    CoordinatedBy(broker, broker);
    AnswerEndTxn(broker, {ErrorCode::kNone});
    const auto client = Connect(broker);
    const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
    ASSERT_TRUE(answer.ok()) << ToString(answer.error());
    EXPECT_EQ(answer->version, taken);
    EXPECT_EQ(broker.requests(ApiKey::kEndTxn).at(0).version, taken);
    EXPECT_EQ(answer->identity.producer_epoch, ProducerEpoch(3));
  }
}

TEST_F(ClientTest, Tv2IsVersionFiveAndItsAnswerTheNewIdentity) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNone});
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x", txn::EndTxnProtocol::kTv2)).Get();
  ASSERT_TRUE(answer.ok()) << ToString(answer.error());
  EXPECT_EQ(answer->version, 5);
  EXPECT_EQ(answer->identity.producer_epoch, ProducerEpoch(4));
}

TEST_F(ClientTest, Tv2IsNotSentWhereTheClusterHasNotFinalizedIt) {
  FakeBroker broker;
  broker.transaction_version = 1;
  CoordinatedBy(broker, broker);
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x", txn::EndTxnProtocol::kTv2)).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnimplemented);
  EXPECT_EQ(answer.error().effect, Effect::kNone);
  EXPECT_TRUE(broker.requests(ApiKey::kEndTxn).empty());
}

TEST_F(ClientTest, NoCommonVersionIsSaidAndNothingIsSent) {
  FakeBroker broker;
  broker.versions[ApiKey::kEndTxn] = {5, 6};
  CoordinatedBy(broker, broker);
  const auto client = Connect(broker);
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnimplemented);
  EXPECT_EQ(answer.error().effect, Effect::kNone);
  EXPECT_TRUE(broker.requests(ApiKey::kEndTxn).empty());
}

TEST_F(ClientTest, ABrokerThatIsTooOldIsNamed) {
  FakeBroker broker;
  broker.Handle(ApiKey::kApiVersions, [](const FakeRequest&, Writer& w) {
    Writer old(0, false);  // In version 0, as a broker answers a version that it does not know.
    old.Error(ErrorCode::kUnsupportedVersion);
    old.ArrayCount(0);
    w.Raw(old.Take());
    return true;
  });
  const auto client = Connect(broker);
  const auto description = StartDescribe(*client, "x").Get();
  ASSERT_FALSE(description.ok());
  EXPECT_EQ(description.error().code, Code::kUnimplemented);
  EXPECT_NE(description.error().message.find("too old"), std::string::npos);
}

// ---- Which cluster it is ----------------------------------------------------------------------

TEST_F(ClientTest, NothingIsSentToAnotherClusterThanThePinnedOne) {
  FakeBroker broker;
  AnswerDescribe(broker);
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNone});
  const auto client = Connect(broker);
  client->PinClusterId(KafkaClusterId("cluster-b"));
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(answer.error().effect, Effect::kNone);
  EXPECT_NE(answer.error().message.find("cluster-a"), std::string::npos);
  for (const FakeRequest& request : broker.requests()) {
    EXPECT_TRUE(request.key == ApiKey::kApiVersions || request.key == ApiKey::kMetadata);
  }
}

TEST_F(ClientTest, AClusterThatComesBackAsAnotherIsNoticed) {
  FakeBroker broker;
  CoordinatedBy(broker, broker);
  AnswerEndTxn(broker, {ErrorCode::kNone});
  const auto client = Connect(broker);
  client->PinClusterId(KafkaClusterId("cluster-a"));
  ASSERT_TRUE(StartEndTxn(*client, CommitOf("x")).Get().ok());
  broker.SetClusterId("cluster-b");
  broker.DropConnections();
  // The call may still fall on the old connection, and is then retried on the new one.
  const auto answer = StartEndTxn(*client, CommitOf("x")).Get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kFailedPrecondition);
}

TEST_F(ClientTest, FactsTellTheClusterThatWasFound) {
  FakeBroker broker;
  const auto client = Connect(broker);
  client->PinClusterId(KafkaClusterId("cluster-b"));
  const auto facts =
      Await<ClusterFacts>([&](auto done) { client->GetFacts(kLong, std::move(done)); });
  ASSERT_TRUE(facts.ok()) << ToString(facts.error());
  EXPECT_EQ(facts->cluster_id, KafkaClusterId("cluster-a"));
}

}  // namespace
}  // namespace lockstep::wire
