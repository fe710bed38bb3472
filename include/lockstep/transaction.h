#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/enlist.h"
#include "lockstep/result.h"
#include "lockstep/types.h"

namespace lockstep::client {

/// How long one call may take, retries included. None: ClientOptions::call_timeout.
using Timeout = std::optional<std::chrono::milliseconds>;

/// How far Commit waits.
enum class Wait {
  kComplete,  ///< Until every cluster is known to have committed.
  kDecided,   ///< Until COMMIT is durable: it will complete, whatever crashes.
};

using CommitCallback = std::function<void(Result<TxnResult>)>;

/// One transaction over several clusters, from Client::Begin. Aborts unless it is committed:
/// destroyed before Commit or Abort was called, it is aborted in the background (and if that does
/// not get through, by its timeout).
///
/// Not thread-safe: one thread at a time. Calls block, but for CommitAsync; each retries inside,
/// until an answer or its timeout, so a lost connection and a server that restarts are not errors.
/// A server keeps open transactions in memory only: work after its restart is refused
/// (kWrongState, ABORTED); what was decided before is not lost. Movable; a moved-from one may only
/// be destroyed or assigned to. Does not outlive its Client.
class Transaction {
 public:
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  ~Transaction();

  /// Names it for Client::Commit, Abort and GetTxn, from any process. Store it before Commit to be
  /// able to ask for the outcome after a crash of your own.
  const std::string& id() const;
  /// When it aborts unless it is decided, by the server's clock.
  WallTime expires_at() const;

  /// Adds a record for one cluster (a name from the server's configuration). The server buffers
  /// it, nothing is durable, and no cluster hears of them until Commit: what is wrong with a topic
  /// or a record is Commit's answer.
  ///
  /// On failure with Effect::kNone nothing was added, and the transaction goes on; kLimitReached is
  /// for the caller to wait out, or to make transactions smaller. With kUnknown (only after the
  /// timeout) nobody knows whether it was added: the transaction can only be aborted then, and
  /// every other call fails with kWrongState.
  Status Produce(const std::string& cluster, Record record, Timeout timeout = {});
  /// The same for several, in one call: all of them or none.
  Status ProduceAll(const std::string& cluster, std::vector<Record> records, Timeout timeout = {});

  /// Adds consumer offsets that commit with the transaction. As Produce. A group that fences the
  /// member is Commit's answer: kAborted, GROUP_FENCED.
  Status SendOffsets(const std::string& cluster, const GroupOffsets& offsets, Timeout timeout = {});

  /// Makes the transaction that a registered producer is about to begin a branch of this one,
  /// before its first write: OK means that it may write, and that nobody but the server ends it
  /// before the outcome. One branch a cluster.
  ///
  /// kFenced: the registration is void, nothing was added, and the transaction goes on: make a new
  /// producer, registered anew. With Effect::kUnknown as Produce; kFenced with it means that the
  /// server has restarted meanwhile.
  Status Enlist(const Registration& registration, std::optional<ProducerName> name = {},
                Timeout timeout = {});

  /// Commit of a transaction with enlisted producers: `enlisted` has one element for each. Waits
  /// for the end on every cluster: OK is kCommitted, kAborted or kHeuristic, and then each producer
  /// may end its own transaction alike.
  ///
  /// After an error with Effect::kUnknown, which a decision that is still being carried out at the
  /// timeout is too, no producer may end its own: call it again, with the same words. With
  /// Effect::kNone this call did nothing: the code says why.
  Result<TxnResult> CommitEnlisted(const std::vector<EnlistedWork>& enlisted, Timeout timeout = {});

  /// Commits everywhere or nowhere. OK carries an outcome, also kAborted. When it is kCommitted (or
  /// with Wait::kDecided also kCommitting) the decision is durable and will be carried out on every
  /// cluster. A decided transaction whose clusters take longer than the timeout is kCommitting.
  ///
  /// After an error with Effect::kUnknown it may be committed, aborted or open: call Commit again,
  /// here or through the Client by its id, also after a restart of either side. It is never aborted
  /// by the destructor from here on.
  Result<TxnResult> Commit(Wait wait = Wait::kComplete, Timeout timeout = {});

  /// Commit without waiting here: `done` is called once, as Commit would have returned, on a thread
  /// of the client's that it must not block; it may begin other asynchronous calls. Never from
  /// inside this call.
  void CommitAsync(CommitCallback done, Wait wait = Wait::kComplete, Timeout timeout = {});

  /// Aborts, unless COMMIT is decided already: then the outcome says so (with enlisted producers
  /// never kCommitting, as CommitEnlisted). After an error with Effect::kUnknown: ask again.
  Result<TxnResult> Abort(Timeout timeout = {});

 private:
  friend class Client;
  class Impl;
  explicit Transaction(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::client
