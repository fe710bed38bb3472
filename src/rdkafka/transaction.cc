#include <algorithm>
#include <optional>

#include "rdkafka/producer_impl.h"

namespace lockstep::rdkafka {
namespace {

using client::Effect;
using client::Error;
using client::Outcome;
using client::Result;
using client::Status;
using client::TxnResult;

// What the destructor may take.
constexpr std::chrono::milliseconds kLastAbort = std::chrono::seconds(5);

}  // namespace

class Transaction::Impl {
 public:
  explicit Impl(client::Transaction txn) : txn_(std::move(txn)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  client::Transaction& txn() { return txn_; }
  Status Enlist(client::Client& client, Producer::Impl& producer, const Deadline& deadline);
  Result<TxnResult> Commit(client::Timeout timeout);
  Result<TxnResult> Abort(const Deadline& deadline);

 private:
  Result<TxnResult> AbortFor(const Producer::Impl& producer, const Error& why);
  Result<TxnResult> Settle(Result<TxnResult> result);

  client::Transaction txn_;
  std::vector<Producer::Impl*> producers_;
  /// What Commit has said, and says again. Once it is there no producer is touched before an
  /// outcome is.
  std::optional<std::vector<client::EnlistedWork>> said_;
  std::optional<TxnResult> outcome_;
};

Transaction::Impl::~Impl() {
  // What may be committed is left alone.
  if (!outcome_ && !said_) static_cast<void>(Abort(Deadline(kLastAbort)).ok());
  if (outcome_) return;
  for (Producer::Impl* producer : producers_) producer->Discard();
}

Status Transaction::Impl::Enlist(client::Client& client, Producer::Impl& producer,
                                 const Deadline& deadline) {
  producers_.push_back(&producer);
  return producer.Join(client, txn_, deadline);
}

Result<TxnResult> Transaction::Impl::Commit(client::Timeout timeout) {
  if (outcome_) return *outcome_;
  const Deadline deadline(timeout);
  if (!said_) {
    std::vector<client::EnlistedWork> work;
    for (const Producer::Impl* producer : producers_) {
      if (const Status flushed = producer->instance->Flush(deadline); !flushed) {
        return AbortFor(*producer, flushed.error());
      }
      work.push_back(producer->instance->Work());
    }
    said_ = std::move(work);
  }
  return Settle(txn_.CommitEnlisted(*said_, deadline.left()));
}

/// Nobody has asked for Commit, so it will not be committed, also where the server is not reached.
Result<TxnResult> Transaction::Impl::AbortFor(const Producer::Impl& producer, const Error& why) {
  auto aborted = Abort(Deadline({}));
  TxnResult result = aborted ? *std::move(aborted) : TxnResult{};
  if (result.outcome == Outcome::kAborted) {
    result.abort.cluster = producer.options.cluster;
    result.abort.message = why.message;
    if (result.abort.reason.empty()) result.abort.reason = "CLIENT_ABORT";
  }
  if (!outcome_) {  // The server has not been told: it aborts at its timeout, or as we register
                    // anew.
    for (Producer::Impl* each : producers_) each->Discard();
  }
  outcome_ = result;
  return result;
}

Result<TxnResult> Transaction::Impl::Abort(const Deadline& deadline) {
  if (outcome_) return *outcome_;
  if (!said_) {
    for (Producer::Impl* producer : producers_) {
      // What may arrive after the end is fenced by the next instance's initialisation.
      if (producer->instance != nullptr && !producer->instance->Quiesce(deadline)) {
        producer->Discard();
      }
    }
  }
  return Settle(txn_.Abort(std::max(deadline.left(), kLastAbort)));
}

Result<TxnResult> Transaction::Impl::Settle(Result<TxnResult> result) {
  if (!result) return result;
  outcome_ = *result;
  for (Producer::Impl* producer : producers_) producer->Follow(*result);
  return result;
}

Transaction::Transaction(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&&) noexcept = default;
Transaction::~Transaction() = default;

Result<Transaction> Transaction::Begin(client::Client& client,
                                       const std::vector<Producer*>& producers,
                                       const client::BeginOptions& options,
                                       client::Timeout timeout) {
  const Deadline deadline(timeout);
  // Before the transaction begins: its time is not for them.
  for (Producer* producer : producers) {
    if (const Status ready = producer->impl_->MakeReady(client, deadline); !ready) {
      return ready.error();
    }
  }
  auto begun = client.Begin(options, deadline.left());
  if (!begun) return begun.error();
  auto impl = std::make_unique<Impl>(*std::move(begun));
  for (Producer* producer : producers) {
    const Status enlisted = impl->Enlist(client, *producer->impl_, deadline);
    if (!enlisted) return enlisted.error();
  }
  return Transaction(std::move(impl));
}

const std::string& Transaction::id() const { return impl_->txn().id(); }

Status Transaction::Produce(const std::string& cluster, client::Record record,
                            client::Timeout timeout) {
  return impl_->txn().Produce(cluster, std::move(record), timeout);
}
Status Transaction::ProduceAll(const std::string& cluster, std::vector<client::Record> records,
                               client::Timeout timeout) {
  return impl_->txn().ProduceAll(cluster, std::move(records), timeout);
}
Status Transaction::SendOffsets(const std::string& cluster, const client::GroupOffsets& offsets,
                                client::Timeout timeout) {
  return impl_->txn().SendOffsets(cluster, offsets, timeout);
}
Result<TxnResult> Transaction::Commit(client::Timeout timeout) { return impl_->Commit(timeout); }
Result<TxnResult> Transaction::Abort(client::Timeout timeout) {
  return impl_->Abort(Deadline(timeout));
}

}  // namespace lockstep::rdkafka
