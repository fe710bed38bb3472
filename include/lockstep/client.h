#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/enlist.h"
#include "lockstep/result.h"
#include "lockstep/transaction.h"
#include "lockstep/types.h"

namespace lockstep::client {

/// How a client knows its server, and shows who it is: PEM files, and a token. All are read again
/// when they change.
struct Security {
  /// Whose server certificates to trust. Given, or with `tls`, the connection is TLS; else it is in
  /// plain text.
  std::string ca_file;
  bool tls = false;              ///< Without `ca_file`: trust the system's authorities.
  std::string certificate_file;  ///< The client's own, with its chain; needs `key_file`.
  std::string key_file;          ///< Without a pass phrase.
  /// A bearer token for each call. In plain text it is only sent to a server on this machine.
  std::string token_file;
  std::string server_name;  ///< What the server's certificate says, if it is not HOST.
};

struct ClientOptions {
  std::string server = "127.0.0.1:7420";  ///< HOST:PORT of lockstepd, or unix:PATH.
  /// What is wrong with these files is each call's error, kInvalidArgument.
  Security security = {};
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
  /// Producers to enlist at once, in the same call, as by Transaction::Enlist; one a cluster.
  std::vector<Enlistment> enlistments;
};

/// Names one piece of work for ever: however often it is executed under its key, at most one run of
/// it commits.
struct ExecuteKey {
  std::string name;  ///< 1 to 256 bytes of printable ASCII without spaces; unique for ever.
  WallTime made_at;  ///< The same with each use. Milliseconds count.
};
/// A random one, made now.
ExecuteKey NewExecuteKey();

struct ExecuteOptions {
  std::chrono::milliseconds txn_timeout = std::chrono::minutes(1);  ///< As in BeginOptions.
  std::string label;                                                ///< As in BeginOptions.
  Wait wait = Wait::kComplete;
  /// None: a new one for this call. Give one that you have stored with the work to be able to
  /// execute it again after an error, or after a crash of your own.
  std::optional<ExecuteKey> key;
};

struct Executed {
  std::string
      txn_id;  ///< Of the run that the result belongs to, which may have been an earlier one.
  ExecuteKey key;
  TxnResult result;
};
using ExecuteCallback = std::function<void(Result<Executed>)>;

/// Told what is known of a transaction; false: that is enough.
using WatchCallback = std::function<bool(const TxnInfo&)>;

/// Which transactions to list.
struct ListFilter {
  std::vector<TxnState> states;  ///< None: all.
  std::string label_prefix;
};

/// A connection to one lockstepd. Thread-safe. Make one for the process and keep it: it connects at
/// the first call, connects again whenever it must, and all transactions share it.
///
/// Every call retries inside until an answer or its timeout. A call that may have reached the
/// server and was not answered is repeated so that it takes effect once.
class Client {
 public:
  explicit Client(ClientOptions options = {});
  /// Waits for what is under way: background aborts, and each asynchronous call up to its timeout
  /// and callback. Not from inside a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Begins a transaction; nothing is written to disk or to any cluster. After an error there may
  /// be one that nobody knows: it aborts at its timeout. kLimitReached: too many are open.
  ///
  /// With `enlistments`: OK means that each of these producers may write. Errors are Enlist's, too,
  /// and the message tells which producer: with Effect::kNone nothing was begun. With kUnknown the
  /// one that nobody knows may hold the producers: the same call again gets it for its answer, and
  /// RegisterProducer aborts it.
  Result<Transaction> Begin(const BeginOptions& options = {}, Timeout timeout = {});

  /// A whole transaction in one call: commits all of `work`, in its order, or nothing. Repeated
  /// inside under one key until an outcome is known, so that it takes effect once. For what fits
  /// into one message (the server's limits.message_bytes).
  ///
  /// After an error with Effect::kUnknown it may have committed, be running, or not have begun:
  /// execute it again under the same key, which must then be yours (ExecuteOptions::key). After
  /// kAborted too, should the work still be wanted: under Executed::key. With Effect::kNone the
  /// call did nothing; kNotFound means that the key is older than the outcomes the server keeps,
  /// so that nobody knows whether it once committed.
  Result<Executed> Execute(std::vector<Work> work, const ExecuteOptions& options = {},
                           Timeout timeout = {});
  /// Execute without waiting here: `done` is called once, as in Transaction::CommitAsync.
  void ExecuteAsync(std::vector<Work> work, const ExecuteOptions& options, ExecuteCallback done,
                    Timeout timeout = {});

  /// Announces an instance of the application's own transactional producer, right before its
  /// initTransactions(): the two belong together, for whoever initialises last owns the id. Aborts
  /// what is undecided on the transactional.id, waits for what is in doubt, and voids older
  /// registrations of it. `protocol`: the best that the producer's library speaks.
  ///
  /// After an error there may be a registration that nobody knows: the next one voids it.
  Result<Registration> RegisterProducer(const std::string& cluster,
                                        const std::string& transactional_id,
                                        ProducerProtocol protocol, Timeout timeout = {});

  /// What is known of a transaction now. Changes nothing. One that the server does not know, and
  /// that it would know had it been decided, is kAborted (presumed abort). kNotFound: another
  /// server's id, or its outcome is no longer kept.
  Result<TxnInfo> GetTxn(const std::string& txn_id, Timeout timeout = {});

  /// Calls `each`, on this thread, with what is known of a transaction now and again whenever it
  /// changes, until its outcome is final; returns what it was told last. Goes on across lost
  /// connections and restarts of the server, after which it may be told the same again; a slow
  /// `each` misses changes, never the last one. Changes nothing.
  ///
  /// kNotFound as in GetTxn. kUnavailable once no server has answered for `silence` (none:
  /// ClientOptions::call_timeout); a transaction that does not change is no silence.
  Result<TxnInfo> Watch(const std::string& txn_id, const WatchCallback& each, Timeout silence = {});

  /// Those that are open, and those that ended lately, latest first; page by page, so not of one
  /// moment.
  Result<std::vector<TxnInfo>> ListTxns(const ListFilter& filter = {}, Timeout timeout = {});

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
