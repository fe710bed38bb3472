// What holds for many RPCs alike, each of them asked: ids that are none, a server that does not
// serve yet or is full, a log that failed, streams whose client or server goes away.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <map>
#include <set>

#include "api_fixture.h"
#include "call_context.h"
#include "coordinator/txn_id.h"

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kForeign = "ffffffffffffffff-1-1-1";

class CasesTest : public ApiFixture {
 protected:
  /// A call, by its name, for one transaction.
  using CallOfId = std::pair<std::string, std::function<grpc::Status(const std::string& id)>>;

  /// Every RPC that takes a txn_id, all other fields in order.
  std::vector<CallOfId> CallsOfId() {
    return {
        {"Produce", [this](const auto& id) { return ApiFixture::Produce(id, "east", 0); }},
        {"ProduceStream", [this](const auto& id) { return ProduceStream({Message(id, 0)}); }},
        {"SendOffsets", [this](const auto& id) { return SendOffsets(id, 0); }},
        {"Commit",
         [this](const auto& id) {
           v1::CommitResponse response;
           return Commit(id, &response);
         }},
        {"Abort",
         [this](const auto& id) {
           v1::AbortResponse response;
           return Abort(id, &response);
         }},
        {"GetTxn", OfId<v1::GetTxnRequest>(*coordinator_, &CoordinatorStub::GetTxn)},
        {"WatchTxn",
         [this](const auto& id) {
           v1::WatchTxnRequest request;
           request.set_txn_id(id);
           grpc::ClientContext context;
           const auto watch = coordinator_->WatchTxn(&context, request);
           v1::WatchTxnResponse seen;
           while (watch->Read(&seen)) {
           }
           return watch->Finish();
         }},
        {"RepairMarkers", OfId<v1::RepairMarkersRequest>(*admin_, &AdminStub::RepairMarkers)},
        {"ResolveTxn", OfId<v1::ResolveTxnRequest>(*admin_, &AdminStub::ResolveTxn)},
        {"AcknowledgeHeuristic",
         OfId<v1::AcknowledgeHeuristicRequest>(*admin_, &AdminStub::AcknowledgeHeuristic)},
    };
  }

  void ExpectOfEachCall(const std::string& id, grpc::StatusCode code, const std::string& reason,
                        const std::string& text = "") {
    for (const auto& [name, call] : CallsOfId()) {
      SCOPED_TRACE(name + " of '" + id + "'");
      ExpectError(call(id), code, reason, text);
    }
  }

  /// Every method of both services, called with an empty message.
  std::map<std::string, grpc::Status> CallEachWithNothing(
      std::optional<seconds> deadline = seconds(20)) {
    std::map<std::string, grpc::Status> ended;
    for (const auto* file : {v1::BeginGlobalTxnRequest::descriptor()->file(),
                             v1::GetStatusRequest::descriptor()->file()}) {
      for (int i = 0; i < file->service(0)->method_count(); ++i) {
        const auto* method = file->service(0)->method(i);
        ended[method->name()] =
            CallWithNothing("/" + file->service(0)->full_name() + "/" + method->name(), deadline);
      }
    }
    EXPECT_GT(ended.size(), 25u);
    return ended;
  }

  static v1::ProduceStreamRequest Message(const std::string& id, std::uint64_t sequence) {
    v1::ProduceStreamRequest message;
    message.set_txn_id(id);
    message.set_cluster("east");
    message.set_sequence(sequence);
    message.add_records()->set_topic("orders");
    return message;
  }
  grpc::Status ProduceStream(const std::vector<v1::ProduceStreamRequest>& messages) {
    CallContext context;
    v1::ProduceStreamResponse response;
    const auto stream = coordinator_->ProduceStream(&context, &response);
    for (const auto& message : messages) stream->Write(message);
    stream->WritesDone();
    return stream->Finish();
  }

  grpc::Status SendOffsets(const std::string& id, std::uint64_t sequence) {
    v1::SendOffsetsRequest request;
    request.set_txn_id(id);
    request.set_cluster("east");
    request.set_sequence(sequence);
    request.set_standalone(true);
    request.mutable_group()->set_group_id("g");
    auto& offset = *request.add_offsets();
    offset.set_topic("orders");
    offset.set_offset(5);
    v1::SendOffsetsResponse response;
    return Call(*coordinator_, &CoordinatorStub::SendOffsets, request, &response);
  }

  grpc::Status Execute(const v1::ExecuteRequest& request, v1::ExecuteResponse* response) {
    return Call(*coordinator_, &CoordinatorStub::Execute, request, response);
  }

