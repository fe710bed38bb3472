#include "server/commit_waits.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {
namespace {

using coordinator::TxnView;
using std::chrono::milliseconds;

/// An answer must leave this much before the client's deadline to arrive in time.
Duration AnswerMargin(Duration time_left) {
  return std::clamp<Duration>(time_left / 10, milliseconds(10), milliseconds(500));
}

/// What is left for the server of the client's patience. max_wait alone would not do, it counts
/// from the decision; it only keeps waiters whose client has gone from staying for ever.
std::optional<Duration> Patience(std::optional<Duration> time_left,
                                 coordinator::CommitOptions& options) {
  if (!time_left) return std::nullopt;
  options.max_wait = std::min(options.max_wait.value_or(*time_left), *time_left);
  return std::max(*time_left - AnswerMargin(*time_left), Duration::zero());
}

Refused OtherWork(const std::string& key) {
  return {MakeError(Code::kInvalidArgument,
                    "key: '" + key + "' stands for other work, or came with another key_time"),
          v1::REASON_KEY_REUSED};
}

Refused NotSubmitted(const Error& error) {
  // The one thing that Submit does not find.
  if (error.code == Code::kNotFound) return {error, v1::REASON_KEY_FORGOTTEN};
  return {error, std::nullopt};
}

}  // namespace

std::optional<Duration> TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  return std::max<Duration>(deadline - std::chrono::system_clock::now(), Duration::zero());
}

Status FillExecuted(const Executed& executed, bool positions, v1::ExecuteResponse& response) {
  response.set_key(executed.key);
  response.set_repeated_key(executed.run.repeated);
  return FillOutcome(executed.view, positions, response);
}

void CommitWaits::Commit(GlobalTxnId id, coordinator::CommitOptions options,
                         std::optional<Duration> time_left, AnswerTxn answer) {
  const std::optional<Duration> patience = Patience(time_left, options);
  api_.executor.Post(
      [this, id = std::move(id), options, patience, answer = std::move(answer)]() mutable {
        Await(id, options, patience, std::move(answer));
      });
}

void CommitWaits::Execute(ExecuteCall call, std::optional<Duration> time_left,
                          AnswerExecuted answer) {
  const std::optional<Duration> patience = Patience(time_left, call.options);
  const std::string key = call.submission.key.key;
  api_.coordinator.Submit(
      std::move(call.submission), [this, key, options = call.options, patience,
                                   answer](const Result<coordinator::Submitted>& run) {
        if (!run) return answer(NotSubmitted(run.error()));
        if (run->other_work) return answer(OtherWork(key));
        Await(run->id, options, patience, [key, run = *run, answer](const Result<TxnView>& view) {
          if (!view) return answer(Refused{view.error(), std::nullopt});
          answer(Executed{key, run, *view});
        });
      });
}

void CommitWaits::Await(const GlobalTxnId& id, coordinator::CommitOptions options,
                        std::optional<Duration> patience, AnswerTxn answer) {
  if (answer_decided_) options.wait = coordinator::WaitFor::kDecided;
  const auto settle_for_decided = [this, id, answer] {
    api_.coordinator.Commit(id, {.wait = coordinator::WaitFor::kDecided}, answer);
  };
  const std::uint64_t number = next_waiting_++;
  waiting_[number] = settle_for_decided;
  std::optional<coordinator::Executor::TimerId> timer;
  if (patience) timer = api_.executor.PostAfter(*patience, settle_for_decided);
  api_.coordinator.Commit(id, options, [this, number, timer, answer](Result<TxnView> view) {
    waiting_.erase(number);
    if (timer) api_.executor.Cancel(*timer);
    answer(std::move(view));
  });
}

void CommitWaits::AnswerDecided() {
  api_.executor.Post([this] {
    answer_decided_ = true;
    for (const auto& [number, settle_for_decided] : waiting_) settle_for_decided();
  });
}

}  // namespace lockstep::server
