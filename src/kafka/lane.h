#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "coordinator/ports.h"
#include "kafka/interrupt.h"
#include "kafka/lane_env.h"
#include "kafka/producer.h"
#include "kafka/work_feed.h"

namespace lockstep::kafka {

/// One transactional producer and the thread on which its blocking calls run. It writes one
/// transaction after another under one transactional.id; between them it is renewed (a new
/// producer, hence a new epoch) unless it is clean.
///
/// All public calls return at once and are carried out on the lane's thread in their order; they
/// may be made on any one thread. Callbacks run on the lane's thread.
class Lane {
 public:
  /// Nothing: it is ready, a transaction may begin. An error: renewing failed, it goes on trying.
  using Listener = std::function<void(std::optional<Error> trouble)>;

  /// Starts the thread; renews as soon as the gate is open.
  Lane(const LaneEnv& env, Listener listener);
  /// Stops: ends waits, drops the producer without ending its transaction, joins the thread. Blocks
  /// for as long as librdkafka's call under way, at most the cluster's request_timeout.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// While the gate is closed no InitProducerId is sent: the cluster is away, or is another one.
  void SetGate(bool open);

  /// Begins a transaction, writes, votes. Only when ready. No vote comes after Abort or Stop.
  void Prepare(txn::BatchWork work, MonoTime give_up, coordinator::Callback<txn::Vote> vote);
  /// As coordinator::Participant::Write and Finish, after a Prepare of streamed work.
  void Write(txn::BranchWork piece, coordinator::Callback<> written);
  void Finish(MonoTime give_up, bool want_positions);
  /// As coordinator::Participant::Commit. After an error the lane is never aborted or renewed
  /// before Release (M17).
  void Commit(coordinator::Callback<Status> done);
  /// Ends a Prepare under way. `done`: aborted, or nothing was begun, or the lane is to be renewed.
  void Abort(coordinator::Callback<> done);
  /// Everything about the transaction is durably settled: ready again if clean, else renews first.
  void Release();
  /// Somebody else sent a request in this lane's name (M4): it is not clean.
  void Touch() { touched_ = true; }
  /// Like the destructor, but returns at once; `stopped` tells when the thread has nothing left to
  /// do. The id is left as it is.
  void Stop();
  bool stopped() const { return stopped_; }
  /// Its connections will be closed by the brokers before long: it should be renewed rather than
  /// begin another transaction. Thread-safe.
  bool aged() const {
    return std::chrono::system_clock::now().time_since_epoch() >= renew_at_.load();
  }

  TransactionalId id() const;  ///< Thread-safe. Changes only while renewing.

 private:
  /// How the transaction went, for the decision between clean and renewed.
  struct Course {
    bool begun = false;
    bool ended = false;      ///< commit_transaction or abort_transaction returned OK.
    bool committed = false;  ///< It was commit_transaction.
    RequestLedger::Counts before;
  };

  void Run();
  void Post(std::function<void()> task);
  void WakePreparation();
  bool AwaitGate();

  void Renew();
  Status TryRenew();
  void LeaveId();
  Status InitTransactions();
  Status BindIdentity();
  void NoteSession();
  void DropProducer();

  void DoPrepare(const txn::BatchWork& work, MonoTime give_up,
                 const coordinator::Callback<txn::Vote>& vote);
  Status DoCommit();
  void DoAbort();
  bool Clean() const;
  bool MarkersMayBeLost() const;
  void Drain(Duration time);
  MonoTime Now() const { return env_.clock.Now(); }

  const LaneEnv& env_;
  const Listener listener_;
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // At most one of each call.
  bool gate_open_ = true;
  bool stopping_ = false;
  bool aborted_ = false;          // Since the last Release: no vote any more.
  Producer* wakeable_ = nullptr;  // The producer that an Abort has to wake.
  TransactionalId id_;

  WorkFeed feed_;

  std::atomic<bool> touched_{false};
  /// Of the system's clock, as tokens count; the longest if there is no such time.
  std::atomic<std::chrono::system_clock::duration> renew_at_{
      std::chrono::system_clock::duration::max()};
  std::atomic<bool> stopped_{false};

  // The thread's own.
  std::unique_ptr<Producer> producer_;
  txn::ProducerInstance identity_;
  bool id_spoiled_ = false;  // Nothing may be begun on this id any more: see TryRenew.
  Course course_;

  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::kafka
