#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <variant>

#include "server/api.h"
#include "server/call.h"
#include "server/convert.h"

namespace lockstep::server {

/// What Execute came to.
struct Executed {
  std::string key;
  coordinator::Submitted run;
  coordinator::TxnView view;
};

/// The calls that wait for a transaction's outcome: a decided one is never a DEADLINE_EXCEEDED.
/// Shortly before the client gives up, DECIDED is enough of an answer, and so it is for all once
/// the server leaves, and for a client that has gone: a cluster may be down for long, and nobody
/// may fill the server by calls that he does not wait for. Owned by CoordinatorService; destroyed
/// only once the executor has stopped.
class CommitWaits {
 public:
  using AnswerTxn = coordinator::Callback<Result<coordinator::TxnView>>;
  using AnswerExecuted = coordinator::Callback<std::variant<Executed, Refused>>;

  explicit CommitWaits(Api& api) : api_(api) {}

  /// Whose answer it is.
  struct Client {
    /// How long it will wait from now; none: for ever.
    std::optional<Duration> time_left;
    /// Whether nobody waits any more: answered already, or cancelled. Called on the executor.
    std::function<bool()> gone;
  };

  /// The answer comes on the executor, and may come more than once: the first counts. Thread-safe.
  void Commit(GlobalTxnId id, coordinator::CommitOptions options, Client client, AnswerTxn answer);
  void Execute(ExecuteCall call, Client client, AnswerExecuted answer);

  /// Everyone who waits for COMPLETE and is decided is answered COMMITTING, now and from now on.
  /// Thread-safe.
  void AnswerDecided();

 private:
  struct Waiting {
    GlobalTxnId id;
    coordinator::CommitOptions options;  // What is left of them.
    std::function<bool()> gone;
    AnswerTxn answer;
    std::optional<coordinator::Executor::TimerId> timer;  // Its patience.
  };

  // On the executor only.
  /// `patience`: how long until DECIDED is enough.
  void Await(Waiting waiting, std::optional<Duration> patience);
  void Ask(std::uint64_t number);
  void OnAnswer(std::uint64_t number, Result<coordinator::TxnView> view);
  /// Answers as soon as it is decided.
  void SettleForDecided(const Waiting& waiting);

  Api& api_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_waiting_ = 0;
  bool answer_decided_ = false;
};

/// `answered`: that it was; from then on the context is not touched.
CommitWaits::Client ClientOf(const grpc::CallbackServerContext& context,
                             std::function<bool()> answered);

/// The answer of Execute, or why there is none.
Status FillExecuted(const Executed& executed, bool positions, v1::ExecuteResponse& response);

}  // namespace lockstep::server
