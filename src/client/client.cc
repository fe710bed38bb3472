#include "lockstep/client.h"

#include "client/connection.h"
#include "client/convert.h"
#include "client/ending.h"
#include "client/transaction_impl.h"

namespace lockstep::client {

class Client::Impl : public Connection {
  using Connection::Connection;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

Result<Transaction> Client::Begin(const BeginOptions& options, Timeout timeout) {
  v1::BeginGlobalTxnRequest request;
  *request.mutable_timeout() = ToProto(options.txn_timeout);
  request.set_label(options.label);
  const auto begun = Call(*impl_,
                          Method<v1::BeginGlobalTxnRequest, v1::BeginGlobalTxnResponse>(
                              &Connection::Stub::BeginGlobalTxn),
                          std::move(request), {.timeout = timeout, .ask_again = {}});
  if (!begun) return begun.error();
  return Transaction(std::make_unique<Transaction::Impl>(*impl_, begun->txn_id(),
                                                         FromProto(begun->expire_time())));
}

Result<TxnInfo> Client::GetTxn(const std::string& txn_id, Timeout timeout) {
  v1::GetTxnRequest request;
  request.set_txn_id(txn_id);
  const auto answer =
      Call(*impl_, Method<v1::GetTxnRequest, v1::GetTxnResponse>(&Connection::Stub::GetTxn),
           std::move(request), {.timeout = timeout, .ask_again = {}});
  if (!answer) return answer.error();
  return FromProto(answer->txn());
}

Result<TxnResult> Client::Commit(const std::string& txn_id, Wait wait, Timeout timeout) {
  return CommitById(*impl_, txn_id, wait, timeout);
}

Result<TxnResult> Client::Abort(const std::string& txn_id, Timeout timeout) {
  return AbortById(*impl_, txn_id, timeout);
}

}  // namespace lockstep::client
