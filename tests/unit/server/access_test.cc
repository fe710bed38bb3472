#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>

#include <map>
#include <string>
#include <vector>

#include "security_fixture.h"
#include "server/gate.h"

/// Every RPC, every role, one's own transaction and another's: what is not in the table below
/// fails.
namespace lockstep::server {
namespace {

using testing::HasSubstr;

/// What of a transaction an RPC with a txn_id is about.
enum class Txn {
  kNone,   ///< None, or not by its id alone.
  kOwn,    ///< The caller's own only.
  kAbort,  ///< The caller's own, or an operator's.
  kSeen,   ///< The caller's own, or whom the role lets see all.
  kAny,    ///< Who may call may name any.
};

struct Row {
  Access access;
  Txn txn;
};

// Written down apart from the server's own table, so that neither changes alone.
const std::map<std::string, Row>& Expected() {
  static const std::map<std::string, Row> rows = {
      {"BeginGlobalTxn", {Access::kClient, Txn::kNone}},
      {"Produce", {Access::kClient, Txn::kOwn}},
      {"ProduceStream", {Access::kClient, Txn::kOwn}},
      {"SendOffsets", {Access::kClient, Txn::kOwn}},
      {"Commit", {Access::kClient, Txn::kOwn}},
      {"Abort", {Access::kAnybody, Txn::kAbort}},
      {"Execute", {Access::kClient, Txn::kNone}},
      {"ExecuteStream", {Access::kClient, Txn::kNone}},
      {"GetTxn", {Access::kAnybody, Txn::kSeen}},
      {"ListTxns", {Access::kAnybody, Txn::kNone}},
      {"WatchTxn", {Access::kAnybody, Txn::kSeen}},
      {"GetServerInfo", {Access::kAnybody, Txn::kNone}},
      {"ListClusters", {Access::kAnybody, Txn::kNone}},
      {"RegisterProducer", {Access::kClient, Txn::kNone}},
      {"Enlist", {Access::kClient, Txn::kOwn}},
      {"ListInDoubt", {Access::kObserver, Txn::kNone}},
      {"RepairMarkers", {Access::kOperator, Txn::kAny}},
      {"ResolveTxn", {Access::kOperator, Txn::kAny}},
      {"AcknowledgeHeuristic", {Access::kOperator, Txn::kAny}},
      {"ListOrphans", {Access::kObserver, Txn::kNone}},
      {"EndOrphan", {Access::kOperator, Txn::kNone}},
      {"Drain", {Access::kOperator, Txn::kNone}},
      {"Undrain", {Access::kOperator, Txn::kNone}},
      {"SetLogLevel", {Access::kOperator, Txn::kNone}},
      {"LogInfo", {Access::kObserver, Txn::kNone}},
      {"Backup", {Access::kOperator, Txn::kNone}},
      {"GetStatus", {Access::kObserver, Txn::kNone}},
  };
  return rows;
}

struct Rpc {
  const google::protobuf::MethodDescriptor* method;
  Row expected;
  std::string path() const { return "/" + method->service()->full_name() + "/" + method->name(); }
};

std::vector<Rpc> AllRpcs() {
  std::vector<Rpc> all;
  for (const auto* service : {v1::BeginGlobalTxnRequest::descriptor()->file()->service(0),
                              v1::GetStatusRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      const auto row = Expected().find(method->name());
      if (row == Expected().end()) {
        ADD_FAILURE() << method->full_name()
                      << " is in no row of this test's table: who may call it?";
        continue;
      }
      all.push_back({method, row->second});
    }
  }
  return all;
}

/// A request that gets past the form: with this transaction's id, where there is room for one.
std::string RequestOf(const Rpc& rpc, const std::string& txn_id) {
  google::protobuf::DynamicMessageFactory factory;
  const auto* type = rpc.method->input_type();
  const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(type)->New());
  const auto* reflection = message->GetReflection();
  const auto set = [&](const char* name, const std::string& value) {
    if (const auto* field = type->FindFieldByName(name)) {
      reflection->SetString(message.get(), field, value);
    }
  };
  set("txn_id", txn_id);
  set("cluster", "east");
  set("registration_id", "r");
  if (const auto* field = type->FindFieldByName("sequence")) {
    reflection->SetUInt64(message.get(), field, 0);
  }
  if (const auto* field = type->FindFieldByName("records")) {
    auto* record = reflection->AddMessage(message.get(), field);
    record->GetReflection()->SetString(record, record->GetDescriptor()->FindFieldByName("topic"),
                                       "orders");
  }
  if (rpc.method->name() == "SendOffsets") {
    v1::SendOffsetsRequest offsets;
    offsets.set_txn_id(txn_id);
    offsets.set_cluster("east");
    offsets.set_sequence(0);
    offsets.mutable_group()->set_group_id("g");
    offsets.set_standalone(true);
    offsets.add_offsets()->set_topic("orders");
    return offsets.SerializeAsString();
  }
  return message->SerializeAsString();
}

bool MayCall(Access access, const std::string& who) {
  const bool client = who == "alice" || who == "bob";
  switch (access) {
    case Access::kAnybody:
      return true;
    case Access::kClient:
      return client;
    case Access::kObserver:
      return who == "watcher" || who == "ops";
    case Access::kOperator:
      return who == "ops";
  }
  return false;
}

bool MayTouch(Txn txn, const std::string& who, const std::string& owner) {
  switch (txn) {
    case Txn::kOwn:
      return who == owner;
    case Txn::kAbort:
      return who == owner || who == "ops";
    case Txn::kSeen:
      return who == owner || who == "watcher" || who == "ops";
    case Txn::kNone:
    case Txn::kAny:
      return true;
  }
  return false;
}

class AccessTest : public SecurityFixture {};

TEST_F(AccessTest, OfEveryRpcForEveryRoleAndOwner) {
  const std::vector<Rpc> rpcs = AllRpcs();
  ASSERT_EQ(rpcs.size(), Expected().size()) << "the table has a row for what is no RPC";
  Serve();
  const std::vector<std::string> callers = {"alice", "bob", "idle", "watcher", "ops"};
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  for (const auto& who : callers) channels[who] = ConnectAs(who);
  for (const Rpc& rpc : rpcs) {
    for (const std::string owner : {"alice", "bob"}) {
      Become(owner);
      for (const auto& who : callers) {
        // Drain would refuse what comes next.
        (void)CallAny(channels["ops"], "/lockstep.v1.Admin/Undrain", "");
        const std::string id = Begin();
        if (rpc.method->name() == "WatchTxn") {
          v1::AbortResponse aborted;
          EXPECT_TRUE(Abort(id, &aborted).ok());  // Else it would be watched for long.
        }
        const grpc::Status status = CallAny(channels[who], rpc.path(), RequestOf(rpc, id));
        const std::string what = who + " calls " + rpc.method->name() + " with a transaction of " +
                                 owner + ": " + status.error_message();
        const std::string reason = ReasonOf(status);
        if (!MayCall(rpc.expected.access, who)) {
          EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << what;
          EXPECT_EQ(reason, "NOT_AUTHORIZED") << what;
        } else if (MayTouch(rpc.expected.txn, who, owner)) {
          EXPECT_NE(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << what;
          EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << what;
          EXPECT_NE(status.error_code(), grpc::StatusCode::NOT_FOUND) << what;
        } else if (who == "watcher" || who == "ops") {
          EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << what;
        } else {
          EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << what;
          EXPECT_EQ(reason, "TXN_NOT_FOUND") << what;
        }
      }
    }
  }
}

TEST_F(AccessTest, OfNobodyWithoutAnIdentity) {
  Serve();
  const KeyPair stranger = ca_.Issue({.alternative_names = {"URI:spiffe://test/stranger"}});
  for (const auto& channel : {ConnectAs(""), ConnectWith(ca_.certificate(), stranger)}) {
    for (const Rpc& rpc : AllRpcs()) {
      const grpc::Status status = CallAny(channel, rpc.path(), RequestOf(rpc, "x"));
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
          << rpc.method->name() << ": " << status.error_message();
      EXPECT_EQ(ReasonOf(status), "NOT_AUTHENTICATED");
    }
  }
  const auto status = CallAny(ConnectWith(ca_.certificate(), stranger),
                              "/lockstep.v1.Coordinator/GetServerInfo", "");
  EXPECT_THAT(status.error_message(), HasSubstr("it says 'uri:spiffe://test/stranger'"));
}

TEST_F(AccessTest, IsAskedOfTheServersOwnTable) {
  for (const Rpc& rpc : AllRpcs()) {
    EXPECT_EQ(AccessOf(rpc.method->name()), rpc.expected.access) << rpc.method->name();
  }
  EXPECT_EQ(AccessOf("Unheard"), std::nullopt);
}

TEST_F(AccessTest, ByToken) {
  const std::string token = "CANARY-0123456789abcdef";
  WritePolicy(std::string(kPolicy) +
              "  - {name: robot, role: operator, tokens: [sha256:" + HashToken(token) + "]}\n");
  Serve();
  const std::string info = "/lockstep.v1.Coordinator/GetServerInfo";
  const std::string drain = "/lockstep.v1.Admin/Drain";
  const auto nobody = ConnectAs("");
  EXPECT_TRUE(CallAny(nobody, info, "", "Bearer " + token).ok());
  EXPECT_TRUE(CallAny(nobody, info, "", "bearer " + token).ok());
  EXPECT_TRUE(CallAny(nobody, drain, "", "Bearer " + token).ok());
  for (const std::string& bad :
       {"Bearer " + token + "x", "Basic " + token, token, std::string("Bearer "),
        "Bearer " + HashToken(token), "Bearer " + std::string(5000, 'x')}) {
    EXPECT_EQ(CallAny(nobody, info, "", bad).error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << bad;
  }
  // A token goes before the certificate: a wrong one is not made good by it.
  const auto alice = ConnectAs("alice");
  EXPECT_TRUE(CallAny(alice, drain, "", "Bearer " + token).ok());
  EXPECT_EQ(CallAny(alice, info, "", "Bearer no").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, FollowsThePolicyFile) {
  Serve();
  const auto alice = ConnectAs("alice");
  const std::string info = "/lockstep.v1.Coordinator/GetServerInfo";
  ASSERT_TRUE(CallAny(alice, info, "").ok());
  const std::string without = "principals:\n  - {name: bob, certificates: ['dns:bob']}\n";
  WritePolicy("principals: nonsense\n");
  daemon_->RereadFiles();
  EXPECT_TRUE(CallAny(alice, info, "").ok()) << "a mistake changes nothing";
  WritePolicy(without);
  daemon_->RereadFiles();
  EXPECT_EQ(CallAny(alice, info, "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  std::filesystem::remove(folder_ / "policy.yaml");
  daemon_->RereadFiles();
  EXPECT_EQ(CallAny(alice, info, "").error_code(), grpc::StatusCode::UNAUTHENTICATED)
      << "without the file nobody may more";
}

TEST_F(AccessTest, OperatorsMayHaveAListenerOfTheirOwn) {
  config_.admin_listen = ListenAddress{.host = "127.0.0.1"};
  Serve();
  const std::string status = "/lockstep.v1.Admin/GetStatus";
  EXPECT_EQ(CallAny(ConnectAs("ops"), status, "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(CallAny(ConnectAs("ops"), "/lockstep.v1.Coordinator/GetServerInfo", "").ok());
  const auto admin =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(daemon_->admin_port()),
                          grpc::SslCredentials({ca_.certificate(), CertificateOf("ops").key,
                                                CertificateOf("ops").certificate}));
  const KeyPair ops = CertificateOf("ops");
  const auto fresh =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(daemon_->admin_port()),
                          grpc::SslCredentials({ca_.certificate(), ops.key, ops.certificate}));
  EXPECT_TRUE(CallAny(fresh, status, "").ok());
  EXPECT_TRUE(CallAny(fresh, "/lockstep.v1.Coordinator/GetServerInfo", "").ok());
}

TEST_F(AccessTest, BoundsWhatAPrincipalMayDo) {
  WritePolicy(
      "principals:\n  - name: alice\n    certificates: ['uri:spiffe://test/alice']\n"
      "    open_transactions: 2\n    transaction_timeout: 10s\n"
      "    allow: [{clusters: [east], topics: [orders], transactional_ids: [alice-*]}]\n");
  Serve();
  Become("alice");
  const std::string id = Begin(5);
  ExpectError(Produce(id, "west", 0), grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED",
              "does not allow 'alice' to use cluster 'west'");
  ExpectError(Produce(id, "nowhere", 0), grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED",
              "to use cluster 'nowhere'");
  v1::ProduceRequest produce;
  produce.set_txn_id(id);
  produce.set_cluster("east");
  produce.set_sequence(0);
  produce.add_records()->set_topic("orders");
  produce.add_records()->set_topic("secrets");
  v1::ProduceResponse produced;
  ExpectError(Call(*coordinator_, &CoordinatorStub::Produce, produce, &produced),
              grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED",
              "write to topic 'secrets' on cluster 'east'");
  v1::SendOffsetsRequest offsets;
  offsets.set_txn_id(id);
  offsets.set_cluster("east");
  offsets.set_sequence(0);
  offsets.mutable_group()->set_group_id("g");
  offsets.set_standalone(true);
  offsets.add_offsets()->set_topic("orders");
  v1::SendOffsetsResponse sent;
  ExpectError(Call(*coordinator_, &CoordinatorStub::SendOffsets, offsets, &sent),
              grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED", "offsets of group 'g'");
  v1::RegisterProducerRequest producer;
  producer.set_cluster("east");
  producer.set_transactional_id("bob-1");
  producer.set_protocol(v1::PRODUCER_PROTOCOL_TV1);
  v1::RegisterProducerResponse registered;
  ExpectError(Call(*coordinator_, &CoordinatorStub::RegisterProducer, producer, &registered),
              grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED",
              "enlist transactional.id 'bob-1' on cluster 'east'");
  producer.set_transactional_id("alice-1");
  EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::RegisterProducer, producer, &registered).ok());
  v1::ListClustersResponse clusters;
  ASSERT_TRUE(Call(*coordinator_, &CoordinatorStub::ListClusters, {}, &clusters).ok());
  ASSERT_EQ(clusters.clusters_size(), 1);
  EXPECT_EQ(clusters.clusters(0).name(), "east");

  v1::BeginGlobalTxnRequest begin;
  v1::BeginGlobalTxnResponse begun;
  begin.mutable_timeout()->set_seconds(11);
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun),
              grpc::StatusCode::PERMISSION_DENIED, "NOT_AUTHORIZED", "so long a timeout");
  (void)Begin(5);
  begin.mutable_timeout()->set_seconds(5);
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun),
              grpc::StatusCode::RESOURCE_EXHAUSTED, "LIMIT_REACHED",
              "too many open transactions of 'alice' (the policy allows 2)");
  v1::AbortResponse aborted;
  ASSERT_TRUE(Abort(id, &aborted).ok());
  EXPECT_TRUE(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun).ok());
}

TEST_F(AccessTest, BoundsThePrincipalsCalls) {
  WritePolicy(
      "principals:\n"
      "  - {name: alice, certificates: ['uri:spiffe://test/alice'], calls_per_second: 3}\n"
      "  - {name: bob, certificates: ['uri:spiffe://test/bob']}\n");
  Serve();
  const auto alice = ConnectAs("alice");
  const std::string info = "/lockstep.v1.Coordinator/GetServerInfo";
  grpc::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = CallAny(alice, info, "");
  ExpectError(status, grpc::StatusCode::RESOURCE_EXHAUSTED, "LIMIT_REACHED",
              "too many calls of 'alice' (the policy allows 3 a second)");
  EXPECT_TRUE(CallAny(ConnectAs("bob"), info, "").ok()) << "the others' calls go on";
}

}  // namespace
}  // namespace lockstep::server
