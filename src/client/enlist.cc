#include "lockstep/enlist.h"

#include "client/client_impl.h"
#include "client/ending.h"
#include "client/transaction_impl.h"

namespace lockstep::client {
namespace {

v1::ProducerProtocol ToProto(ProducerProtocol protocol) {
  return protocol == ProducerProtocol::kTv2 ? v1::PRODUCER_PROTOCOL_TV2 : v1::PRODUCER_PROTOCOL_TV1;
}

}  // namespace

Result<Registration> Client::RegisterProducer(const std::string& cluster,
                                              const std::string& transactional_id,
                                              ProducerProtocol protocol, Timeout timeout) {
  v1::RegisterProducerRequest request;
  request.set_cluster(cluster);
  request.set_transactional_id(transactional_id);
  request.set_protocol(ToProto(protocol));
  const auto answer = Call(*impl_,
                           Method<v1::RegisterProducerRequest, v1::RegisterProducerResponse>(
                               &Connection::Stub::RegisterProducer),
                           std::move(request), {.timeout = timeout, .ask_again = {}});
  if (!answer) return answer.error();
  return Registration{.id = answer->registration_id(),
                      .cluster = cluster,
                      .transactional_id = transactional_id,
                      .incarnation = answer->incarnation(),
                      .protocol = answer->protocol() == v1::PRODUCER_PROTOCOL_TV2
                                      ? ProducerProtocol::kTv2
                                      : ProducerProtocol::kTv1};
}

Status Transaction::Impl::Enlist(const Registration& registration, std::optional<ProducerName> name,
                                 Timeout timeout) {
  if (const Status takes = TakesWork(); !takes) return takes;
  v1::EnlistRequest request;
  request.set_txn_id(id_);
  FillProducer(registration, name, request);
  const auto answer =
      Call(connection_, Method<v1::EnlistRequest, v1::EnlistResponse>(&Connection::Stub::Enlist),
           std::move(request), {.timeout = timeout, .ask_again = {}});
  if (!answer) {
    if (answer.error().effect == Effect::kUnknown) {
      state_ = State::kDoubtful;
      enlisted_ = true;
    }
    return answer.error();
  }
  enlisted_ = true;
  return CheckIncarnation(registration, answer->incarnation());
}

Status Transaction::Impl::CheckIncarnation(const Registration& registration,
                                           std::uint64_t incarnation) {
  if (incarnation == registration.incarnation) return {};
  state_ = State::kDoubtful;
  return Error{.code = Code::kFenced,
               .effect = Effect::kUnknown,
               .message =
                   "the server has restarted since the producer was registered: abort, make "
                   "a new producer, registered anew"};
}

Status Transaction::Impl::TakeEnlisted(const std::vector<Enlistment>& enlistments,
                                       std::uint64_t incarnation, Timeout timeout) {
  for (const Enlistment& each : enlistments) {
    // 0: a server that has begun, and has passed over them.
    const Status enlisted = incarnation == 0 ? Enlist(each.registration, each.name, timeout)
                                             : CheckIncarnation(each.registration, incarnation);
    if (!enlisted) return enlisted;
    enlisted_ = true;
  }
  return {};
}

Result<TxnResult> Transaction::Impl::CommitEnlisted(const std::vector<EnlistedWork>& enlisted,
                                                    Timeout timeout) {
  if (state_ == State::kDoubtful) return TakesWork().error();
  state_ = State::kEnded;
  return CommitEnlistedById(connection_, id_, enlisted, timeout);
}

Status Transaction::Enlist(const Registration& registration, std::optional<ProducerName> name,
                           Timeout timeout) {
  return impl_->Enlist(registration, name, timeout);
}

Result<TxnResult> Transaction::CommitEnlisted(const std::vector<EnlistedWork>& enlisted,
                                              Timeout timeout) {
  return impl_->CommitEnlisted(enlisted, timeout);
}

}  // namespace lockstep::client
