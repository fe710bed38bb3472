#include <chrono>
#include <utility>

#include "sim_client.h"
#include "world.h"

/// SimClient: whole transactions under a key of its own, which it sends again and again.
namespace lockstep::sim {
namespace {

using coordinator::Coordinator;
using coordinator::Submission;
using coordinator::Submitted;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostCallsOfAKey = 8;
constexpr int kMostClockDifferenceMs = 120'000;

}  // namespace

void SimClient::NewKey() {
  Random& random = world_.random();
  keyed_ = true;
  calls_of_key_ = 0;
  key_.key = "key-" + std::to_string(number_) + "." + std::to_string(++keys_);
  key_.birth = WallTime{world_.clock().WallNow().ms +
                        random.Between(-kMostClockDifferenceMs, kMostClockDifferenceMs)};
  key_.digest = "some work";
  branches_ = SomeClusters();
  Execute();
}

/// A late copy of a call, or another try, is the same to the server if key and digest are. The tags
/// are each call's own, so that the oracle can tell whose work it sees.
void SimClient::Submit(Coordinator& coordinator, const txn::ClientKey& key,
                       const std::vector<ClusterName>& clusters, const SubmitAnswer& done) {
  Random& random = world_.random();
  Submission submission{.key = key, .timeout = seconds(random.Between(1, 30)), .label = "keyed"};
  if (random.Chance(0.05)) submission.key.digest = "other work";
  const std::string call = key.key + "." + std::to_string(++submits_);
  Oracle::Work work;
  for (const ClusterName& cluster : clusters) {
    std::vector<std::string> tags;
    submission.parts.push_back({.cluster = cluster,
                                .work = SomeWork(call, cluster, tags),
                                .expected_cluster = SomeExpectedCluster(cluster)});
    work[cluster].insert(tags.begin(), tags.end());
  }
  const txn::ClientKey asked = submission.key;
  coordinator.Submit(std::move(submission), [asked, call, work, done, &oracle = world_.oracle()](
                                                const Result<Submitted>& answer) {
    oracle.OnSubmitted(asked, call, work, answer);
    done(answer);
  });
}

void SimClient::Execute() {
  if (stopped_ || ++calls_of_key_ > kMostCallsOfAKey) return NextTxn();
  Call(
      [&](Coordinator& coordinator) {
        Submit(coordinator, key_, branches_,
               [this, life = Life(life_), attempt = attempt_](const Result<Submitted>& answer) {
                 if (life.lock() == nullptr) return;
                 Then(attempt, [this, answer] { Executed(answer); });
               });
      },
      [this] { Execute(); });
  if (!world_.random().Chance(0.2)) return;
  // Held up on the way: it arrives when nobody waits for it any more, maybe at another process.
  After(world_.random().Between(Duration{}, Duration(seconds(20))),
        [this, key = key_, clusters = branches_] {
          if (Coordinator* coordinator = world_.coordinator()) {
            Submit(*coordinator, key, clusters, [](const Result<Submitted>&) {});
          }
        });
}

void SimClient::Executed(const Result<Submitted>& answer) {
  if (!answer.ok()) {
    // Forgotten, or not acceptable to a server whose clock was set back: no retry helps.
    const Code code = answer.error().code;
    if (code == Code::kNotFound || code == Code::kInvalidArgument) return NextTxn();
    return After(milliseconds(500), [this] { Execute(); });
  }
  if (answer->other_work) return Execute();
  id_ = answer->id;
  world_.random().Chance(0.1) ? Abort() : Commit();
}

void SimClient::AnsweredFinally(bool committed) {
  // Who was told ABORTED tries again, for that is what the key is for; who was told COMMITTED may
  // ask again.
  if (world_.random().Chance(committed ? 0.3 : 0.7)) return Execute();
  NextTxn();
}

}  // namespace lockstep::sim
