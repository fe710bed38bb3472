#include "server/commit_waits.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {
namespace {

using coordinator::TxnView;
using std::chrono::milliseconds;

/// How soon it is noticed that nobody waits any more.
constexpr Duration kLookAgain = std::chrono::seconds(2);

/// An answer must leave this much before the client's deadline to arrive in time.
Duration AnswerMargin(Duration time_left) {
  return std::clamp<Duration>(time_left / 10, milliseconds(10), milliseconds(500));
}

/// What is left for the server of the client's patience. max_wait would not do: it counts from the
/// decision.
std::optional<Duration> Patience(std::optional<Duration> time_left) {
  if (!time_left) return std::nullopt;
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

CommitWaits::Client ClientOf(const grpc::CallbackServerContext& context,
                             std::function<bool()> answered) {
  return {.time_left = TimeLeft(context), .gone = [&context, answered = std::move(answered)] {
            return answered() || context.IsCancelled();
          }};
}

Status FillExecuted(const Executed& executed, bool positions, v1::ExecuteResponse& response) {
  response.set_key(executed.key);
  response.set_repeated_key(executed.run.repeated);
  return FillOutcome(executed.view, positions, response);
}

void CommitWaits::Commit(GlobalTxnId id, coordinator::CommitOptions options, Client client,
                         AnswerTxn answer) {
  const std::optional<Duration> patience = Patience(client.time_left);
  api_.executor.Post(
      [this,
       waiting = Waiting{std::move(id), options, std::move(client.gone), std::move(answer), {}},
       patience]() mutable { Await(std::move(waiting), patience); });
}

void CommitWaits::Execute(ExecuteCall call, Client client, AnswerExecuted answer) {
  const std::optional<Duration> patience = Patience(client.time_left);
  const std::string key = call.submission.key.key;
  api_.coordinator.Submit(
      std::move(call.submission),
      [this, key, options = call.options, patience, gone = std::move(client.gone),
       trace = std::move(call.trace), answer](const Result<coordinator::Submitted>& run) {
        if (!run) return answer(NotSubmitted(run.error()));
        if (run->other_work) return answer(OtherWork(key));
        api_.traces.Remember(run->id, trace);
        const auto on_outcome = [key, run = *run, answer](const Result<TxnView>& view) {
          if (!view) return answer(Refused{view.error(), std::nullopt});
          answer(Executed{key, run, *view});
        };
        Await({run->id, options, gone, on_outcome, {}}, patience);
      });
}

void CommitWaits::Await(Waiting waiting, std::optional<Duration> patience) {
  if (answer_decided_) waiting.options.max_wait = Duration::zero();
  const std::uint64_t number = next_waiting_++;
  if (patience) {
    waiting.timer = api_.executor.PostAfter(
        *patience, [this, number] { SettleForDecided(waiting_.at(number)); });
  }
  waiting_.emplace(number, std::move(waiting));
  Ask(number);
}

void CommitWaits::Ask(std::uint64_t number) {
  const Waiting& waiting = waiting_.at(number);
  coordinator::CommitOptions options = waiting.options;
  options.max_wait = std::min(options.max_wait.value_or(kLookAgain), kLookAgain);
  api_.coordinator.Commit(waiting.id, options, [this, number](Result<TxnView> view) {
    OnAnswer(number, std::move(view));
  });
}

void CommitWaits::OnAnswer(std::uint64_t number, Result<TxnView> view) {
  const auto found = waiting_.find(number);
  Waiting& waiting = found->second;
  const bool in_time = view.ok() && view->state == txn::GlobalTxnState::kCommitting &&
                       waiting.options.wait == coordinator::WaitFor::kComplete;
  std::optional<Duration>& max_wait = waiting.options.max_wait;
  if (in_time && (!max_wait || *max_wait > kLookAgain) && !waiting.gone()) {
    if (max_wait) *max_wait -= kLookAgain;
    return Ask(number);
  }
  if (waiting.timer) api_.executor.Cancel(*waiting.timer);
  const AnswerTxn answer = std::move(waiting.answer);
  waiting_.erase(found);
  answer(std::move(view));
}

void CommitWaits::SettleForDecided(const Waiting& waiting) {
  // Not WaitFor::kDecided, which is refused with an enlisted branch: here the client asks again.
  coordinator::CommitOptions at_once = waiting.options;
  at_once.max_wait = Duration::zero();
  api_.coordinator.Commit(waiting.id, at_once, waiting.answer);
}

void CommitWaits::AnswerDecided() {
  api_.executor.Post([this] {
    answer_decided_ = true;
    for (const auto& [number, waiting] : waiting_) SettleForDecided(waiting);
  });
}

}  // namespace lockstep::server