  /// The answers of an ExecuteStream by key, and how it ended.
  std::map<std::string, v1::ExecuteAnswer> ExecuteStream(
      const std::vector<v1::ExecuteRequest>& requests, milliseconds deadline,
      grpc::Status* status) {
    CallContext context(deadline);
    const auto stream = coordinator_->ExecuteStream(&context);
    v1::ExecuteStreamRequest message;
    for (const auto& request : requests) *message.add_transactions() = request;
    stream->Write(message);
    stream->WritesDone();
    std::map<std::string, v1::ExecuteAnswer> answers;
    for (v1::ExecuteStreamResponse read; stream->Read(&read);) {
      for (const auto& answer : read.answers()) answers[answer.key()] = answer;
    }
    *status = stream->Finish();
    return answers;
  }

 private:
  template <typename Request, typename Response>
  std::function<grpc::Status(const std::string&)> OfId(
      auto& stub, grpc::Status (std::decay_t<decltype(stub)>::*method)(grpc::ClientContext*,
                                                                       const Request&, Response*)) {
    return [this, &stub, method](const std::string& id) {
      Request request;
      request.set_txn_id(id);
      if constexpr (requires { request.set_cluster("east"); }) request.set_cluster("east");
      if constexpr (requires { request.set_who("ann"); }) {
        request.set_resolution(v1::RESOLUTION_COMMIT);
        request.set_who("ann");
        request.set_why("to see");
      }
      Response response;
      return Call(stub, method, request, &response);
    };
  }

  grpc::Status CallWithNothing(const std::string& method, std::optional<seconds> deadline) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    if (deadline) context.set_deadline(std::chrono::system_clock::now() + *deadline);
    grpc::CompletionQueue queue;
    const auto step = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    step();
    const grpc::Slice empty("");
    call->WriteLast(grpc::ByteBuffer(&empty, 1), {}, nullptr);
    step();
    for (bool more = true; more;) {
      grpc::ByteBuffer answer;
      call->Read(&answer, nullptr);
      more = step();
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    step();
    return status;
  }
};

// ---- Ids ----------------------------------------------------------------------------------------

TEST_F(CasesTest, WhatIsNoIdIsRefusedByEveryCall) {
  Serve();
  for (const std::string& id : {std::string(), std::string("not-an-id"), std::string(1000, 'a'),
                                std::string("0123456789abcdef-3-1-"), std::string("two words")}) {
    ExpectOfEachCall(id, grpc::INVALID_ARGUMENT, "INVALID_REQUEST");
  }
}

TEST_F(CasesTest, AnotherLogsIdIsFoundByNoCall) {
  Serve();
  ExpectOfEachCall(kForeign, grpc::NOT_FOUND, "TXN_NOT_FOUND", "another decision log");
}

TEST_F(CasesTest, AnIdThatWasNeverGivenIsFoundByNoCall) {
  Serve();
  const auto id = coordinator::FormatTxnId(
      {LogId("0123456789abcdef"), Incarnation(3), clock_.WallNow(), 1'000'000});
  ExpectOfEachCall(id.get(), grpc::NOT_FOUND, "TXN_NOT_FOUND", "never begun");
}

TEST_F(CasesTest, AForgottenIdIsFoundByNoCall) {
  log_.ForgetUpTo(WallTime{1'700'000'000'000});
  Serve();
  const auto id = coordinator::FormatTxnId(
      {LogId("0123456789abcdef"), Incarnation(2), WallTime{1'600'000'000'000}, 1});
  ExpectOfEachCall(id.get(), grpc::NOT_FOUND, "TXN_NOT_FOUND", "no longer kept");
}

// ---- States of the server -----------------------------------------------------------------------

TEST_F(CasesTest, UntilTheServerHasStartedEveryCallIsUnavailable) {
  StartServer();
  for (const auto& [method, status] : CallEachWithNothing()) {
    SCOPED_TRACE(method);
    ExpectError(status, grpc::UNAVAILABLE, "UNAVAILABLE", "starting");
  }
}

TEST_F(CasesTest, AFullServerRefusesEveryCall) {
  config_.concurrent_calls = 1;
  Serve();
  v1::WatchTxnRequest request;
  request.set_txn_id(Begin());
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReader<v1::WatchTxnResponse>> watch;
  v1::WatchTxnResponse seen;
  do {  // Begin's place may still be taken.
    watch.reset();
    watch = coordinator_->WatchTxn(&context.emplace(), request);
  } while (!watch->Read(&seen));
  for (const auto& [method, status] : CallEachWithNothing()) {
    SCOPED_TRACE(method);
    ExpectError(status, grpc::RESOURCE_EXHAUSTED, "LIMIT_REACHED", "limits.concurrent_calls");
  }
}

