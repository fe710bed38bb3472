#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/result.h"
#include "lockstep/transaction.h"
#include "lockstep/types.h"

namespace lockstep::client {

struct ClientOptions {
  std::string server = "127.0.0.1:7420";  ///< HOST:PORT of lockstepd. In plain text.
  /// For calls that name no timeout of their own.
  std::chrono::milliseconds call_timeout = std::chrono::seconds(30);
  /// One attempt of a call; what is left of the call's time is for the next one.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(10);
  /// Between attempts that failed: at first, then twice as long each time. The server's word on
  /// when to come again takes precedence where it is longer.
  std::chrono::milliseconds first_backoff = std::chrono::milliseconds(50);
  std::chrono::milliseconds max_backoff = std::chrono::seconds(1);
};

struct BeginOptions {
  /// The transaction aborts if it is not decided by then. The server has a limit.
  std::chrono::milliseconds txn_timeout = std::chrono::minutes(1);
  std::string label;  ///< For people: shown in listings and logs. At most 256 bytes.
};

/// A connection to one lockstepd. Thread-safe. Make one for the process and keep it: it connects at
/// the first call, connects again whenever it must, and all transactions share it.
///
/// Every call retries inside until an answer or its timeout. A call that may have reached the
/// server and was not answered is repeated so that it takes effect once.
class Client {
 public:
  explicit Client(ClientOptions options = {});
  /// Waits for what is under way: background aborts, and each CommitAsync up to its timeout and
  /// callback. Not from inside a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Begins a transaction; nothing is written to disk or to any cluster. After an error there may
  /// be one that nobody knows: it aborts at its timeout. kLimitReached: too many are open.
  Result<Transaction> Begin(const BeginOptions& options = {}, Timeout timeout = {});

  /// What is known of a transaction now. Changes nothing. One that the server does not know, and
  /// that it would know had it been decided, is kAborted (presumed abort). kNotFound: another
  /// server's id, or its outcome is no longer kept.
  Result<TxnInfo> GetTxn(const std::string& txn_id, Timeout timeout = {});

  /// Transaction::Commit, for one that was begun elsewhere, or whose Commit failed with
  /// Effect::kUnknown. Commits an open one: its work must be complete.
  Result<TxnResult> Commit(const std::string& txn_id, Wait wait = Wait::kComplete,
                           Timeout timeout = {});
  /// Transaction::Abort by id.
  Result<TxnResult> Abort(const std::string& txn_id, Timeout timeout = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::client
