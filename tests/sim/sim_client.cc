#include "sim_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "world.h"

namespace lockstep::sim {
namespace {

using coordinator::Coordinator;
using coordinator::TxnView;
using std::chrono::milliseconds;
using std::chrono::seconds;
using txn::GlobalTxnState;

}  // namespace

void SimClient::Start() {
  txns_left_ = world_.options().txns;
  NextTxn();
}

void SimClient::StartLast() {
  must_commit_ = true;
  // A lane that is found to be fenced costs one transaction.
  txns_left_ = world_.options().clusters * world_.options().lanes + 2;
  NextTxn();
}

void SimClient::NextTxn() {
  if (stopped_ || txns_left_ == 0) {
    done_ = true;
    return;
  }
  --txns_left_;
  keyed_ = false;
  // Worlds without keys draw nothing for them: they stay the worlds that they were.
  const double share = must_commit_ ? 0 : world_.options().keyed;
  const bool keyed = share > 0 && world_.random().Chance(share);
  After(world_.random().Between(Duration{}, world_.options().longest_pause),
        [this, keyed] { keyed ? NewKey() : Begin(); });
}

void SimClient::Begin() {
  const Duration timeout = must_commit_ ? seconds(30) : seconds(world_.random().Between(1, 30));
  Call(
      [&](Coordinator& coordinator) {
        coordinator.Begin(timeout, "client " + std::to_string(number_),
                          [this, life = Life(life_), attempt = attempt_,
                           &oracle = world_.oracle()](const View& view) {
                            if (view.ok()) oracle.OnBegan(view->id);
                            if (life.lock() == nullptr) return;
                            Then(attempt, [this, view] { Begun(view); });
                          });
      },
      [this] { Begin(); });
}

void SimClient::Begun(const View& view) {
  if (!view.ok()) return NextTxn();
  id_ = view->id;
  next_sequence_ = 0;
  branches_ = SomeClusters();
  AddWork();
}

std::vector<ClusterName> SimClient::SomeClusters() {
  std::vector<ClusterName> all;
  for (const auto& [name, broker] : world_.brokers()) all.push_back(name);
  int calls = world_.random().Between(0, 5);
  if (must_commit_ || (world_.options().crowd && world_.random().Chance(0.7))) return all;
  std::vector<ClusterName> some;
  for (; calls > 0; --calls) {
    some.push_back(all[world_.random().Below(all.size())]);
  }
  return some;
}

std::string SimClient::NewTag(const std::string& whose, const ClusterName& cluster,
                              std::vector<std::string>& tags) {
  tags.push_back(whose + "/" + cluster.get() + "/" + std::to_string(++tags_));
  return tags.back();
}

txn::BranchWork SimClient::SomeWork(const std::string& whose, const ClusterName& cluster,
                                    std::vector<std::string>& tags) {
  Random& random = world_.random();
  txn::BranchWork work;
  const int fewest = world_.options().crowd ? 1 : 0;
  for (int i = random.Between(fewest, 3); i > 0 || (must_commit_ && work.empty()); --i) {
    txn::Record record{.topic = "t", .partition = random.Between(0, 2)};
    record.value = NewTag(whose, cluster, tags);
    if (!must_commit_ && random.Chance(0.02)) record.topic = "no-such-topic";
    work.records.push_back(std::move(record));
  }
  if (random.Chance(0.3)) {
    const bool standalone = random.Chance(0.5);
    txn::GroupOffsets group{.group_id = standalone ? "alone" : "members", .standalone = standalone};
    if (!standalone) {
      group.member_id = "member";
      group.generation = !must_commit_ && random.Chance(0.1) ? 4 : 5;  // 4 is stale.
    }
    group.offsets.push_back({.partition = {"source", random.Between(0, 1)},
                             .offset = random.Between(0, 1'000),
                             .metadata = NewTag(whose, cluster, tags)});
    work.offsets.push_back(std::move(group));
  }
  return work;
}

std::optional<KafkaClusterId> SimClient::SomeExpectedCluster(const ClusterName& cluster) {
  if (must_commit_ || world_.random().Chance(0.9)) return std::nullopt;
  return KafkaClusterId(world_.random().Chance(0.5) ? "id-of-" + cluster.get() : "another");
}

void SimClient::AddWork() {
  if (branches_.empty()) return Finish();
  const ClusterName cluster = branches_.back();
  std::vector<std::string> tags;
  const txn::BranchWork work = SomeWork(id_.get(), cluster, tags);
  const auto expected = SomeExpectedCluster(cluster);
  Call(
      [&](Coordinator& coordinator) {
        // An impatient caller says it twice; it must count once.
        const int times = world_.random().Chance(0.1) ? 2 : 1;
        for (int i = 0; i < times; ++i) {
          coordinator.AddWork(
              id_, cluster, work, next_sequence_, expected,
              [this, id = id_, cluster, tags, sequence = next_sequence_, life = Life(life_),
               attempt = attempt_, &oracle = world_.oracle()](const Status& status) {
                if (status.ok()) oracle.OnAdded(id, cluster, sequence, tags);
                if (life.lock() == nullptr) return;
                Then(attempt, [this, ok = status.ok()] {
                  if (!ok) return Finish();
                  ++next_sequence_;
                  branches_.pop_back();
                  AddWork();
                });
              });
        }
      },
      [this] { Finish(); });  // No answer: the transaction died with the process, most likely.
}

coordinator::CommitOptions SimClient::SomeCommitOptions() {
  coordinator::CommitOptions options;
  if (must_commit_) return options;
  if (world_.random().Chance(0.2)) options.wait = coordinator::WaitFor::kDecided;
  if (world_.random().Chance(0.3)) {
    options.max_wait = world_.random().Between(Duration{}, Duration(seconds(2)));
  }
  return options;
}

void SimClient::Finish() {
  const int choice = must_commit_ ? 0 : world_.random().Between(0, 99);
  if (choice < 70) return Commit();
  if (choice < 80) return Abort();
  if (choice < 92) {
    // Both at once, in either order; the second call's answer is the one that is waited for.
    if (world_.random().Chance(0.5)) {
      Commit();
      return Abort();
    }
    Abort();
    return Commit();
  }
  NextTxn();  // Never heard of again.
}

void SimClient::Commit() {
  Call(
      [&](Coordinator& coordinator) {
        coordinator.Commit(id_, SomeCommitOptions(),
                           [this, id = id_, life = Life(life_), attempt = attempt_,
                            &oracle = world_.oracle()](const View& view) {
                             oracle.OnAnswer(id, view);
                             if (life.lock() == nullptr) return;
                             Then(attempt, [this, view] { Answered(view); });
                           });
      },
      [this] {
        if (keyed_) return Execute();  // Which finds the run again, if there is one.
        world_.random().Chance(0.5) ? Commit() : Get();
      });
}

void SimClient::Abort() {
  Call(
      [&](Coordinator& coordinator) {
        coordinator.Abort(id_, [this, id = id_, life = Life(life_), attempt = attempt_,
                                &oracle = world_.oracle()](const View& view) {
          oracle.OnAnswer(id, view);
          if (life.lock() == nullptr) return;
          Then(attempt, [this, view] { Answered(view); });
        });
      },
      [this] { Abort(); });
}

void SimClient::Get() {
  Call(
      [&](Coordinator& coordinator) {
        coordinator.Get(id_, [this, id = id_, life = Life(life_), attempt = attempt_,
                              &oracle = world_.oracle()](const View& view) {
          oracle.OnAnswer(id, view);
          if (life.lock() == nullptr) return;
          Then(attempt, [this, view] { Answered(view); });
        });
      },
      [this] { Get(); });
}

void SimClient::Answered(const View& view) {
  if (!view.ok()) {
    if (view.error().code == Code::kNotFound) return NextTxn();  // Forgotten.
    return After(milliseconds(500), [this] { Get(); });
  }
  switch (view->state) {
    case GlobalTxnState::kActive:
      return Commit();
    case GlobalTxnState::kPreparing:
    case GlobalTxnState::kCommitting:
      // Asked again now and then; in a bad world it stops asking.
      if (world_.random().Chance(0.1)) return NextTxn();
      return After(world_.random().Between(Duration(milliseconds(50)), Duration(seconds(2))),
                   [this] { Get(); });
    case GlobalTxnState::kAborting:
    case GlobalTxnState::kAborted:
    case GlobalTxnState::kHeuristic:
      if (keyed_) return AnsweredFinally(view->state == GlobalTxnState::kHeuristic);
      // Whoever waits for the last one says so.
      if (must_commit_ && txns_left_ == 0) return;
      return NextTxn();
    case GlobalTxnState::kCommitted:
      if (keyed_) return AnsweredFinally(true);
      if (!must_commit_) return NextTxn();
      done_ = true;
      return;
  }
}

}  // namespace lockstep::sim
