#include "lockstep/client.h"

#include "client/client_impl.h"
#include "client/convert.h"
#include "client/ending.h"
#include "client/transaction_impl.h"

namespace lockstep::client {

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

Result<Transaction> Client::Begin(const BeginOptions& options, Timeout timeout) {
  v1::BeginGlobalTxnRequest request;
  *request.mutable_timeout() = ToProto(options.txn_timeout);
  request.set_label(options.label);
  for (const Enlistment& enlistment : options.enlistments) {
    FillProducer(enlistment.registration, enlistment.name, *request.add_enlistments());
  }
  const auto begun = Call(*impl_,
                          Method<v1::BeginGlobalTxnRequest, v1::BeginGlobalTxnResponse>(
                              &Connection::Stub::BeginGlobalTxn),
                          std::move(request), {.timeout = timeout, .ask_again = {}});
  if (!begun) return begun.error();
  auto txn =
      std::make_unique<Transaction::Impl>(*impl_, begun->txn_id(), FromProto(begun->expire_time()));
  const Status enlisted = txn->TakeEnlisted(options.enlistments, begun->incarnation(), timeout);
  if (!enlisted) return enlisted.error();
  return Transaction(std::move(txn));
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

Result<std::vector<TxnInfo>> Client::ListTxns(const ListFilter& filter, Timeout timeout) {
  v1::ListTxnsRequest request;
  request.set_page_size(1000);
  request.set_label_prefix(filter.label_prefix);
  for (const TxnState state : filter.states) request.add_states(ToProto(state));
  std::vector<TxnInfo> all;
  for (;;) {
    const auto page =
        Call(*impl_, Method<v1::ListTxnsRequest, v1::ListTxnsResponse>(&Connection::Stub::ListTxns),
             request, {.timeout = timeout, .ask_again = {}});
    if (!page) return page.error();
    for (const v1::Transaction& txn : page->txns()) {
      auto info = FromProto(txn);
      if (!info) return info.error();
      all.push_back(*std::move(info));
    }
    if (page->next_page_token().empty()) return all;
    request.set_page_token(page->next_page_token());
  }
}

Result<TxnResult> Client::Commit(const std::string& txn_id, Wait wait, Timeout timeout) {
  return CommitById(*impl_, txn_id, wait, timeout);
}

Result<TxnResult> Client::Abort(const std::string& txn_id, Timeout timeout) {
  return AbortById(*impl_, txn_id, timeout);
}

}  // namespace lockstep::client
