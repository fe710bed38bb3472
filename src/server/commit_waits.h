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
/// the server leaves. Owned by CoordinatorService; destroyed only once the executor has stopped.
class CommitWaits {
 public:
  using AnswerTxn = coordinator::Callback<Result<coordinator::TxnView>>;
  using AnswerExecuted = coordinator::Callback<std::variant<Executed, Refused>>;

  explicit CommitWaits(Api& api) : api_(api) {}

  /// `time_left`: how long the client will wait from now; none: for ever. The answer comes on the
  /// executor, and may come more than once: the first counts. Thread-safe.
  void Commit(GlobalTxnId id, coordinator::CommitOptions options, std::optional<Duration> time_left,
              AnswerTxn answer);
  void Execute(ExecuteCall call, std::optional<Duration> time_left, AnswerExecuted answer);

  /// Everyone who waits for COMPLETE and is decided is answered COMMITTING, now and from now on.
  /// Thread-safe.
  void AnswerDecided();

 private:
  /// On the executor. `patience`: how long until DECIDED is enough.
  void Await(const GlobalTxnId& id, coordinator::CommitOptions options,
             std::optional<Duration> patience, AnswerTxn answer);

  Api& api_;
  // On the executor only. What answers one who waits, as soon as it is decided.
  std::map<std::uint64_t, std::function<void()>> waiting_;
  std::uint64_t next_waiting_ = 0;
  bool answer_decided_ = false;
};

/// How long the client will wait from now; none: for ever.
std::optional<Duration> TimeLeft(const grpc::CallbackServerContext& context);

/// The answer of Execute, or why there is none.
Status FillExecuted(const Executed& executed, bool positions, v1::ExecuteResponse& response);

}  // namespace lockstep::server
