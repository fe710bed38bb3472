#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"

namespace lockstep::client {

/// What a Transaction holds: its id, and the number of its next call. The destructor aborts what
/// nobody ended.
class Transaction::Impl {
 public:
  Impl(Connection& connection, std::string id, WallTime expires_at)
      : connection_(connection), id_(std::move(id)), expires_at_(expires_at) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::string& id() const { return id_; }
  WallTime expires_at() const { return expires_at_; }

  Status Produce(const std::string& cluster, std::vector<Record> records, Timeout timeout);
  Status SendOffsets(const std::string& cluster, const GroupOffsets& offsets, Timeout timeout);
  Status Enlist(const Registration& registration, std::optional<ProducerName> name,
                Timeout timeout);
  /// Of BeginGlobalTxn's answer: whom it has enlisted, says `incarnation`.
  Status TakeEnlisted(const std::vector<Enlistment>& enlistments, std::uint64_t incarnation,
                      Timeout timeout);
  Result<TxnResult> CommitEnlisted(const std::vector<EnlistedWork>& enlisted, Timeout timeout);
  Result<TxnResult> Commit(Wait wait, Timeout timeout);
  void CommitAsync(CommitCallback done, Wait wait, Timeout timeout);
  Result<TxnResult> Abort(Timeout timeout);

 private:
  enum class State {
    kOpen,      ///< Takes work.
    kDoubtful,  ///< A call's effect is not known: its number cannot be used for another one.
    kEnded,     ///< Commit or Abort was called.
  };

  /// Whether the answer is of the start that the registration is of.
  Status CheckIncarnation(const Registration& registration, std::uint64_t incarnation);
  /// Whether the state takes work.
  Status TakesWork() const;
  /// Sends work under the next number, and keeps account of it.
  template <typename Request, typename Response>
  Status Send(Method<Request, Response> method, Request request, const std::string& cluster,
              Timeout timeout);

  Connection& connection_;
  const std::string id_;
  const WallTime expires_at_;
  State state_ = State::kOpen;
  std::uint64_t next_sequence_ = 0;
  bool enlisted_ = false;  // Some producer may be.
};

/// The producer's part of an EnlistRequest or an Enlistment.
template <typename Request>
void FillProducer(const Registration& registration, const std::optional<ProducerName>& name,
                  Request& request) {
  request.set_registration_id(registration.id);
  if (!name) return;
  request.set_producer_id(name->id);
  request.set_producer_epoch(name->epoch);
}

}  // namespace lockstep::client
