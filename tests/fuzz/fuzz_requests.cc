// What clients and operators send: bytes to a request, a request to the core's values. The first
// byte picks the request. No network: gRPC's own parsing is gRPC's.

#include "fuzz.h"
#include "server/admin_convert.h"
#include "server/convert.h"

namespace lockstep::server {
namespace {

using fuzz::Input;
using fuzz::Require;

constexpr std::size_t kRecordBytes = 512;  // Small, so that inputs reach it.
constexpr std::int64_t kYear10000Ms = 253'402'300'800'000;

/// What both ways to refuse promise: a client's own fault, and nothing done.
void CheckRefusal(const Error& error) {
  Require(error.code == Code::kInvalidArgument || error.code == Code::kFailedPrecondition,
          "a bad request is its client's fault");
  Require(error.effect == Effect::kNone && !error.message.empty(), "nothing was done, and why");
}

/// Parses both ways and hands what was accepted to `check`.
template <typename Request, typename Parse, typename Check>
void Try(std::string_view bytes, const Parse& parse, const Check& check) {
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto parsed = parse(request);
  if (!parsed.ok()) return CheckRefusal(parsed.error());
  check(*parsed);
}

void CheckWork(const txn::BranchWork& work) {
  for (const txn::Record& record : work.records) {
    Require(!record.topic.empty(), "a record has a topic");
    Require(record.partition.value_or(0) >= 0, "a partition is not negative");
    Require(Weight(record) <= kRecordBytes, "a record is within its limit");
    const std::int64_t time = record.timestamp_ms.value_or(0);
    Require(time >= 0 && time < kYear10000Ms, "a record's time is one");
  }
  for (const txn::GroupOffsets& group : work.offsets) {
    Require(!group.group_id.empty() && !group.offsets.empty(), "offsets have a group");
    Require(group.standalone == group.member_id.empty(), "offsets have a member, or say why not");
    for (const auto& offset : group.offsets) Require(offset.offset >= 0, "an offset is one");
  }
}

void CheckWorkCall(const WorkCall& call) {
  Require(!call.txn.get().empty() && !call.cluster.get().empty(), "work belongs somewhere");
  CheckWork(call.work);
}

void CheckOptions(const coordinator::CommitOptions& options) {
  if (options.max_wait) Require(*options.max_wait > Duration::zero(), "a wait is positive");
}

void Read(std::uint8_t which, std::string_view bytes) {
  const auto produce = [](const auto& request) { return ParseProduce(request, kRecordBytes); };
  switch (which) {
    case 0:
      return Try<v1::BeginGlobalTxnRequest>(bytes, ParseBegin, [](const BeginCall& call) {
        Require(call.timeout > Duration::zero(), "a timeout is positive");
      });
    case 1:
      return Try<v1::ProduceRequest>(bytes, produce, CheckWorkCall);
    case 2:
      return Try<v1::ProduceStreamRequest>(bytes, produce, CheckWorkCall);
    case 3:
      return Try<v1::SendOffsetsRequest>(bytes, ParseSendOffsets, CheckWorkCall);
    case 4:
      return Try<v1::CommitRequest>(bytes, ParseCommit, CheckOptions);
    case 5:
      return Try<v1::RegisterProducerRequest>(bytes, ParseRegister, [](const RegisterCall& call) {
        Require(!call.id.get().empty() && !call.cluster.get().empty(), "a producer has a name");
      });
    case 6:
      return Try<v1::EnlistRequest>(bytes, ParseEnlist, [](const EnlistCall& call) {
        Require(!call.txn.get().empty(), "an enlistment is in a transaction");
      });
    case 7:
      return Try<v1::ExecuteRequest>(
          bytes, [](const auto& request) { return ParseExecute(request, kRecordBytes); },
          [](const ExecuteCall& call) {
            const txn::ClientKey& key = call.submission.key;
            Require(!key.key.empty() && !key.digest.empty(), "a key, and a digest of its work");
            Require(key.birth.ms >= 0 && key.birth.ms < kYear10000Ms, "a key's time is one");
            CheckOptions(call.options);
            for (const auto& part : call.submission.parts) CheckWork(part.work);
          });
    case 8:
      return Try<v1::ListTxnsRequest>(bytes, ParseList, [](const ListCall& call) {
        Require(call.count > 0 && call.count <= 1000, "a page has a size");
      });
    case 9:
      return Try<v1::ResolveTxnRequest>(bytes, ParseOrder, [](const txn::OperatorOrder& order) {
        Require(!order.who.empty() && !order.why.empty(), "an order says who and why");
      });
    case 10:
      return Try<v1::EndOrphanRequest>(bytes, ParseEndOrphan, [](const EndOrphanCall& call) {
        const std::int64_t start = call.orphan.description.start_time_ms;
        Require(start >= 0 && start < kYear10000Ms, "an orphan's start is a time");
      });
    case 11: {
      const auto seen = ParseResumeToken(std::string(bytes), Incarnation(7));
      if (!seen.ok()) return CheckRefusal(seen.error());
      const auto again = ParseResumeToken(ResumeToken(Incarnation(7), *seen), Incarnation(7));
      Require(again.ok() && again->revision == seen->revision && again->final == seen->final,
              "a token says what was seen");
      return;
    }
    default:
      return;
  }
}

}  // namespace
}  // namespace lockstep::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::Input input(data, size);
  const std::uint8_t which = input.Byte();
  lockstep::server::Read(which, input.Rest());
  return 0;
}
