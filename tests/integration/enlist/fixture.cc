#include "fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>

#include "call_context.h"
#include "clusters.h"
#include "ctl.h"
#include "wire/client.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

struct Brokers {
  Gate gate;  // Before a.
  std::vector<std::unique_ptr<KafkaCluster>> clusters;
  std::vector<int> transaction_versions;
};
Brokers* g_brokers = nullptr;

KafkaClusterOptions OptionsFrom(const char* variable) {
  const char* text = std::getenv(variable);
  const std::string wanted = text == nullptr ? "4.4.0" : text;
  KafkaClusterOptions options{
      .properties = {{"transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"}},
      .topics = {std::string(kTopic) + ":2"}};
  const auto colon = wanted.find(':');
  options.kafka = wanted.substr(0, colon);
  if (colon != std::string::npos) options.transaction_version = std::stoi(wanted.substr(colon + 1));
  return options;
}

int TransactionVersionOf(const KafkaClusterOptions& options) {
  return options.transaction_version.value_or(options.kafka.starts_with("3.") ? 0 : 2);
}

/// One set of brokers for all suites.
class BrokersForAll : public ::testing::Environment {
 public:
  void SetUp() override {
    g_brokers = new Brokers;
    KafkaClusterOptions a = OptionsFrom("LOCKSTEP_A");
    const KafkaClusterOptions b = OptionsFrom("LOCKSTEP_B");
    g_brokers->transaction_versions = {TransactionVersionOf(a), TransactionVersionOf(b)};
    a.properties.emplace_back("advertised.listeners",
                              "PLAINTEXT://127.0.0.1:" + std::to_string(g_brokers->gate.port()));
    g_brokers->clusters = StartKafkaClusters({a, b});
    const std::string& address = g_brokers->clusters[0]->bootstrap();
    g_brokers->gate.LeadTo(
        static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  }
  void TearDown() override { delete g_brokers; }
};

const auto* const g_environment = ::testing::AddGlobalTestEnvironment(new BrokersForAll);

std::size_t IndexOf(const std::string& cluster) { return cluster == "a" ? 0 : 1; }

}  // namespace

EnlistTest::EnlistTest()
    : name_(::testing::UnitTest::GetInstance()->current_test_info()->name()),
      daemon_({.clusters = {{"a", Bootstrap("a")}, {"b", Bootstrap("b")}}}) {}

const std::string& EnlistTest::Bootstrap(const std::string& cluster) {
  return g_brokers->clusters[IndexOf(cluster)]->bootstrap();
}

int EnlistTest::TransactionVersion(const std::string& cluster) {
  return g_brokers->transaction_versions[IndexOf(cluster)];
}

Gate& EnlistTest::gate() { return g_brokers->gate; }

void EnlistTest::HoldNext(wire::protocol::ApiKey api_key) {
  // The wire client's client.id.
  gate().Lose(Gate::Loss::kHold, static_cast<std::int16_t>(api_key), "lockstep");
}

void EnlistTest::AwaitHeld() {
  daemon_.Await("the gate to hold a request", 30s, [] { return gate().held() == 1; });
}

void EnlistTest::Serve(const std::vector<std::string>& failpoints) {
  daemon_.Start(failpoints);
  daemon_.AwaitReady();
}

OwnProducer& EnlistTest::Make(const std::string& cluster, std::chrono::milliseconds timeout,
                              v1::ProducerProtocol protocol) {
  return producers_.emplace_back(OwnProducer::Options{cluster, Bootstrap(cluster),
                                                      name_ + "-on-" + cluster, timeout, protocol});
}

OwnProducer& EnlistTest::Started(const std::string& cluster) {
  OwnProducer& producer = Make(cluster);
  producer.Start(daemon_.coordinator());
  return producer;
}

void EnlistTest::Write(OwnProducer& producer, const std::string& text) const {
  producer.Begin();
  producer.Write(kTopic, Value(text));
  producer.Flush();
}

void EnlistTest::EnlistAndWrite(OwnProducer& producer, const std::string& txn,
                                const std::string& text) {
  const grpc::Status status = producer.Enlist(daemon_.coordinator(), txn);
  ASSERT_TRUE(status.ok()) << status.error_message();
  Write(producer, text);
}