TEST_F(CasesTest, EachCallThatEndsByItselfNeedsADeadline) {
  Serve();
  const std::set<std::string> open_ended = {"WatchTxn", "ExecuteStream", "Backup"};
  for (const auto& [method, status] : CallEachWithNothing(std::nullopt)) {
    SCOPED_TRACE(method);
    if (open_ended.contains(method)) {
      EXPECT_EQ(status.error_message().find("deadline"), std::string::npos);
    } else {
      ExpectError(status, grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "deadline: is required");
    }
  }
}

TEST_F(CasesTest, OnceTheLogHasFailedNoCallSaysWhatItDoesNotKnow) {
  Serve();
  const std::string id = BeginWithWork();
  log_.Fail();
  v1::CommitResponse response;
  ExpectError(Commit(BeginWithWork(), &response), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
  ExpectOfEachCall(id, grpc::UNAVAILABLE, "OUTCOME_UNKNOWN", "disk on fire");
  v1::BeginGlobalTxnRequest begin;
  begin.mutable_timeout()->set_seconds(1);
  v1::BeginGlobalTxnResponse begun;
  ExpectError(Call(*coordinator_, &CoordinatorStub::BeginGlobalTxn, begin, &begun),
              grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
  v1::ExecuteResponse executed;
  ExpectError(Execute(Work("k"), &executed), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
  v1::ListTxnsResponse listed;
  ExpectError(Call(*coordinator_, &CoordinatorStub::ListTxns, {}, &listed), grpc::UNAVAILABLE,
              "OUTCOME_UNKNOWN");
  v1::DrainResponse drained;
  ExpectError(Call(*admin_, &AdminStub::Drain, {}, &drained), grpc::UNAVAILABLE, "OUTCOME_UNKNOWN");
}

TEST_F(CasesTest, DrainedItRunsNoNewKeyAndAnswersAnOldOne) {
  Serve();
  v1::ExecuteResponse response;
  ASSERT_TRUE(Execute(Work("old"), &response).ok());
  const v1::ExecuteRequest old = Work("old");
  v1::DrainResponse drained;
  ASSERT_TRUE(Call(*admin_, &AdminStub::Drain, {}, &drained).ok());
  ExpectError(Execute(Work("new"), &response), grpc::FAILED_PRECONDITION, "WRONG_STATE",
              "drained by an operator");
  grpc::Status status;
  const auto answers = ExecuteStream({Work("new"), Work("newer")}, seconds(20), &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& [key, answer] : answers) {
    EXPECT_EQ(answer.error().reason(), v1::REASON_WRONG_STATE) << key;
  }
}

// ---- States of a transaction --------------------------------------------------------------------

TEST_F(CasesTest, WorkForWhatIsNotActiveIsRefused) {
  east_.Set({.commits = false});
  Serve();
  const std::string committing = BeginWithWork();
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(committing, &response, v1::COMMIT_WAIT_DECIDED).ok());
  const std::string aborted = Begin();
  v1::AbortResponse abort;
  ASSERT_TRUE(Abort(aborted, &abort).ok());
  for (const auto& [id, state] :
       {std::pair(committing, "COMMITTING"), std::pair(aborted, "ABORTED")}) {
    ExpectError(Produce(id, "east", 2), grpc::FAILED_PRECONDITION, "WRONG_STATE", state);
    ExpectError(SendOffsets(id, 2), grpc::FAILED_PRECONDITION, "WRONG_STATE", state);
    ExpectError(ProduceStream({Message(id, 2)}), grpc::FAILED_PRECONDITION, "WRONG_STATE", state);
  }
}

TEST_F(CasesTest, OneSequenceCountsAllKindsOfWork) {
  Serve();
  const std::string id = Begin();
  ExpectError(SendOffsets(id, 1), grpc::FAILED_PRECONDITION, "WRONG_STATE", "next one is 0");
  ASSERT_TRUE(Produce(id, "east", 0).ok());
  ASSERT_TRUE(SendOffsets(id, 1).ok());
  ASSERT_TRUE(SendOffsets(id, 1).ok()) << "repeated";
  ASSERT_TRUE(ProduceStream({Message(id, 1), Message(id, 2)}).ok()) << "repeated, and the next";
  EXPECT_EQ(Get(id).next_sequence(), 3u);
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(id, &response).ok());
  EXPECT_EQ(east_.prepared_work().records.size(), 2u);
  EXPECT_EQ(east_.prepared_work().offsets.size(), 1u);
}

// ---- Fields -------------------------------------------------------------------------------------

TEST_F(CasesTest, AMessageOfAStreamIsCheckedAsACallOfProduce) {
  config_.record_bytes = 5000;
  Serve();
  const std::string id = Begin();
  const auto refused = [&](const std::string& text, const auto& spoil,
                           const std::string& reason = "INVALID_REQUEST") {
    v1::ProduceStreamRequest second = Message("", 1);
    spoil(second);
    ExpectError(ProduceStream({Message(id, 0), second}), grpc::INVALID_ARGUMENT, reason, text);
    EXPECT_EQ(Get(id).next_sequence(), 1u) << "the first one stays, and none other";
  };
  refused("txn_id: must be that of the first", [&](auto& m) { m.set_txn_id(Begin()); });
  refused("sequence:", [](auto& m) { m.clear_sequence(); });
  refused("records:", [](auto& m) { m.clear_records(); });
  refused("records[0].topic:", [](auto& m) { m.mutable_records(0)->clear_topic(); });
  refused("limits.record_bytes",
          [](auto& m) { m.mutable_records(0)->set_value(std::string(6000, 'x')); });
  refused(
      "'north' is configured", [](auto& m) { m.set_cluster("north"); }, "UNKNOWN_CLUSTER");
  v1::ProduceStreamRequest first = Message(id, 1);
  first.clear_cluster();
  ExpectError(ProduceStream({first}), grpc::INVALID_ARGUMENT, "INVALID_REQUEST", "cluster:");
  EXPECT_TRUE(ProduceStream({}).ok()) << "nothing is asked";
}

TEST_F(CasesTest, AnOperatorNamesTheCluster) {
  Serve();
  const std::string id = BeginWithWork();
  v1::RepairMarkersRequest repair;
  repair.set_txn_id(id);
  v1::RepairMarkersResponse repaired;
  ExpectError(Call(*admin_, &AdminStub::RepairMarkers, repair, &repaired), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "cluster: is required");
  v1::ResolveTxnRequest resolve;
  resolve.set_txn_id(id);
  v1::ResolveTxnResponse resolved;
  ExpectError(Call(*admin_, &AdminStub::ResolveTxn, resolve, &resolved), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "cluster: is required");
}

TEST_F(CasesTest, AListIsAskedForInItsTerms) {
  Serve();
  const auto refused = [&](const std::string& text, const auto& spoil) {
    v1::ListTxnsRequest request;
    spoil(request);
    v1::ListTxnsResponse response;
    ExpectError(Call(*coordinator_, &CoordinatorStub::ListTxns, request, &response),
                grpc::INVALID_ARGUMENT, "INVALID_REQUEST", text);
  };
  refused("page_size:", [](auto& r) { r.set_page_size(-1); });
  refused("page_size:", [](auto& r) { r.set_page_size(1001); });
  v1::ListInDoubtRequest in_doubt;
  in_doubt.set_page_size(1001);
  v1::ListInDoubtResponse listed;
  ExpectError(Call(*admin_, &AdminStub::ListInDoubt, in_doubt, &listed), grpc::INVALID_ARGUMENT,
              "INVALID_REQUEST", "page_size:");
  refused("label_prefix:", [](auto& r) { r.set_label_prefix(std::string(257, 'l')); });
  refused("states[0]:", [](auto& r) { r.add_states(v1::TXN_STATE_UNSPECIFIED); });
  refused("states[1]:", [](auto& r) {
    r.add_states(v1::TXN_STATE_ACTIVE);
    r.add_states(static_cast<v1::TxnState>(99));
  });
}

// ---- Deadlines, and who goes away ---------------------------------------------------------------

TEST_F(CasesTest, AStreamsDeadlineIsAnsweredByWhatIsDecided) {
  east_.Set({.commits = false});
  Serve();
  grpc::Status status;
  const auto answers = ExecuteStream({Work("k1"), Work("k2")}, milliseconds(1000), &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& [key, answer] : answers) {
    EXPECT_EQ(answer.response().outcome(), v1::OUTCOME_COMMITTING) << key;
  }
}

TEST_F(CasesTest, StreamsThatEndBeforeTheirTimeGiveTheirPlaceBack) {
  config_.concurrent_calls = 2;  // One for the call before, which may still have its place.
  Serve();
  const std::string id = Begin();
  v1::WatchTxnRequest request;
  request.set_txn_id(id);
  for (const bool by_deadline : {true, false, true, false}) {  // Each twice: both places would go.
    const auto limit = [&](grpc::ClientContext& context) {
      if (by_deadline) context.set_deadline(std::chrono::system_clock::now() + milliseconds(300));
    };
    const auto expected = by_deadline ? grpc::DEADLINE_EXCEEDED : grpc::CANCELLED;
    {
      grpc::ClientContext context;
      limit(context);
      const auto watch = coordinator_->WatchTxn(&context, request);
      v1::WatchTxnResponse seen;
      ASSERT_TRUE(watch->Read(&seen));
      if (!by_deadline) context.TryCancel();
      EXPECT_EQ(watch->Finish().error_code(), expected);
    }
    AwaitRoom();
    {
      CallContext context;
      limit(context);
      v1::ProduceStreamResponse response;
      const auto stream = coordinator_->ProduceStream(&context, &response);
      ASSERT_TRUE(stream->Write(Message(id, 0)));
      if (!by_deadline) context.TryCancel();
      EXPECT_EQ(stream->Finish().error_code(), expected);
    }
    AwaitRoom();
  }
  EXPECT_EQ(Get(id).state(), v1::TXN_STATE_ACTIVE);
}

/// A server that dies, and the next start on its log.
class NextStartTest : public CasesTest {
 protected:
  ~NextStartTest() override {
    StopServer();
    daemon_.reset();
  }

  /// Once the clients of the first one are gone.
  void Restart() {
    daemon_->Drain([] {});  // Calls that nobody waits for any more would keep it from ending.
    StopServer();
    daemon_.reset();
    stopped_ = false;
    second_log_.SetIncarnation(4);
    for (const txn::Decision& decision : log_.decisions()) second_log_.Recover(decision);
    daemon_ = std::make_unique<Daemon>(
        config_, second_log_, std::vector<coordinator::Cluster*>{&second_east_, &second_west_},
        second_executor_, clock_, [](const Error&) {});
    ASSERT_TRUE(daemon_->Listen().ok());
    ASSERT_TRUE(daemon_->Serve().ok());
    Connect();
  }

  ThreadExecutor second_executor_;
  FakeLog second_log_{second_executor_};
  FakeCluster second_east_{"east", second_executor_};
  FakeCluster second_west_{"west", second_executor_};
};

TEST_F(NextStartTest, AStreamThatWasCutOffIsAskedAgainByKey) {
  east_.Set({.commits = false});
  west_.Set({.votes = false});
  Serve();
  const v1::ExecuteRequest decided = Work("decided");
  v1::ExecuteRequest undecided = Work("undecided");
  undecided.mutable_work(0)->mutable_produce()->set_cluster("west");
  {
    grpc::ClientContext context;
    const auto stream = coordinator_->ExecuteStream(&context);
    v1::ExecuteStreamRequest message;
    *message.add_transactions() = decided;
    *message.add_transactions() = undecided;
    ASSERT_TRUE(stream->Write(message));
    while (ListInDoubt().in_doubt().empty() || west_.prepares() == 0) {
    }
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
  Restart();
  grpc::Status status;
  const auto answers = ExecuteStream({decided, undecided}, seconds(20), &status);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answers.at("decided").response().outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_TRUE(answers.at("decided").response().repeated_key());
  EXPECT_EQ(answers.at("undecided").response().outcome(), v1::OUTCOME_COMMITTED);
  EXPECT_FALSE(answers.at("undecided").response().repeated_key());
  EXPECT_EQ(second_east_.prepares(), 0);
  EXPECT_EQ(second_west_.prepares(), 1);
}

TEST_F(NextStartTest, WorkForAnOpenTransactionOfTheLastStartIsRefusedAndItIsAborted) {
  Serve();
  const std::string id = Begin();
  CallContext context;
  v1::ProduceStreamResponse response;
  const auto stream = coordinator_->ProduceStream(&context, &response);
  ASSERT_TRUE(stream->Write(Message(id, 0)));
  while (Get(id).next_sequence() == 0) {
  }
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  Restart();
  ExpectError(ProduceStream({Message(id, 1)}), grpc::FAILED_PRECONDITION, "WRONG_STATE", "ABORTED");
  ExpectError(SendOffsets(id, 1), grpc::FAILED_PRECONDITION, "WRONG_STATE", "ABORTED");
  for (int i = 0; i < 2; ++i) {
    v1::AbortResponse aborted;
    ASSERT_TRUE(Abort(id, &aborted).ok());
    EXPECT_EQ(aborted.outcome(), v1::OUTCOME_ABORTED);
  }
}

}  // namespace
}  // namespace lockstep::server
