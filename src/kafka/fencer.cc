#include "kafka/fencer.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/failpoint.h"

namespace lockstep::kafka {
namespace {

constexpr std::size_t kAtOnce = 16;
constexpr Duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

Fencer::Fencer(ClusterName cluster, wire::Client& wire, coordinator::Executor& executor,
               Duration timeout, std::function<void()> progress)
    : cluster_(std::move(cluster)),
      wire_(wire),
      executor_(executor),
      timeout_(timeout),
      progress_(std::move(progress)) {}

void Fencer::Open(std::chrono::milliseconds transaction_timeout) {
  transaction_timeout_ = transaction_timeout;
  Serve();
}

void Fencer::Fence(TransactionalId id) {
  ++untried_;
  queue_.push_back({std::move(id)});
  Serve();
}

void Fencer::Serve() {
  if (transaction_timeout_.count() == 0) return;
  while (!queue_.empty() && in_flight_ < kAtOnce) {
    Work work = std::move(queue_.front());
    queue_.pop_front();
    ++in_flight_;
    PassFailpoint(Failpoint::kFenceBefore, cluster_.get());
    const TransactionalId id = work.id;
    wire_.InitProducerId(id, transaction_timeout_, timeout_,
                         [weak = weak_from_this(), &executor = executor_,
                          work = std::move(work)](Result<wire::ProducerIdentity> answer) {
                           executor.Post([weak, work, answer = std::move(answer)] {
                             if (const auto self = weak.lock()) self->OnAnswer(work, answer);
                           });
                         });
  }
}

void Fencer::OnAnswer(Work work, const Result<wire::ProducerIdentity>& answer) {
  --in_flight_;
  if (!std::exchange(work.tried, true)) --untried_;
  if (answer.ok()) {
    PassFailpoint(Failpoint::kFenceAfter, cluster_.get());
    spdlog::debug("cluster {}: fenced {}", cluster_.get(), work.id.get());
    problem_.clear();
  } else {
    problem_ = "fencing " + work.id.get() + ": " + ToString(answer.error());
    executor_.PostAfter(kRetryAfter, [weak = weak_from_this(), work = std::move(work)] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->queue_.push_back(work);
      self->Serve();
    });
  }
  progress_();
  Serve();
}

}  // namespace lockstep::kafka