void EnlistTest::EnlistAndWrite(const std::vector<OwnProducer*>& producers, const std::string& txn,
                                const std::string& text) {
  for (OwnProducer* producer : producers) EnlistAndWrite(*producer, txn, text);
}

void EnlistTest::AwaitStored(const std::string& txn, int producers) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int stored = 0; stored < producers;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << stored << " of them are in the log";
    stored = 0;
    for (const auto& entry : std::filesystem::directory_iterator(daemon_.data_dir())) {
      if (entry.path().extension() != ".log") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      for (auto at = bytes.find(txn); at != std::string::npos; at = bytes.find(txn, at + 1)) {
        ++stored;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

v1::CommitRequest EnlistTest::CommitOf(const std::string& txn,
                                       const std::vector<OwnProducer*>& producers) {
  v1::CommitRequest request;
  request.set_txn_id(txn);
  for (const OwnProducer* producer : producers) *request.add_enlisted() = producer->work();
  return request;
}

grpc::Status EnlistTest::TryCommit(const v1::CommitRequest& request, v1::CommitResponse* response) {
  CallContext context;
  return daemon_.coordinator().Commit(&context, request, response);
}

v1::CommitResponse EnlistTest::Commit(const std::string& txn,
                                      const std::vector<OwnProducer*>& producers) {
  v1::CommitResponse response;
  const grpc::Status status = TryCommit(txn, producers, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::AbortResponse EnlistTest::Abort(const std::string& txn) {
  CallContext context;
  v1::AbortRequest request;
  request.set_txn_id(txn);
  v1::AbortResponse response;
  const grpc::Status status = daemon_.coordinator().Abort(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::TxnState EnlistTest::StateOf(const std::string& txn) {
  return GetTxn(daemon_.coordinator(), txn).state();
}

void EnlistTest::AwaitState(const std::string& txn, v1::TxnState state) {
  daemon_.Await(v1::TxnState_Name(state), 30s, [&] { return StateOf(txn) == state; });
}

Values EnlistTest::Visible(const std::string& cluster, Open open) const {
  Values values = ReadValues(Bootstrap(cluster), kTopic, open);
  std::erase_if(values, [this](const auto& value) { return !value.starts_with(name_ + " "); });
  for (std::string& value : values) value.erase(0, name_.size() + 1);
  return values;
}

void EnlistTest::ExpectVisible(const Values& on_a, const Values& on_b, Open open) const {
  EXPECT_EQ(Visible("a", open), on_a);
  EXPECT_EQ(Visible("b", open), on_b);
}

txn::TxnDescription EnlistTest::Describe(const OwnProducer& producer, const std::string& cluster) {
  wire::IoThread io;
  wire::Client client(io, {.bootstrap = {Bootstrap(cluster)}});
  std::promise<Result<txn::TxnDescription>> promise;
  client.DescribeTransaction(TransactionalId(producer.transactional_id()), 10s,
                             [&](auto result) { promise.set_value(std::move(result)); });
  const auto description = promise.get_future().get();
  if (!description.ok()) throw std::runtime_error(ToString(description.error()));
  return *description;
}

void EnlistTest::AwaitState(const OwnProducer& producer, const std::string& cluster,
                            txn::KafkaTxnState state) {
  daemon_.Await(cluster + " to show " + std::string(txn::Name(state)), 30s,
                [&] { return Describe(producer, cluster).state == state; });
}

void EnlistTest::AwaitEnlistmentsWritten(const std::string& txn) {
  daemon_.Await("the enlistments are written", 10s, [&] {
    const std::string dump = RunCtl({"log", "dump", daemon_.data_dir()}).out;
    const std::string on = "enlisted in transaction " + txn + ": cluster ";
    return dump.find(on + "a ") != std::string::npos && dump.find(on + "b ") != std::string::npos;
  });
}

void EnlistTest::ExpectOneCommits(OwnProducer& a, OwnProducer& b, const std::string& text) {
  const std::string txn = Begin();
  EnlistAndWrite({&a, &b}, txn, text);
  const v1::CommitResponse response = Commit(txn, {&a, &b});
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED) << response.DebugString();
  EXPECT_EQ(a.CommitOwn(), "");
  EXPECT_EQ(b.CommitOwn(), "");
}

void EnlistTest::ExpectFenced(OwnProducer& producer) {
  const grpc::Status status = producer.Enlist(daemon_.coordinator(), Begin());
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("register"));
}

}  // namespace lockstep::testing
