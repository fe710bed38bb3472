#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/ports.h"
#include "wire/client.h"

namespace lockstep::kafka {

/// Shuts the door behind earlier incarnations: takes their transactional ids over
/// (InitProducerId), which aborts what they left open and refuses what a dead process may still
/// have on the way. Goes on until each is fenced, some at a time.
///
/// Never to be given an id with a pending decision: the answer to the question what became of it
/// would be gone. Lives on the executor.
class Fencer : public std::enable_shared_from_this<Fencer> {
 public:
  /// `progress` is called on the executor after each try.
  Fencer(ClusterName cluster, wire::Client& wire, coordinator::Executor& executor, Duration timeout,
         std::function<void()> progress);

  /// Ids wait until the first Open.
  void Open(std::chrono::milliseconds transaction_timeout);
  void Fence(TransactionalId id);

  bool tried_all() const { return untried_ == 0; }
  const std::string& problem() const { return problem_; }  ///< Empty while all goes well.

 private:
  struct Work {
    TransactionalId id;
    bool tried = false;
  };
  void Serve();
  void OnAnswer(Work work, const Result<wire::ProducerIdentity>& answer);

  const ClusterName cluster_;
  wire::Client& wire_;
  coordinator::Executor& executor_;
  const Duration timeout_;
  const std::function<void()> progress_;

  std::chrono::milliseconds transaction_timeout_{0};  // 0: not open yet.
  std::deque<Work> queue_;
  std::size_t in_flight_ = 0;
  std::size_t untried_ = 0;
  std::string problem_;
};

}  // namespace lockstep::kafka
