#include "kafka/lane.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/planted.h"
#include "kafka/prepare.h"

namespace lockstep::kafka {
namespace {

// Waits are cut into slices, so that a lane that is to stop notices.
constexpr Duration kSlice = std::chrono::milliseconds(200);
constexpr std::size_t kWarmTopics = 100;
constexpr Duration kRetryFirst = std::chrono::milliseconds(100);
constexpr Duration kRetryLast = std::chrono::seconds(5);

Duration Backoff(int attempt) {
  return std::min<Duration>(kRetryFirst * (1 << std::min(attempt, 10)), kRetryLast);
}

Error AtFailpoint() { return MakeError(Code::kInternal, "a failpoint says so", Effect::kUnknown); }

}  // namespace

Lane::Lane(const LaneEnv& env, Listener listener)
    : env_(env), listener_(std::move(listener)), id_(env.next_id()) {
  Post([this] { Renew(); });
  thread_ = std::thread([this] { Run(); });
}

Lane::~Lane() {
  Stop();
  thread_.join();
}

void Lane::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  interrupt_->Raise();
  if (wakeable_ != nullptr) wakeable_->Wake();
}

void Lane::SetGate(bool open) {
  const std::lock_guard lock(mutex_);
  gate_open_ = open;
  changed_.notify_all();
}

TransactionalId Lane::id() const {
  const std::lock_guard lock(mutex_);
  return id_;
}

void Lane::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

// What was asked for is carried out even when stopping: each call's callback is owed, and with the
// interrupt raised none of them takes long.
void Lane::Run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) break;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
  DropProducer();
  stopped_ = true;
}

// ---- Renewing -----------------------------------------------------------------------------------

bool Lane::AwaitGate() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || gate_open_; });
  return !stopping_;
}

void Lane::Renew() {
  DropProducer();
  for (int attempt = 0; AwaitGate(); ++attempt) {
    const Status renewed = TryRenew();
    if (renewed.ok()) return listener_(std::nullopt);
    DropProducer();
    listener_(renewed.error());
    if (interrupt_->Sleep(Backoff(attempt))) return;
  }
}

Status Lane::TryRenew() {
  if (FailpointHit(Failpoint::kLaneBeforeInit, env_.tag())) return AtFailpoint();
  auto producer =
      Producer::Create(env_.config, id(), env_.transaction_timeout, env_.log, env_.requests_sent);
  if (!producer.ok()) return producer.error();
  producer_ = std::move(*producer);
  if (Status status = InitTransactions(); !status.ok()) return status;
  const bool settled = producer_->ledger().Of(TxnApi::kInitProducerId).settled();
  if ((id_spoiled_ || !settled) && !Planted(PlantedBug::kInitReusesId)) {
    // An InitProducerId without an answer may still arrive, and would then abort a transaction of
    // ours, perhaps a decided one; or a marker may be missing. What was open on the id is aborted
    // now: leave it, and take another.
    LeaveId();
    return TryRenew();
  }
  if (Status status = BindIdentity(); !status.ok()) return status;
  if (FailpointHit(Failpoint::kLaneAfterInit, env_.tag())) return AtFailpoint();
  // What the lanes of this cluster write to, they will write to again.
  producer_->Warm(env_.topics.Known(kWarmTopics), env_.config.request_timeout);
  touched_ = false;
  course_ = {};
  NoteSession();
  return {};
}

/// Between half and three quarters of its session from now; not the same for all, or a cluster
/// would be without lanes while they are renewed together.
void Lane::NoteSession() {
  using Clock = std::chrono::system_clock;
  const auto end = producer_->session_end();
  if (!end) {
    renew_at_ = Clock::duration::max();
    return;
  }
  const auto now = Clock::now();
  const auto spread = std::hash<std::string>()(id().get()) % 8;
  renew_at_ = (now + (*end - now) * (16 + static_cast<int>(spread)) / 32).time_since_epoch();
}

void Lane::LeaveId() {
  DropProducer();
  id_spoiled_ = false;
  const TransactionalId next = env_.next_id();
  spdlog::info("cluster {}: {} is not used again: its lane goes on as {}", env_.tag(), id().get(),
               next.get());
  const std::lock_guard lock(mutex_);
  id_ = next;
}

Status Lane::InitTransactions() {
  const MonoTime give_up = Now() + env_.config.end_timeout;
  for (;;) {
    const auto failure = producer_->InitTransactions(kSlice);
    if (!failure) return {};
    const bool over = interrupt_->raised() || Now() >= give_up;
    if (!failure->retriable || over) return ToError(*failure);
  }
}

// librdkafka does not tell the producer id and epoch that InitProducerId gave. The broker does.
Status Lane::BindIdentity() {
  const TransactionalId id = this->id();
  const auto described = interrupt_->Await<txn::TxnDescription>([&](auto done) {
    env_.wire.DescribeTransaction(id, env_.config.request_timeout, std::move(done));
  });
  if (!described.ok()) return described.error();
  if (!described->exists || described->state != txn::KafkaTxnState::kEmpty) {
    return MakeError(Code::kAborted, id.get() + " should be Empty, and is " +
                                         (described->exists ? std::string(Name(described->state))
                                                            : "unknown to the broker"));
  }
  identity_ = {id, described->producer_id, described->producer_epoch};
  return {};
}

