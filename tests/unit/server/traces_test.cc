#include "server/traces.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "api_fixture.h"
#include "captured_log.h"

namespace lockstep::server {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";
const std::string kParent = std::string("00-") + kTrace + "-" + kSpan + "-01";

TEST(TraceParent, IsReadAsTheStandardSays) {
  const auto trace = ParseTraceParent(kParent);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->trace_id, kTrace);
  EXPECT_EQ(trace->span_id, kSpan);
  EXPECT_TRUE(ParseTraceParent("cc" + kParent.substr(2) + "-what-comes-later"));
}

TEST(TraceParent, IsIgnoredIfItIsNotValid) {
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string(), std::string("00"), kParent.substr(0, 54), kParent + "-more",
        "ff" + kParent.substr(2), "cc" + kParent.substr(2) + "x",
        "00-" + zeros + kParent.substr(35), kParent.substr(0, 36) + zeros.substr(0, 16) + "-01",
        std::string("00-4BF92F3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        "00_" + kParent.substr(3), kParent.substr(0, 53) + "zz"}) {
    EXPECT_FALSE(ParseTraceParent(text)) << text;
  }
}

TEST(Traces, TheOldestIsForgotten) {
  Traces traces;
  const TraceContext trace{kTrace, kSpan};
  for (std::size_t i = 0; i <= Traces::kMost; ++i) {
    traces.Remember(GlobalTxnId(std::to_string(i)), trace);
  }
  EXPECT_FALSE(traces.Find(GlobalTxnId("0")));
  EXPECT_TRUE(traces.Find(GlobalTxnId("1")));
  EXPECT_TRUE(traces.Find(GlobalTxnId(std::to_string(Traces::kMost))));
}

std::string Formatted(spdlog::formatter& formatter) {
  const spdlog::details::log_msg message("test", spdlog::level::info, "x aborted");
  spdlog::memory_buf_t line;
  formatter.format(message, line);
  return {line.data(), line.size()};
}

TEST(TraceScope, NamesTheTraceInBothFormatsWhileItLasts) {
  const auto text = TextFormat();
  const auto json = JsonFormat();
  {
    const TraceScope scope(TraceContext{kTrace, kSpan});
    EXPECT_THAT(Formatted(*text),
                EndsWith(std::string("x aborted trace_id=") + kTrace + " span_id=" + kSpan + "\n"));
    const auto object = nlohmann::json::parse(Formatted(*json));
    EXPECT_EQ(object["trace_id"], kTrace);
    EXPECT_EQ(object["span_id"], kSpan);
    {
      const TraceScope none(std::nullopt);
      EXPECT_THAT(Formatted(*text), EndsWith("x aborted\n"));
    }
    EXPECT_THAT(Formatted(*text), HasSubstr(kTrace));
  }
  EXPECT_THAT(Formatted(*text), EndsWith("x aborted\n"));
  EXPECT_THAT(Formatted(*json), Not(HasSubstr("trace_id")));
}

class TracedCalls : public ApiFixture {
 protected:
  std::string BeginTraced(const std::string& parent) {
    v1::BeginGlobalTxnRequest request;
    request.mutable_timeout()->set_seconds(60);
    v1::BeginGlobalTxnResponse response;
    CallContext context;
    context.set_wait_for_ready(true);
    context.AddMetadata("traceparent", parent);
    const auto status = coordinator_->BeginGlobalTxn(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.txn_id();
  }

  CapturedLog captured_{spdlog::level::debug};
};

TEST_F(TracedCalls, ATransactionsLinesNameTheTraceOfItsBegin) {
  Serve();
  const std::string committed = BeginTraced(kParent);
  v1::CommitResponse response;
  ASSERT_TRUE(Commit(committed, &response).ok());
  EXPECT_THAT(captured_.Await(committed + " COMMITTED"),
              HasSubstr(std::string(" trace_id=") + kTrace + " span_id=" + kSpan));
  const std::string other = BeginTraced("nonsense");
  ASSERT_TRUE(Commit(other, &response).ok());
  EXPECT_THAT(captured_.Await(other + " COMMITTED"), Not(HasSubstr("trace_id")));
}

TEST_F(TracedCalls, SoDoThoseOfAnAbortAndOfAHeuristicOutcome) {
  west_.Set({.refusal = {txn::AbortReason::kUnknownTopic, ClusterName("west"), "no topic", false}});
  Serve();
  v1::CommitResponse response;
  const std::string aborted = BeginTraced(kParent);
  ASSERT_TRUE(Produce(aborted, "west", 0).ok());
  ASSERT_TRUE(Commit(aborted, &response).ok());
  EXPECT_THAT(captured_.Await(aborted + " aborted: UNKNOWN_TOPIC"), HasSubstr(kTrace));
  west_.Set({.aborted_it = true});
  const std::string torn = BeginTraced(kParent);
  ASSERT_TRUE(Produce(torn, "west", 0).ok());
  ASSERT_TRUE(Commit(torn, &response).ok());
  EXPECT_THAT(captured_.Await(torn + " HEURISTIC: COMMIT was decided"), HasSubstr(kTrace));
}

TEST_F(TracedCalls, AndThoseOfExecute) {
  Serve();
  v1::ExecuteRequest request;
  request.set_key("k");
  request.mutable_key_time()->set_seconds(clock_.WallNow().ms / 1000);
  request.mutable_timeout()->set_seconds(60);
  auto& produce = *request.add_work()->mutable_produce();
  produce.set_cluster("east");
  produce.add_records()->set_topic("orders");
  v1::ExecuteResponse response;
  CallContext context;
  context.set_wait_for_ready(true);
  context.AddMetadata("traceparent", kParent);
  const auto status = coordinator_->Execute(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(captured_.Await(" COMMITTED"), HasSubstr(kTrace));
}

}  // namespace
}  // namespace lockstep::server
