#include "client/ending.h"

#include "client/convert.h"

namespace lockstep::client {
namespace {

template <typename Response>
auto Converting(CommitCallback done) {
  return [done = std::move(done)](const Result<Response>& response) {
    done(response ? ResultOf(*response) : response.error());
  };
}

}  // namespace

void StartCommit(Connection& connection, const std::string& txn_id, Wait wait, Timeout timeout,
                 CommitCallback done) {
  v1::CommitRequest request;
  request.set_txn_id(txn_id);
  request.set_wait(ToProto(wait));
  using Call = RetriedCall<v1::CommitRequest, v1::CommitResponse>;
  Call::Options options{.timeout = timeout, .insist = true, .ask_again = {}};
  if (wait == Wait::kComplete) {
    // The server's answer shortly before an attempt's deadline, not ours.
    options.ask_again = [](const v1::CommitResponse& response) {
      return response.outcome() == v1::OUTCOME_COMMITTING;
    };
  }
  Call::Start(connection, &Connection::Stub::Commit, std::move(request), std::move(options),
              Converting<v1::CommitResponse>(std::move(done)));
}

Result<TxnResult> CommitById(Connection& connection, const std::string& txn_id, Wait wait,
                             Timeout timeout) {
  return Await<TxnResult>([&](CommitCallback done) {
    StartCommit(connection, txn_id, wait, timeout, std::move(done));
  });
}

void StartAbort(Connection& connection, const std::string& txn_id, Timeout timeout,
                CommitCallback done) {
  v1::AbortRequest request;
  request.set_txn_id(txn_id);
  RetriedCall<v1::AbortRequest, v1::AbortResponse>::Start(
      connection, &Connection::Stub::Abort, std::move(request),
      {.timeout = timeout, .insist = true, .ask_again = {}},
      Converting<v1::AbortResponse>(std::move(done)));
}

Result<TxnResult> AbortById(Connection& connection, const std::string& txn_id, Timeout timeout) {
  return Await<TxnResult>(
      [&](CommitCallback done) { StartAbort(connection, txn_id, timeout, std::move(done)); });
}

}  // namespace lockstep::client