void Lane::DropProducer() {
  if (producer_ == nullptr) return;
  if (!producer_->ledger().Of(TxnApi::kInitProducerId).settled()) id_spoiled_ = true;
  producer_.reset();
}

// ---- One transaction ----------------------------------------------------------------------------

void Lane::Prepare(txn::BatchWork work, MonoTime give_up, coordinator::Callback<txn::Vote> vote) {
  Post([this, work = std::move(work), give_up, vote = std::move(vote)] {
    DoPrepare(work, give_up, vote);
  });
}

void Lane::Write(txn::BranchWork piece, coordinator::Callback<> written) {
  feed_.Put({std::move(piece), std::move(written)});
  WakePreparation();
}

void Lane::Finish(MonoTime give_up, bool want_positions) {
  feed_.Finish({give_up, want_positions});
  WakePreparation();
}

void Lane::WakePreparation() {
  const std::lock_guard lock(mutex_);
  if (wakeable_ != nullptr) wakeable_->Wake();
}

void Lane::DoPrepare(const txn::BatchWork& work, MonoTime give_up,
                     const coordinator::Callback<txn::Vote>& vote) {
  course_ = {.before = producer_->ledger().All()};
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    wakeable_ = producer_.get();
  }
  Preparation preparation(env_, identity_, *producer_, *interrupt_, work, give_up, feed_);
  const txn::Vote result = preparation.Run();
  course_.begun = preparation.begun();
  {
    const std::lock_guard lock(mutex_);
    wakeable_ = nullptr;
    if (aborted_) return;
  }
  vote(result);
}

void Lane::Commit(coordinator::Callback<Status> done) {
  Post([this, done = std::move(done)] { done(DoCommit()); });
}

Status Lane::DoCommit() {
  if (FailpointHit(Failpoint::kLaneBeforeCommit, env_.tag())) return AtFailpoint();
  const MonoTime give_up = Now() + env_.config.end_timeout;
  for (;;) {
    const auto failure = producer_->CommitTransaction(kSlice);
    if (!failure) break;
    const bool over = interrupt_->raised() || Now() >= give_up;
    if ((!failure->retriable || over) && Planted(PlantedBug::kErrorIsOutcome)) break;
    if (!failure->retriable || over) return ToError(*failure);
  }
  if (FailpointHit(Failpoint::kLaneAfterCommit, env_.tag())) return AtFailpoint();
  course_.ended = true;
  course_.committed = true;
  return {};
}

void Lane::Abort(coordinator::Callback<> done) {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    if (wakeable_ != nullptr) wakeable_->Wake();
    interrupt_->Raise();
  }
  Post([this, done = std::move(done)] {
    DoAbort();
    done();
  });
}

void Lane::DoAbort() {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) interrupt_->Clear();
  }
  if (!course_.begun || producer_->dead()) return;
  if (FailpointHit(Failpoint::kLaneBeforeAbort, env_.tag())) return;
  const MonoTime give_up = Now() + env_.config.end_timeout;
  // abort_transaction waits for records under way, but only someone who takes up reports ends that.
  // A record whose fate is open makes the lane unclean anyway: renewed at Release, which aborts
  // too.
  producer_->PurgeUnsent();
  Drain(env_.config.request_timeout);
  if (producer_->Undelivered() > 0) return;
  for (;;) {
    const auto failure = producer_->AbortTransaction(kSlice);
    if (!failure) break;
    if (!failure->retriable || interrupt_->raised() || Now() >= give_up) return;
  }
  if (FailpointHit(Failpoint::kLaneAfterAbort, env_.tag())) return;
  course_.ended = true;
}

void Lane::Drain(Duration time) {
  const MonoTime give_up = Now() + time;
  do {
    // A record that was thrown away unsent leaves a gap in librdkafka's numbering, which fails the
    // next transaction.
    producer_->TakeReports(std::clamp<Duration>(give_up - Now(), Duration::zero(), kSlice),
                           [this](const DeliveryReport& report) {
                             if (report.failure) touched_ = true;
                           });
  } while (producer_->Undelivered() > 0 && Now() < give_up && !interrupt_->raised());
}

void Lane::Release() {
  Post([this] {
    {
      const std::lock_guard lock(mutex_);
      aborted_ = false;
    }
    feed_.Clear();
    if (MarkersMayBeLost()) id_spoiled_ = true;
    if (!id_spoiled_ && Clean()) return listener_(std::nullopt);
    Renew();
  });
}

// The markers of a commit were checked before Release. Those of an abort were not, and a record
// whose ABORT marker was left out stays open under its producer id: the next COMMIT marker of that
// producer id there would commit it. No new epoch helps, only another producer id, hence another
// id.
bool Lane::MarkersMayBeLost() const {
  if (Planted(PlantedBug::kAbortedIdReused)) return false;
  return env_.may_lose_markers && course_.begun && !course_.committed;
}

bool Lane::Clean() const {
  if (touched_ || aged() || producer_->dead() || course_.begun != course_.ended) return false;
  return IsClean(course_.before, producer_->ledger().All());
}

}  // namespace lockstep::kafka
