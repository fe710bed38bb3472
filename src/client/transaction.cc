#include "lockstep/transaction.h"

#include <algorithm>

#include "client/convert.h"
#include "client/ending.h"
#include "client/transaction_impl.h"

namespace lockstep::client {
namespace {

// What the destructor's abort may take: ~Client waits for it.
constexpr std::chrono::milliseconds kBackgroundAbort = std::chrono::seconds(5);

Error Doubtful() {
  return {.code = Code::kWrongState,
          .effect = Effect::kNone,
          .message = "it is not known whether an earlier call added its work: abort, begin anew"};
}

}  // namespace

Transaction::Impl::~Impl() {
  if (state_ == State::kEnded) return;
  StartAbort(connection_, id_, std::min(connection_.options().call_timeout, kBackgroundAbort),
             [](const Result<TxnResult>&) {});
}

Status Transaction::Impl::TakesWork() const {
  if (state_ == State::kDoubtful) return Doubtful();
  if (state_ == State::kEnded) {
    return Error{.code = Code::kWrongState,
                 .effect = Effect::kNone,
                 .message = "Commit or Abort was called: no more work"};
  }
  return {};
}

template <typename Request, typename Response>
Status Transaction::Impl::Send(Method<Request, Response> method, Request request,
                               const std::string& cluster, Timeout timeout) {
  if (const Status takes = TakesWork(); !takes) return takes;
  request.set_txn_id(id_);
  request.set_cluster(cluster);
  request.set_sequence(next_sequence_);
  const auto answer =
      Call(connection_, method, std::move(request), {.timeout = timeout, .ask_again = {}});
  if (answer) return ++next_sequence_, Status();
  if (answer.error().effect == Effect::kUnknown) state_ = State::kDoubtful;
  return answer.error();
}

Status Transaction::Impl::Produce(const std::string& cluster, std::vector<Record> records,
                                  Timeout timeout) {
  v1::ProduceRequest request;
  for (Record& record : records) FillRecord(std::move(record), *request.add_records());
  return Send(&Connection::Stub::Produce, std::move(request), cluster, timeout);
}

Status Transaction::Impl::SendOffsets(const std::string& cluster, const GroupOffsets& offsets,
                                      Timeout timeout) {
  v1::SendOffsetsRequest request;
  FillOffsets(offsets, request);
  return Send(&Connection::Stub::SendOffsets, std::move(request), cluster, timeout);
}

Result<TxnResult> Transaction::Impl::Commit(Wait wait, Timeout timeout) {
  if (state_ == State::kDoubtful) return Doubtful();
  state_ = State::kEnded;
  return CommitById(connection_, id_, wait, timeout);
}

void Transaction::Impl::CommitAsync(CommitCallback done, Wait wait, Timeout timeout) {
  if (state_ == State::kDoubtful) {
    return connection_.After({}, [done = std::move(done)] { done(Doubtful()); });
  }
  state_ = State::kEnded;
  StartCommit(connection_, id_, wait, timeout, std::move(done));
}

Result<TxnResult> Transaction::Impl::Abort(Timeout timeout) {
  state_ = State::kEnded;
  return AbortById(connection_, id_, timeout, enlisted_);
}

Transaction::Transaction(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&&) noexcept = default;
Transaction::~Transaction() = default;

const std::string& Transaction::id() const { return impl_->id(); }
WallTime Transaction::expires_at() const { return impl_->expires_at(); }

Status Transaction::Produce(const std::string& cluster, Record record, Timeout timeout) {
  std::vector<Record> records;
  records.push_back(std::move(record));
  return impl_->Produce(cluster, std::move(records), timeout);
}
Status Transaction::ProduceAll(const std::string& cluster, std::vector<Record> records,
                               Timeout timeout) {
  return impl_->Produce(cluster, std::move(records), timeout);
}
Status Transaction::SendOffsets(const std::string& cluster, const GroupOffsets& offsets,
                                Timeout timeout) {
  return impl_->SendOffsets(cluster, offsets, timeout);
}
Result<TxnResult> Transaction::Commit(Wait wait, Timeout timeout) {
  return impl_->Commit(wait, timeout);
}
void Transaction::CommitAsync(CommitCallback done, Wait wait, Timeout timeout) {
  impl_->CommitAsync(std::move(done), wait, timeout);
}
Result<TxnResult> Transaction::Abort(Timeout timeout) { return impl_->Abort(timeout); }

}  // namespace lockstep::client
