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

template <typename Response>
bool StillCommitting(const Response& response) {
  return response.outcome() == v1::OUTCOME_COMMITTING;
}

/// For those whose own producers wait for the end: one that is not known is no answer.
CommitCallback InsistingOnEnd(CommitCallback done) {
  return [done = std::move(done)](Result<TxnResult> result) {
    if (!result || result->outcome != Outcome::kCommitting) return done(std::move(result));
    done(Error{.code = Code::kDeadlineExceeded,
               .effect = Effect::kUnknown,
               .message = "COMMIT is decided, and not yet carried out on every cluster: ask again "
                          "before the producers end their own transactions"});
  };
}

void SendCommit(Connection& connection, v1::CommitRequest request, Timeout timeout,
                CommitCallback done) {
  using Call = RetriedCall<v1::CommitRequest, v1::CommitResponse>;
  Call::Options options{.timeout = timeout, .insist = true, .ask_again = {}};
  if (request.wait() == v1::COMMIT_WAIT_COMPLETE) {
    // The server's answer shortly before an attempt's deadline, not ours.
    options.ask_again = StillCommitting<v1::CommitResponse>;
  }
  Call::Start(connection, &Connection::Stub::Commit, std::move(request), std::move(options),
              Converting<v1::CommitResponse>(std::move(done)));
}

}  // namespace

void StartCommit(Connection& connection, const std::string& txn_id, Wait wait, Timeout timeout,
                 CommitCallback done) {
  v1::CommitRequest request;
  request.set_txn_id(txn_id);
  request.set_wait(ToProto(wait));
  SendCommit(connection, std::move(request), timeout, std::move(done));
}

Result<TxnResult> CommitById(Connection& connection, const std::string& txn_id, Wait wait,
                             Timeout timeout) {
  return Await<TxnResult>([&](CommitCallback done) {
    StartCommit(connection, txn_id, wait, timeout, std::move(done));
  });
}

Result<TxnResult> CommitEnlistedById(Connection& connection, const std::string& txn_id,
                                     const std::vector<EnlistedWork>& enlisted, Timeout timeout) {
  v1::CommitRequest request;
  request.set_txn_id(txn_id);
  request.set_wait(v1::COMMIT_WAIT_COMPLETE);
  for (const EnlistedWork& work : enlisted) FillEnlisted(work, *request.add_enlisted());
  return Await<TxnResult>([&](CommitCallback done) {
    SendCommit(connection, std::move(request), timeout, InsistingOnEnd(std::move(done)));
  });
}

void StartAbort(Connection& connection, const std::string& txn_id, Timeout timeout,
                CommitCallback done, bool insist_on_end) {
  v1::AbortRequest request;
  request.set_txn_id(txn_id);
  using Call = RetriedCall<v1::AbortRequest, v1::AbortResponse>;
  Call::Options options{.timeout = timeout, .insist = true, .ask_again = {}};
  if (insist_on_end) {
    options.ask_again = StillCommitting<v1::AbortResponse>;
    done = InsistingOnEnd(std::move(done));
  }
  Call::Start(connection, &Connection::Stub::Abort, std::move(request), std::move(options),
              Converting<v1::AbortResponse>(std::move(done)));
}

Result<TxnResult> AbortById(Connection& connection, const std::string& txn_id, Timeout timeout,
                            bool insist_on_end) {
  return Await<TxnResult>([&](CommitCallback done) {
    StartAbort(connection, txn_id, timeout, std::move(done), insist_on_end);
  });
}

}  // namespace lockstep::client
